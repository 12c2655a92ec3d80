"""Bad input gets a 4xx that points to what is wrong, never a 500. No route but the public ones works without a key."""

import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.support.api import ADMIN, WORKER, Api, running_api
from timeball.api.app import ROUTES
from timeball.domain.errors import Unavailable
from timeball.domain.identity.permission import Permission

TASK = {"kind": "shell", "command": "true"}
JOB_ID = f"j_{0:028x}"
RUN_ID = f"r_{0:028x}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    folder: Path = tmp_path_factory.mktemp("api")
    async with running_api(folder) as running:
        yield running


pytestmark = pytest.mark.asyncio(loop_scope="module")


def assert_problem(answer: Any, status: int, pointer: str | None = None) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert problem["title"]
    assert problem["detail"]
    assert problem["type"] == f"/docs#problem-{problem['code']}"
    if pointer is not None:
        assert problem["errors"][0]["pointer"] == pointer


# --- keys -------------------------------------------------------------------------------------------------------------


BEGIN_SIGN_IN = ("POST", "/v1/sign-in/provider")
"""Refused with a 403 unless a page of the web UI sends it."""


def filled(path: str) -> str:
    return path.replace("{jobId}", JOB_ID).replace("{runId}", RUN_ID).replace("{taskId}", "t").replace("{keyId}", "k")


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
async def test_no_route_but_the_public_ones_works_without_a_key(api: Api, route: Any) -> None:
    for key in (None, "wrong"):
        answer = await api(route.method, filled(route.path), key)
        if route.path == "/v1/sign-in":
            assert_problem(answer, 400)
        elif (route.method, route.path) == BEGIN_SIGN_IN:
            assert_problem(answer, 403)
        elif route.permission is Permission.PUBLIC:
            assert answer.status_code == 200
        else:
            assert_problem(answer, 401)
            assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
async def test_a_worker_key_is_for_the_worker_protocol_only(api: Api, route: Any) -> None:
    answer = await api(route.method, filled(route.path), WORKER)
    if route.permission in (Permission.PUBLIC, Permission.WORKER, Permission.KEY):
        assert answer.status_code != 403 or (route.method, route.path) == BEGIN_SIGN_IN
    else:
        assert_problem(answer, 403)


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic YTpi", f"Token {ADMIN}", "Bearer " + "x" * 5_000])
async def test_odd_authorization_headers(api: Api, header: str) -> None:
    assert_problem(await api("GET", "/v1/jobs", None, headers={"Authorization": header}), 401)


async def test_the_scheme_of_the_header_has_no_case(api: Api) -> None:
    assert (await api("GET", "/v1/jobs", None, headers={"Authorization": f"bearer {ADMIN}"})).status_code == 200


# --- paths and methods ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/v1",
        "/v1/",
        "/v1/jobs/",
        "/v2/jobs",
        "/v1/jobs:many",
        f"/v1/jobs/{JOB_ID}/nothing",
        "/v1/%00",
        "/v1/%ff",
    ],
)
async def test_unknown_paths(api: Api, path: str) -> None:
    assert_problem(await api("GET", path), 404)


@pytest.mark.parametrize("ident", [JOB_ID, "x", "%00", "j_%00", "..%2f..", "j_" + "x" * 5_000, "🚀", RUN_ID, "%ff"])
@pytest.mark.parametrize("what", ["", "/status", "/logs", "/ledger", "/next", "/runs"])
async def test_unknown_jobs(api: Api, ident: str, what: str) -> None:
    assert_problem(await api("GET", f"/v1/jobs/{ident}{what}"), 404)


@pytest.mark.parametrize("ident", [RUN_ID, "x", "%00", JOB_ID])
@pytest.mark.parametrize("what", ["", "/logs", "/result"])
async def test_unknown_runs(api: Api, ident: str, what: str) -> None:
    assert_problem(await api("GET", f"/v1/runs/{ident}{what}"), 404)
    if not what:
        assert_problem(await api("POST", f"/v1/runs/{ident}/cancel"), 404)
        assert_problem(await api("POST", f"/v1/runs/{ident}/retry"), 404)


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("DELETE", "/v1/jobs", "GET, HEAD, OPTIONS, POST"),
        ("POST", f"/v1/jobs/{JOB_ID}", "DELETE, GET, HEAD, OPTIONS, PATCH, PUT"),
        ("GET", "/v1/jobs:batch", "OPTIONS, POST"),
        ("GET", "/v1/worker/poll", "OPTIONS, POST"),
        ("PROPFIND", "/v1/jobs", "GET, HEAD, OPTIONS, POST"),
        ("POST", "/livez", "GET, HEAD, OPTIONS"),
    ],
)
async def test_wrong_methods(api: Api, method: str, path: str, allow: str) -> None:
    answer = await api(method, path)
    assert_problem(answer, 405)
    assert answer.headers["allow"] == allow


