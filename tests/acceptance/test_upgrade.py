"""A store of the version before tenants, with data of every kind, after the upgrade: everything is there, in the
default tenant, keys work with the roles that the changelog names, and a worker of the earlier version goes on."""

from __future__ import annotations

import contextlib
import datetime as dt
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.revisions import ROOT
from tests.support.postgres import PostgresCluster
from tests.support.processes import Api, Process, data_dir, free_port, until, worker_key
from tests.support.versions import source_before

BEFORE_TENANTS = "31eaa4225603cf2da8ec49e0112f3dc9ea4eeaaf"
LATER = "2036-05-01T10:00:00Z"
TASKS = "tests.acceptance.version_tasks"
ONLY_OLD = {"runsOn": ["old"]}

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def environments(pytestconfig: pytest.Config) -> dict[str, dict[str, str]]:
    assert pytestconfig.cache is not None
    old = source_before(pytestconfig.cache.mkdir("timeball-versions"), BEFORE_TENANTS)
    return {name: {"PYTHONPATH": str(source)} for name, source in (("old", old), ("new", ROOT / "src"))}


@pytest.fixture(params=["sqlite", "postgres"])
def command(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[str]]:
    """The command that starts a server on an empty store. It has a worker of its own, or needs one."""
    common = ["--data-dir", str(data_dir(tmp_path)), "--port", str(free_port())]
    if request.param == "sqlite":
        yield ["up", *common]
        return
    postgres: PostgresCluster = request.getfixturevalue("postgres")
    dsn = postgres.create_database()
    yield ["server", *common, "--store", dsn]
    postgres.drop_database(dsn)


@contextlib.contextmanager
def serving(folder: Path, command: list[str], environment: dict[str, str]) -> Iterator[Api]:
    url = f"http://127.0.0.1:{command[command.index('--port') + 1]}"
    with Process(folder, command, environment) as process, Api(url) as api:
        api.await_ready(process)
        yield api
        process.popen.send_signal(signal.SIGTERM)
        assert process.popen.wait(30) == 0, process.output
        assert "Traceback" not in process.output, process.output


