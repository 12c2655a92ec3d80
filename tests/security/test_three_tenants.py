"""Three tenants over real HTTP. What belongs to another tenant is answered exactly like what does not exist (I24)."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
import pytest_asyncio

from tests.security.requests import BODIES, FLOW, request_of
from tests.security.scene import JOB, MARK, NEVER, PAGE, Scene, a_scene, bearer, signed_in
from tests.support.event_streams import EventReader
from timeball.api.app import ROUTES

ATTACKERS: Final = ("third_admin", "third_session", "other_admin")
CHANGING: Final = re.compile(r'"instance":"[^"]*"|"requestId":"[^"]*"|20\d\d-\d\d-\d\dT[\d:.]+Z')
MADE: Final = re.compile(r'"(\w*[iI]d|key|location)":"[^"]*"')
"""What differs when something is made twice."""
ABSENT: Final = f"of-{'x' * (len(MARK) - 3)}"
WITH_IDS: Final = [
    route for route in ROUTES if "{" in route.path and not route.path.startswith("/v1/worker/") and not route.lasts
]


def absent_id(ident: str, number: int = 0) -> str:
    """Return an id or a name of the same form that nothing has."""
    prefix, _, rest = ident.partition("_")
    return f"{prefix}_{number:0{len(rest)}x}" if rest and len(prefix) == 1 else ABSENT


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    async with a_scene(tmp_path_factory.mktemp("scene")) as made:
        await made.make("POST", "/v1/tenants", tenantId="third")
        key = (await made.make("POST", "/v1/tenants/third/api-keys", role="admin", name="admin"))["key"]
        made.credentials["third_admin"] = bearer(key)
        made.credentials["third_session"], _ = await signed_in(made, "third_admin")
        made.ids["sessionId"] = (await signed_in(made, "system"))[1]
        made.ids["tenantId"] = "other"
        yield made


async def told(scene: Scene, who: str, method: str, path: str, body: Any, name: str) -> tuple[int, str, list[str]]:
    """Return the status, the text and the names of the headers of an answer, without what differs in each one."""
    answer = await scene.send(who, method, path, body)
    text = CHANGING.sub("", answer.text.replace(name, "?"))
    return answer.status_code, text, sorted(answer.headers.keys())


async def same_as_absent(scene: Scene, who: str, method: str, template: Any, body: Any, real: str) -> None:
    """A request that names something of another tenant gets the answer of one that names nothing."""
    found = []
    for name in (real, absent_id(real)):
        sent = None if body is None else json.loads(json.dumps(body).replace("{real}", name))
        found.append(await told(scene, who, method, template.replace("{real}", name), sent, name))
    assert found[0] == found[1], f"{who}: {method} {template} {body}"
    assert MARK not in found[0][1]


# --- ids in paths -----------------------------------------------------------------------------------------------------


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("who", ATTACKERS)
async def test_an_id_of_another_tenant_is_answered_as_one_that_does_not_exist(scene: Scene, who: str) -> None:
    for route in WITH_IDS:
        if route.permission.value == "system" or route.path.startswith("/v1/tenants"):
            continue
        (name,) = re.findall(r"\{(\w+)\}", route.path)
        if name in ("taskId", "name") and route.method == "PUT":
            continue  # creates an own one
        real = {"runId": scene.ids["ended"], **scene.ids}[name]
        body = BODIES.get(f"{route.method} {route.path}")
        await same_as_absent(scene, who, route.method, route.path.replace(f"{{{name}}}", "{real}"), body, real)


@pytest.mark.asyncio(loop_scope="module")
async def test_followed_logs_and_dead_runs_are_as_absent(scene: Scene) -> None:
    for who in ATTACKERS:
        for real in (scene.ids["ended"], scene.ids["dead"]):
            for path in ("logs", "logs?follow=1", "logs?attempt=1", "why", "result", "spec"):
                await same_as_absent(scene, who, "GET", f"/v1/runs/{{real}}/{path}", None, real)
            for verb in ("retry", "replay", "cancel"):
                await same_as_absent(scene, who, "POST", f"/v1/runs/{{real}}/{verb}", None, real)
        await same_as_absent(scene, who, "GET", "/v1/jobs/{real}/logs?follow=1", None, scene.ids["ended job"])


# --- filters, cursors and bodies --------------------------------------------------------------------------------------

QUERIES: Final = (
    ("/v1/jobs?name={real}", "mark"),
    ("/v1/jobs?tag={real}", "mark"),
    ("/v1/jobs?taskId={real}", "mark"),
    ("/v1/jobs?calendar={real}", "mark"),
    ("/v1/jobs?userId={real}", "mark"),
    ("/v1/jobs?q={real}", "mark"),
    ("/v1/runs?jobId={real}", "ended job"),
    ("/v1/runs?tag={real}", "mark"),
    ("/v1/runs?taskId={real}", "mark"),
    ("/v1/runs?userId={real}", "mark"),
    ("/v1/runs?workerId={real}", "workerId"),
    ("/v1/backfills?jobId={real}", "jobId"),
    ("/v1/dead-letters?jobId={real}", "ended job"),
    ("/v1/dead-letters/groups?tag={real}", "mark"),
    ("/v1/workflows?name={real}", "mark"),
    ("/v1/usage?groupBy=job&jobId={real}", "ended job"),
    ("/v1/usage?userId={real}", "mark"),
    ("/v1/audit-log?resource={real}", "jobId"),
    ("/v1/audit-log?actor={real}", "key of editor"),
    ("/jobs?jobId={real}", "ended job"),
    ("/v1/timeline?by=job&tag={real}&from=2036-01-01T00:00:00Z&to=2036-01-02T00:00:00Z", "mark"),
    ("/v1/usage?tenantId={real}", "tenant"),
    ("/v1/jobs?cursor={real}", "jobId"),
)
SENT: Final[tuple[tuple[str, Any, str], ...]] = (
    ("/v1/jobs", {**JOB, "calendars": ["{real}"], "schedule": NEVER}, "mark"),
    ("/v1/jobs", {"taskId": "{real}", "schedule": NEVER}, "mark"),
    ("/v1/jobs", {**JOB, "schedule": {"type": "follow", "job": "{real}"}}, "jobId"),
    ("/v1/jobs:batch", [{**JOB, "calendars": ["{real}"], "schedule": NEVER}], "mark"),
    ("/v1/workflows", {**FLOW, "tasks": [{"name": "a", "taskId": "{real}"}]}, "mark"),
    ("/v1/workflows", {**FLOW, "calendars": ["{real}"]}, "mark"),
    ("/v1/jobs:bulk", {"action": "pause", "filter": {"name": "{real}"}}, "mark"),
    ("/v1/runs:bulk", {"action": "replay", "filter": {"jobId": "{real}"}}, "ended job"),
    ("/v1/dead-letters:retry", {"runIds": ["{real}"]}, "dead"),
    ("/v1/dead-letters:discard", {"runIds": ["{real}"]}, "dead"),
    ("/v1/dead-letters:retry", {"filter": {"tag": "{real}"}}, "mark"),
    ("/v1/schedules:preview", {"schedule": NEVER, "calendars": ["{real}"]}, "mark"),
    ("/v1/api-keys", {"role": "viewer", "userId": "{real}"}, "mark"),
    ("/v1/worker/hello", {"name": "w", "slots": 0, "session": "{real}"}, "workerId"),
)


def real_of(scene: Scene, what: str) -> str:
    return {"mark": MARK, "tenant": "default", **scene.ids}[what]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("path", "what"), QUERIES)
async def test_a_filter_by_what_another_tenant_has_finds_nothing(scene: Scene, path: str, what: str) -> None:
    for who in ATTACKERS:
        await same_as_absent(scene, who, "GET", path, None, real_of(scene, what))


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("path", "body", "what"), SENT)
async def test_a_body_cannot_refer_to_what_another_tenant_has(scene: Scene, path: str, body: Any, what: str) -> None:
    for who in ATTACKERS:
        found = []
        for name in (real_of(scene, what), absent_id(real_of(scene, what))):
            sent = json.loads(json.dumps(body).replace("{real}", name))
            status, text, _ = await told(scene, who, "POST", path, sent, name)
            found.append((status, re.sub(r'"(\w*[iI]d|\w+At|createdAt|location)":"[^"]*"', "", text)))
        assert found[0] == found[1], f"{who}: {path} {body}"


# --- things with the same name in each tenant -------------------------------------------------------------------------


@pytest.mark.asyncio(loop_scope="module")
async def test_an_idempotency_key_belongs_to_its_tenant(scene: Scene) -> None:
    made = set()
    for who in ("system", "third_admin", "other_admin"):
        headers = {**PAGE, **scene.credentials[who], "idempotency-key": "the-same"}
        for _ in range(2):
            sent = await scene.http.client.post(
                f"{scene.http.url}/v1/jobs", headers=headers, json={**JOB, "schedule": NEVER}
            )
            assert sent.status_code in (200, 201), sent.text
            made.add(sent.json()["jobId"])
    assert len(made) == 3


@pytest.mark.asyncio(loop_scope="module")
async def test_tasks_calendars_and_users_of_the_same_name_stay_apart(scene: Scene) -> None:
    for who in ("third_admin", "other_admin"):
        entries = [{"dates": ["2031-01-01"]}]
        assert (await scene.send(who, "PUT", f"/v1/tasks/{MARK}", {"kind": "shell", "command": who})).status_code < 300
        assert (await scene.send(who, "PUT", f"/v1/calendars/{MARK}", {"entries": entries})).status_code < 300
        assert (await scene.send(who, "POST", "/v1/users", {"userId": MARK, "role": "viewer"})).status_code == 201
    for who, command in (("system", "true"), ("third_admin", "third_admin"), ("other_admin", "other_admin")):
        task = (await scene.send(who, "GET", f"/v1/tasks/{MARK}")).json()
        assert command in json.dumps(task)
        assert ("2030" in (await scene.send(who, "GET", f"/v1/calendars/{MARK}")).text) == (who == "system")
    for who in ("third_admin", "other_admin"):
        for path in (f"/v1/tasks/{MARK}", f"/v1/calendars/{MARK}", f"/v1/users/{MARK}"):
            assert (await scene.send(who, "DELETE", path)).status_code < 300
    for path in (f"/v1/tasks/{MARK}", f"/v1/calendars/{MARK}", f"/v1/users/{MARK}"):
        assert (await scene.send("system", "GET", path)).status_code == 200


@pytest.mark.asyncio(loop_scope="module")
async def test_an_etag_of_another_tenant_proves_nothing(scene: Scene) -> None:
    tag = (await scene.send("system", "GET", f"/v1/jobs/{scene.ids['jobId']}")).headers.get("etag", '"1"')
    for name in ("if-match", "if-none-match"):
        headers = {**PAGE, **scene.credentials["third_admin"], name: tag}
        for ident in (scene.ids["jobId"], absent_id(scene.ids["jobId"])):
            url = f"{scene.http.url}/v1/jobs/{ident}"
            assert (await scene.http.client.get(url, headers=headers)).status_code == 404
            assert (await scene.http.client.patch(url, headers=headers, json={"name": "x"})).status_code == 404


@pytest.mark.asyncio(loop_scope="module")
async def test_a_stream_that_resumes_after_an_event_of_another_tenant_has_none_of_its_events(scene: Scene) -> None:
    url = f"{scene.http.url}/v1/events"
    async with scene.http.client.stream("GET", url, headers=scene.credentials["system"]) as stream:
        reader = await EventReader(stream).opened()
        for _ in range(3):
            await scene.make("POST", "/v1/jobs", **JOB, name=scene.fresh(), schedule=NEVER)
        last = (await reader.next()).id
    headers = {**scene.credentials["third_admin"], "last-event-id": last}
    async with scene.http.client.stream("GET", url, headers=headers) as stream:
        reader = await EventReader(stream).opened()
        made = (await scene.send("third_admin", "POST", "/v1/jobs", {**JOB, "schedule": NEVER})).json()["jobId"]
        while True:
            text = json.dumps((await reader.next()).event)
            assert MARK not in text
            if made in text:
                break


@pytest.mark.asyncio(loop_scope="module")
async def test_lists_and_numbers_of_a_new_tenant_know_nothing_of_the_others(scene: Scene) -> None:
    await scene.make("POST", "/v1/tenants", tenantId="fourth")
    key = (await scene.make("POST", "/v1/tenants/fourth/api-keys", role="admin", name="admin"))["key"]
    scene.credentials["fourth_admin"] = bearer(key)
    hidden = {each for name, each in scene.ids.items() if not name.startswith("span") and name != "tenantId"} | {MARK}
    for route in ROUTES:
        if route.method != "GET" or "{" in route.path or not route.path.startswith("/v1/") or route.lasts:
            continue
        path, _ = await request_of(scene, f"{route.method} {route.path}", "fourth_admin", True)
        answer = await scene.send("fourth_admin", "GET", path)
        assert answer.status_code in (200, 403), (path, answer.text)
        assert not [each for each in hidden if each in answer.text], (path, answer.text[:500])
    assert (await scene.send("fourth_admin", "GET", "/metrics")).status_code == 403