async def test_head_and_options(api: Api) -> None:
    got, head = await api("GET", "/v1/jobs"), await api("HEAD", "/v1/jobs")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == got.headers["content-length"]
    options = await api("OPTIONS", "/v1/jobs")
    assert (options.status_code, options.headers["allow"]) == (204, "GET, HEAD, OPTIONS, POST")
    assert_problem(await api("OPTIONS", "/v1/jobs", None), 401)


# --- queries ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "pointer"),
    [
        ("/v1/jobs?limit=0", "/query/limit"),
        ("/v1/jobs?limit=1001", "/query/limit"),
        ("/v1/jobs?limit=ten", "/query/limit"),
        ("/v1/jobs?limit=1&limit=2", "/query/limit"),
        ("/v1/jobs?limit=99999999999999999999999", "/query/limit"),
        ("/v1/jobs?cursor=nonsense", "/query/cursor"),
        ("/v1/jobs?status=sleeping", "/query/status"),
        ("/v1/jobs?nme=x", "/query/nme"),
        ("/v1/jobs?name=a%00b", "/query/name"),
        ("/v1/jobs?name=" + "x" * 300, "/query/name"),
        ("/v1/runs?status=sleeping", "/query/status"),
        ("/v1/runs?cursor=%F0%9F%9A%80", "/query/cursor"),
        ("/v1/runs?startTime=yesterday", "/query/startTime"),
        ("/v1/runs?startTime=2026-02-30T00:00:00Z", "/query/startTime"),
        ("/v1/runs?endTime=9999999999999999", "/query/endTime"),
        ("/v1/runs?endTime=-5", "/query/endTime"),
        ("/jobs?startTime=x", "/query/startTime"),
        ("/v1/dead-letters?limit=x", "/query/limit"),
    ],
)
async def test_wrong_parameters(api: Api, path: str, pointer: str) -> None:
    assert_problem(await api("GET", path), 422, pointer)


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("next?count=0", "/query/count"),
        ("next?count=x", "/query/count"),
        ("ledger?from=x", "/query/from"),
        ("ledger?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "/query/to"),
        ("ledger?cursor=nonsense", "/query/cursor"),
        ("logs?as=pdf", "/query/as"),
        ("logs?attempt=0", "/query/attempt"),
        ("logs?cursor=x", "/query/cursor"),
    ],
)
async def test_wrong_questions_about_a_job(api: Api, query: str, pointer: str) -> None:
    job = await api.create(schedule={"type": "interval", "expression": "1h"})
    assert_problem(await api("GET", f"/v1/jobs/{job['jobId']}/{query}"), 422, pointer)


