"""Every command of docs/reference/api.md is executed by a real server."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import api_reference
from tests.support.identity_provider import provider_in_a_thread
from tests.support.processes import KEY, Api, running_up, until, worker_key
from timeball.api.app import ROUTES
from timeball.api.routing import Route

DAILY = {"type": "cron", "expression": "0 2 * * *"}
ECHO = {"kind": "shell", "command": "echo '::result {\"rows\": 3}'"}
FALSE = {"kind": "shell", "command": "false"}
NEVER_AGAIN = {"maxRetries": 0}
IN_ORDER = sorted(ROUTES, key=lambda route: (route.method, route.path) == ("DELETE", "/v1/tenants/{tenantId}"))
"""The tenant of the other routes is deleted last."""
CURL_TIMED_OUT = 28
"""The exit code of curl when it has received an answer without an end for --max-time."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Api, Path]]:
    folder = tmp_path_factory.mktemp("reference")
    with (
        provider_in_a_thread() as provider,
        running_up(
            folder, environment={"TIMEBALL_JWT_ISSUER": provider.url, "TIMEBALL_OIDC_CLIENT_ID": "timeball-ui"}
        ) as (_, api),
    ):
        api.await_workers(1)
        (folder / "auth").write_text(f"Authorization: Bearer {KEY}\n")
        (folder / "worker-auth").write_text(f"Authorization: Bearer {worker_key(api)}\n")
        api.call("PUT", "/v1/tasks/send-mail", expect=(200, 201), json=ECHO)
        yield api, folder


@pytest.mark.xdist_group("api reference")
@pytest.mark.parametrize("route", IN_ORDER, ids=api_reference.name)
def test_the_command_of_a_route_is_answered_without_an_error(server: tuple[Api, Path], route: Route) -> None:
    api, folder = server
    command = api_reference.command(route)
    needed = set(re.findall(r"\$([A-Z_]+)", command)) - {"URL"}
    variables = {name: _prepared(api, folder, name, route) for name in needed}
    if "{name}" in route.path:
        api.call("PUT", "/v1/calendars/freeze", expect=(200, 201), json={"entries": [{"dates": ["2026-10-03"]}]})
    if route.path in ("/jobs", "/v1/tasks/{taskId}"):
        api.call("PUT", "/v1/tasks/send-mail", expect=(200, 201), json=ECHO)
    if api_reference.name(route) == "POST /v1/users":
        api.http.delete("/v1/users/anna")
    if "{userId}" in route.path:
        api.call("POST", "/v1/users", expect=(201, 409), json={"userId": "anna", "role": "editor"})
    if "{tenantId}" in route.path:
        api.call("POST", "/v1/tenants", expect=(201, 409), json={"tenantId": "acme"})
    is_endless = route.content_type == "text/event-stream"
    options = "--fail-with-body --max-time 2" if is_endless else "--fail-with-body"
    done = subprocess.run(
        ["bash", "-euc", command.replace("curl -sS", f"curl -sS {options}", 1)],
        cwd=folder,
        env={**os.environ, "URL": api.url, **variables},
        capture_output=True,
        text=True,
    )
    assert done.returncode == (CURL_TIMED_OUT if is_endless else 0), (command, done.stdout, done.stderr)


def _prepared(api: Api, folder: Path, variable: str, route: Route) -> str:
    """The id of something on which the route can work."""
    action = route.path.rpartition("/")[2]
    match variable:
        case "JOB":
            job_id = api.create({"name": "nightly-etl", "task": ECHO, "schedule": DAILY})
            if action == "logs":
                api.call("POST", f"/v1/jobs/{job_id}/run", expect=(200, 201, 202))
                until(lambda: api.ended_run_of(job_id), "the run to end")
            return job_id
        case "RUN":
            if action == "cancel":
                job_id = api.create({"task": {"kind": "shell", "command": "sleep 60"}})
                return str(until(lambda: api.run_of(job_id), "the run to be there")["runId"])
            job_id = api.create({"task": FALSE if action == "retry" else ECHO, "retry": NEVER_AGAIN})
            return str(until(lambda: api.ended_run_of(job_id), "the run to end")["runId"])
        case "WORKFLOW" | "WORKFLOW_RUN":
            task = {"name": "only", "task": FALSE if action == "retry" else ECHO, "retry": NEVER_AGAIN}
            body = {"name": "flow", "tasks": [task], "schedule": DAILY}
            workflow_id = str(api.call("POST", "/v1/workflows", expect=201, json=body)["workflowId"])
            if variable == "WORKFLOW":
                if action == "resume":
                    api.call("POST", f"/v1/workflows/{workflow_id}/pause")
                return workflow_id
            run_id = str(api.call("POST", f"/v1/workflows/{workflow_id}/run", expect=(200, 201, 202))["runId"])
            if action == "retry":
                ended = lambda: api.call("GET", f"/v1/workflow-runs/{run_id}")["status"] == "failed" or None  # noqa: E731
                until(ended, "the workflow run to fail")
            return run_id
        case "BACKFILL":
            job_id = api.create({"task": {"kind": "shell", "command": "sleep 1"}, "schedule": DAILY})
            body = {"from": "2026-02-01T00:00:00Z", "to": "2026-02-20T00:00:00Z"}
            answer = api.call("POST", f"/v1/jobs/{job_id}/backfill", expect=(200, 201, 202), json=body)
            return str(answer["backfillId"])
        case "KEY_ID":
            return str(api.call("POST", "/v1/api-keys", expect=(200, 201), json={"role": "worker"})["keyId"])
        case "TOKEN":
            return str(api.call("POST", "/v1/sign-in-links", expect=201)["url"]).rpartition("=")[2]
        case "WEB_SESSION":
            own_page = {"Origin": api.url, "Content-Type": "application/json"}
            answer = api.http.post("/v1/sign-in", json={"apiKey": KEY}, headers=own_page)
            api.http.cookies.clear()
            return str(answer.json()["session"]["id"])
        case "SESSION" | "WORKER":
            name, _, value = (folder / "worker-auth").read_text().strip().partition(": ")
            hello = api.http.post("/v1/worker/hello", json={"name": "hand", "slots": 1}, headers={name: value})
            return str(hello.json()["session"])
        case _:
            raise AssertionError(variable)