class Data:
    """What a store of the earlier version has, with what its server answered about it."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.jobs: dict[str, str] = {}
        self.keys: dict[str, str] = {}
        self.answers: dict[str, Any] = {}

    def fill(self, gate: Path) -> None:
        """Jobs of every kind of schedule, keys, a task, a calendar, a workflow, dead letters, history and a ledger."""
        api, shell = self._api, {"kind": "shell", "command": "echo hello"}
        self.keys = {role: self._key(role) for role in ("admin", "worker")}
        closed = {"entries": [{"dates": ["2030-12-25"]}]}
        api.call("PUT", "/v1/calendars/holidays", expect=(200, 201), json=closed)
        api.call("PUT", "/v1/tasks/greet", expect=(200, 201), json=shell)
        every = {"type": "interval", "expression": "1s"}
        self._create("ticking", task=shell, schedule=every)
        self._create("cron", task=shell, schedule={"type": "cron", "expression": "0 2 * * *"}, calendars=["holidays"])
        self._create("dated", task=shell, schedule={"type": "date", "expression": LATER}, tags=["etl"], userId="ann")
        self._create("greeting", taskId="greet")
        self._create("done", task=shell, idempotencyKey="once")
        self._create("dead", task={"kind": "shell", "command": "exit 3"}, retry={"maxRetries": 0})
        workflow = {
            "kind": "workflow",
            "tasks": [{"name": "a", "task": shell}, {"name": "b", "task": shell, "needs": ["a"]}],
        }
        self._create("workflow", task=workflow)
        held = {"kind": "python", "function": "version.hold"}
        parameters = {"witness": str(gate.with_name("witness")), "group": "held", "gate": str(gate)}
        self._create("held", task=held, parameters=parameters, **ONLY_OLD)
        api.call("PATCH", f"/v1/jobs/{self.jobs['cron']}", json={"description": "changed"})
        for name in ("greeting", "done", "dead", "workflow"):
            until(lambda name=name: api.ended_run_of(self.jobs[name]), f"the end of {name}")
        until(lambda: self._ledger("ticking")["due"] >= 3, "three fires of the job that ticks")
        api.call("POST", f"/v1/jobs/{self.jobs['ticking']}/pause", json={"reason": "for the upgrade"})
        until(lambda: self._is_running("held"), "a run that a worker of the earlier version executes")
        until(lambda: not self._alive("ticking"), "the last run of the job that ticks")
        self.answers = self.read(api)

    def read(self, api: Api) -> dict[str, Any]:
        paths = {
            "jobs": "/v1/jobs?limit=100",
            "runs": "/v1/runs?limit=100",
            "tasks": "/v1/tasks",
            "calendars": "/v1/calendars",
            "dead letters": "/v1/dead-letters",
            **{f"job {name}": f"/v1/jobs/{job_id}" for name, job_id in self.jobs.items()},
            **{f"ledger of {name}": f"/v1/jobs/{job_id}/ledger" for name, job_id in self.jobs.items()},
            **{f"versions of {name}": f"/v1/jobs/{job_id}/versions" for name, job_id in self.jobs.items()},
        }
        found = {name: api.call("GET", path) for name, path in paths.items()}
        for name in ("done", "dead"):
            run = api.ended_run_of(self.jobs[name])
            assert run is not None
            found[f"output of {name}"] = api.call("GET", f"/v1/runs/{run['runId']}/logs")
        return found

    def _create(self, name: str, **job: Any) -> None:
        self.jobs[name] = self._api.create({"name": name, **job})

    def _key(self, role: str) -> str:
        made = self._api.call("POST", "/v1/api-keys", expect=(200, 201), json={"role": role, "name": f"old {role}"})
        return str(made["key"])

    def _ledger(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self._api.call("GET", f"/v1/jobs/{self.jobs[name]}/ledger")
        return found

    def _is_running(self, name: str) -> bool:
        run = self._api.run_of(self.jobs[name])
        return run is not None and run["status"] == "running"

    def _alive(self, name: str) -> bool:
        return "open" in self._ledger(name)["counts"]


def has_all(new: Any, old: Any, where: str) -> None:
    """Fail unless an answer has everything of an earlier one. It may have more fields."""
    if isinstance(old, dict):
        assert isinstance(new, dict), where
        for name, value in old.items():
            assert name in new, f"{where}/{name}"
            has_all(new[name], value, f"{where}/{name}")
    elif isinstance(old, list):
        assert isinstance(new, list), where
        assert len(new) == len(old), where
        for at, (one, other) in enumerate(zip(new, old, strict=True)):
            has_all(one, other, f"{where}/{at}")
    else:
        assert new == old, where


def test_an_upgrade_keeps_every_job_key_and_ledger_in_the_default_tenant(
    tmp_path: Path, command: list[str], environments: dict[str, dict[str, str]]
) -> None:
    gate = tmp_path / "gate"
    tmp_path.chmod(0o755)
    with contextlib.ExitStack() as stack:
        with serving(tmp_path, command, environments["old"]) as api:
            token = worker_key(api)
            arguments = ["worker", "--server", api.url, "--name", "old", "--label", "old", "--tasks", TASKS]
            own = {**environments["old"], "TIMEBALL_TOKEN": token}
            worker = stack.enter_context(Process(tmp_path, arguments, own))
            api.await_workers(1)
            data = Data(api)
            data.fill(gate)
        with serving(tmp_path, command, environments["new"]) as api:
            answers = data.read(api)
            for name, old in data.answers.items():
                has_all(answers[name], old, name)
            nothing_is_in_another_tenant(api)
            keys_have_the_roles_of_the_changelog(api, data)
            again = api.call("POST", "/v1/jobs", expect=201, json={
                "name": "done", "task": {"kind": "shell", "command": "echo hello"}, "idempotencyKey": "once",
            })  # fmt: skip
            assert again["jobId"] == data.jobs["done"], "the key of the earlier request is known"
            a_worker_of_the_earlier_version_goes_on(api, data, gate, worker)
            what_was_paused_goes_on(api, data)


def nothing_is_in_another_tenant(api: Api) -> None:
    assert [each["tenantId"] for each in api.call("GET", "/v1/tenants")["items"]] == ["default"]
    assert api.call("GET", "/v1/me")["tenant"] == "default"


def keys_have_the_roles_of_the_changelog(api: Api, data: Data) -> None:
    """Keys with the role admin have the role system, and worker keys serve the default tenant."""
    listed = {key["name"]: key for key in api.call("GET", "/v1/api-keys?limit=100")["items"]}
    assert (listed["old admin"]["role"], listed["old worker"]["role"]) == ("system", "worker")
    with Api(api.url, data.keys["admin"]) as old:
        me = old.call("GET", "/v1/me")
        assert (me["tenant"], me["role"]) == ("default", "system")
        assert old.call("GET", "/v1/tenants")["items"]
    with Api(api.url, data.keys["worker"]) as old:
        old.call("GET", "/v1/jobs", expect=403)
        assert old.call("POST", "/v1/worker/hello", json={"name": "n", "slots": 1})["session"]


def a_worker_of_the_earlier_version_goes_on(api: Api, data: Data, gate: Path, worker: Process) -> None:
    """It reports the run that it executed during the upgrade, in its first attempt, and gets new runs."""
    gate.touch()
    run = until(lambda: api.ended_run_of(data.jobs["held"]), "the run that was executed during the upgrade")
    assert (run["status"], run["attempt"]) == ("succeeded", 1)
    later = api.create({"task": {"kind": "shell", "command": "echo later"}, **ONLY_OLD})
    run = until(lambda: api.ended_run_of(later), "a run of the worker of the earlier version")
    assert (run["status"], run["executorId"]) == ("succeeded", "old")
    assert worker.popen.poll() is None, worker.output


def what_was_paused_goes_on(api: Api, data: Data) -> None:
    ticking = f"/v1/jobs/{data.jobs['ticking']}"
    before = data.answers["ledger of ticking"]
    api.call("POST", f"{ticking}/resume", json={})
    after = until(
        lambda: (
            (found := api.call("GET", f"{ticking}/ledger"))["counts"].get("on_time", 0)
            > before["counts"].get("on_time", 0)
            and found
        ),
        "another fire of the job that was paused",
    )
    assert after["due"] > before["due"]
    (letter,) = data.answers["dead letters"]["items"][:1]
    assert letter, "there is a dead letter"
    assert dt.datetime.fromisoformat(api.call("GET", f"/v1/jobs/{data.jobs['dated']}")["nextFireAt"]).year == 2036