# --- bodies -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status", "pointer"),
    [
        (b"", 400, None),
        (b"{", 400, None),
        (b"\xff\xfe", 400, None),
        (b'{"task":{"kind":"shell","command":"\\ud800"}}', 400, None),
        (b"null", 422, ""),
        (b"[]", 422, ""),
        (b'{"task":{"kind":"shell","command":"true"},"nme":1}', 422, "/nme"),
        (b'{"task":{"kind":"shell","command":"a\\u0000"}}', 422, "/task/command"),
        (b'{"task":{"kind":"http","url":"http://\\u0000"}}', 422, "/task/url"),
        (b'{"task":{"kind":"shell","command":"x"},"parameters":{"\\u0000":1}}', 422, "/parameters"),
        (b'{"task":{"kind":"shell","command":"x"},"parameters":{"a":123456789012345678901}}', 422, "/parameters/a"),
        (b'{"task":{"kind":"shell","command":"x"},"schedule":{"type":"cron","expression":"0 0 30 2 *"}}', 422, None),
        (b'{"x":' * 100_000, 422, ""),
    ],
)
@pytest.mark.parametrize("path", ["/v1/jobs", "/jobs"])
async def test_wrong_jobs(api: Api, path: str, body: bytes, status: int, pointer: str | None) -> None:
    assert_problem(await api("POST", path, content=body), status, pointer)
    if body.startswith(b"{") and status == 422:
        job = await api.create(schedule={"type": "interval", "expression": "1h"})
        assert_problem(await api("PATCH", f"/v1/jobs/{job['jobId']}", content=body), status, pointer)


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"startAt": "soon"}, "/startAt"),
        ({"startAt": "2026-03-01T02:00:00"}, "/startAt"),
        ({"startAt": 5}, "/startAt"),
        ({"endAt": "2026-02-30T00:00:00Z"}, "/endAt"),
        ({"startAt": "2099-03-01T02:00:00Z", "endAt": "2099-03-01T01:00:00Z"}, "/endAt"),
        ({"maxRuns": 0}, "/maxRuns"),
        ({"maxRuns": "3"}, "/maxRuns"),
        ({"jitter": "often"}, "/jitter"),
        ({"jitter": "25h"}, "/jitter"),
        ({"startDeadline": "0s"}, "/startDeadline"),
        ({"startDeadline": -1}, "/startDeadline"),
        ({"maxRuns": 1, "schedule": {"type": "immediate"}}, "/maxRuns"),
        ({"startAt": "2099-03-01T02:00:00Z", "schedule": {"type": "immediate"}}, "/startAt"),
    ],
)
async def test_wrong_rules_of_a_schedule(api: Api, fields: dict[str, Any], pointer: str) -> None:
    hourly = {"type": "interval", "expression": "1h"}
    assert_problem(await api("POST", "/v1/jobs", json={"task": TASK, "schedule": hourly, **fields}), 422, pointer)
    job = await api.create(schedule=hourly)
    assert_problem(await api("PATCH", f"/v1/jobs/{job['jobId']}", json=fields), 422, pointer)


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"overlap": "never"}, "/overlap"),
        ({"orderingKey": ""}, "/orderingKey"),
        ({"orderingKey": "x" * 201}, "/orderingKey"),
        ({"orderingKey": 7}, "/orderingKey"),
        ({"onFailure": "wait"}, "/onFailure"),
        ({"concurrency": 5}, "/concurrency"),
        ({"concurrency": {"limit": 5}}, "/concurrency/key"),
        ({"concurrency": {"key": "db"}}, "/concurrency/limit"),
        ({"concurrency": {"key": "db", "limit": 0}}, "/concurrency/limit"),
        ({"concurrency": {"key": "", "limit": 1}}, "/concurrency/key"),
        ({"concurrency": {"key": "db", "limit": 1, "lmit": 1}}, "/concurrency/lmit"),
        ({"rateLimit": {"key": "db", "limit": 0}}, "/rateLimit/limit"),
        ({"rateLimit": {"key": "db", "limit": 1, "per": "0s"}}, "/rateLimit/per"),
        ({"rateLimit": {"key": "db", "limit": 1, "per": "often"}}, "/rateLimit/per"),
        ({"rateLimit": {"key": "db", "limit": 1, "burst": 0}}, "/rateLimit/burst"),
        ({"resources": {"cpu": -1}}, "/resources/cpu"),
        ({"resources": {"cpu": "4"}}, "/resources/cpu"),
        ({"resources": {"memoryMb": 0.5}}, "/resources/memoryMb"),
        ({"resources": {"slots": 0}}, "/resources/slots"),
        ({"resources": {"memory": 512}}, "/resources/memory"),
        ({"runsOn": "gpu"}, "/runsOn"),
        ({"runsOn": ["gpu", "not a label"]}, "/runsOn/1"),
        ({"runsOn": ["gpu"] * 21}, "/runsOn"),
        ({"delivery": "once"}, "/delivery"),
        ({"task": {"kind": "http", "url": "http://x", "breaker": "off"}}, "/task/breaker"),
    ],
)
async def test_wrong_rules_of_order(api: Api, fields: dict[str, Any], pointer: str) -> None:
    hourly = {"type": "interval", "expression": "1h"}
    assert_problem(await api("POST", "/v1/jobs", json={"task": TASK, "schedule": hourly, **fields}), 422, pointer)
    job = await api.create(schedule=hourly)
    assert_problem(await api("PATCH", f"/v1/jobs/{job['jobId']}", json=fields), 422, pointer)


@pytest.mark.parametrize(
    ("fields", "pointer", "detail"),
    [
        ({"concurrency": {"key": "db", "limit": 0}}, "/concurrency/limit", "Expected int >= 1, got 0"),
        ({"runsOn": ["a b"]}, "/runsOn/0", "Expected str that matches ^[A-Za-z0-9][A-Za-z0-9._:/=-]*$, got 'a b'"),
        ({"orderingKey": "x" * 201}, "/orderingKey", "Expected str of length <= 200"),
        ({"task": {**TASK, "env": {"1": "x"}}}, "/task/env", "Expected str that matches ^[A-Za-z_][A-Za-z0-9_]*$"),
        ({"resources": {"memory": 1}}, "/resources/memory", "there is no field 'memory'; did you mean 'memoryMb'?"),
    ],
)
async def test_a_complaint_repeats_what_was_wrong(api: Api, fields: dict[str, Any], pointer: str, detail: str) -> None:
    answer = await api("POST", "/v1/jobs", json={"task": TASK, **fields})
    assert_problem(answer, 422, pointer)
    assert answer.json()["detail"] == detail


async def test_rules_are_replaced_as_a_whole_and_null_takes_them_away(api: Api) -> None:
    hourly = {"type": "interval", "expression": "1h"}
    rules = {
        "orderingKey": "customer-7",
        "onFailure": "continue",
        "concurrency": {"key": "db", "limit": 5},
        "rateLimit": {"key": "mails", "limit": 10, "per": "1m", "burst": 2},
        "resources": {"cpu": 2.0, "memoryMb": 512},
        "runsOn": ["gpu", "linux"],
        "delivery": "at_most_once",
    }
    job = await api.create(schedule=hourly, **rules)
    path = f"/v1/jobs/{job['jobId']}"
    assert {name: job[name] for name in rules} == rules
    changed = {"rateLimit": {"key": "mails", "limit": 3}, "resources": {"slots": 2}, "runsOn": ["linux"]}
    answer = (await api("PATCH", path, json=changed)).json()
    assert answer["rateLimit"] == {"key": "mails", "limit": 3}
    assert answer["resources"] == {"slots": 2}
    assert answer["runsOn"] == ["linux"]
    assert answer["concurrency"] == rules["concurrency"]
    answer = (await api("PATCH", path, json=dict.fromkeys(rules))).json()
    assert [name for name in rules if name in answer] == ["delivery"]
    assert answer["delivery"] == "at_least_once"


async def test_on_failure_may_be_said_before_there_is_an_ordering_key(api: Api) -> None:
    job = await api.create(schedule={"type": "interval", "expression": "1h"}, onFailure="continue")
    answer = await api("PATCH", f"/v1/jobs/{job['jobId']}", json={"orderingKey": "k"})
    assert answer.json()["onFailure"] == "continue"


async def test_a_schedule_that_never_fires(api: Api) -> None:
    hourly = {"type": "interval", "expression": "1h"}
    body = {"task": TASK, "schedule": hourly, "endAt": "2020-01-01T00:00:00Z"}
    answer = await api("POST", "/v1/jobs", json=body)
    assert_problem(answer, 422, "/endAt")
    assert answer.json()["code"] == "invalid_schedule"
    batch = await api("POST", "/v1/jobs:batch", json=[body])
    assert batch.json()["items"][0]["error"]["code"] == "invalid_schedule"


@pytest.mark.parametrize("until", ["2020-01-01T00:00:00Z", "later", "2026-03-01", 7, "9" * 100])
async def test_wrong_ends_of_a_pause(api: Api, until: Any) -> None:
    job = await api.create(schedule={"type": "interval", "expression": "1h"})
    assert_problem(await api("POST", f"/v1/jobs/{job['jobId']}/pause", json={"until": until}), 422, "/until")


@pytest.mark.parametrize(
    ("method", "path", "body", "pointer"),
    [
        ("PUT", "/v1/tasks/t", {"kind": "http"}, "/url"),
        ("PUT", "/v1/tasks/t", {"kind": "shell", "command": "x", "cmd": 1}, "/cmd"),
        ("PUT", "/v1/tasks/a%20b", TASK, "/path/taskId"),
        ("PUT", "/v1/tasks/%20", TASK, "/path/taskId"),
        ("POST", "/v1/api-keys", {"role": "king"}, "/role"),
        ("POST", "/v1/api-keys", {"role": "admin", "name": "\0"}, "/name"),
        ("POST", "/v1/dead-letters:retry", {"runIds": "x"}, "/runIds"),
        ("POST", "/v1/dead-letters:retry", {"everything": True}, "/everything"),
        ("POST", "/v1/worker/hello", {"name": "w"}, "/slots"),
        ("POST", "/v1/worker/hello", {"name": "w", "slots": -1}, "/slots"),
        ("POST", "/v1/worker/hello", {"name": "w", "slots": 1, "cpu": -0.5}, "/cpu"),
        ("POST", "/v1/worker/hello", {"name": "w", "slots": 1, "memoryMb": 10**12}, "/memoryMb"),
        ("POST", "/v1/worker/beat", {"session": "w", "held": [2**63]}, "/held/0"),
    ],
)
async def test_wrong_bodies(api: Api, method: str, path: str, body: Any, pointer: str) -> None:
    assert_problem(await api(method, path, json=body), 422, pointer)


async def test_a_session_nobody_knows(api: Api) -> None:
    report = {"session": "w_x", "pollSeq": 1, "free": 1}
    for message, body in (
        ("poll", {"session": "w_x", "seq": 1, "free": 1, "held": [], "wait": 10}),
        ("beat", {"session": "w_x", "held": []}),
        ("report", report),
    ):
        answer = await api("POST", f"/v1/worker/{message}", json=body)
        assert_problem(answer, 409)
        assert answer.json()["code"] == "session_lost"


async def test_large_bodies(api: Api) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(1_000):
            yield b"x" * 100_000

    ten = b'{"name":"' + b"x" * 10_000_000 + b'"}'
    for content in (ten, endless()):
        assert_problem(await api("POST", "/v1/jobs", content=content), 413)
    assert_problem(await api("POST", "/v1/jobs:batch", content=b"[" + b" " * (33 << 20) + b"]"), 413)
    assert_problem(await api("POST", "/v1/jobs", content=b"x", headers={"Content-Encoding": "gzip"}), 415)


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=x"])
async def test_the_content_type_of_a_job_does_not_matter(api: Api, kind: str) -> None:
    body = b'{"task":{"kind":"shell","command":"true"}}'
    assert (await api("POST", "/v1/jobs", content=body, headers={"Content-Type": kind})).status_code == 201


@pytest.mark.parametrize("key", ["", "x" * 256, "a\tb"])
async def test_keys_that_cannot_be_kept(api: Api, key: str) -> None:
    answer = await api("POST", "/v1/jobs", json={"task": TASK}, headers={"Idempotency-Key": key})
    assert_problem(answer, 422, "/header/Idempotency-Key")


async def test_no_bytes_break_any_route(api: Api) -> None:
    """Mutations of good bodies, sent everywhere."""
    rng = random.Random(7)
    seeds = [
        b'{"task":{"kind":"shell","command":"true"},"schedule":{"type":"date","expression":"2099-01-01T00:00:00Z"}}',
        b'{"scheduleType":"future","scheduleTime":4070908800000,"payload":{"script":"a.py","params":{"x":[1,2]}}}',
        b'{"session":"w_x","seq":1,"free":1,"held":[1],"wait":1,"pollSeq":1,"name":"x","slots":1,"role":"worker"}',
        b'{"runIds":["r_x"],"jobId":"","all":false,"kind":"http","url":"http://x"}',
    ]
    writing = [route for route in ROUTES if route.body is not None]
    for _ in range(40):
        body = bytearray(rng.choice(seeds))
        for _ in range(rng.randint(0, 3)):
            at = rng.randrange(len(body))
            body[at : at + rng.randint(0, 4)] = rng.choice(
                [b"", b"\xff", b"\x00", b'"', b"null", b"-1", b"{", b"[[", b"\\ud800", b"1e400", b"9" * 30]
            )
        for route in writing:
            answer = await api(route.method, filled(route.path), content=bytes(body))
            assert answer.status_code < 500, (route.path, bytes(body), answer.text)


# --- when the server is in trouble ------------------------------------------------------------------------------------


async def test_an_absent_store_is_a_503_that_says_when_to_come_back(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: Any) -> Any:
        raise Unavailable("the store does not answer", retry_after=3)

    monkeypatch.setattr(api.server.context.store, "jobs", away)
    answer = await api("GET", f"/v1/jobs/{JOB_ID}")
    assert_problem(answer, 503)
    assert answer.headers["retry-after"] == "3"


async def test_a_bug_is_a_500_without_its_insides(
    api: Api, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def broken(*_: Any) -> Any:
        raise RuntimeError("secret insides")

    monkeypatch.setattr(api.server.context.store, "jobs", broken)
    answer = await api("GET", f"/v1/jobs/{JOB_ID}")
    assert_problem(answer, 500)
    assert "insides" not in answer.text
    assert answer.json()["incident"] in capsys.readouterr().out


async def test_health(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await api("GET", "/livez", None)).status_code == 200
    ready = await api("GET", "/readyz", None)
    assert ready.status_code == 200
    assert all(ready.json()["checks"].values())
    planner = next(loop for loop in api.server.loops if loop.name == "planner")
    monkeypatch.setattr(planner, "problem", lambda: "no success for 20 s: ZeroDivisionError")
    answer = await api("GET", "/readyz", None)
    assert_problem(answer, 503)
    assert answer.json()["checks"]["planner"] is False
    assert "planner (no success for 20 s: ZeroDivisionError)" in answer.json()["detail"]
