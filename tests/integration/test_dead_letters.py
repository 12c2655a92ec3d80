"""Dead letters, replays and bulk actions over the API, on both stores, and with two servers where the store allows
two."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import OTHER, Api, serving
from tests.support.builders import LEASE, settlement, worker
from tests.support.migrated import empty_postgres, sqlite_store
from timeball import system
from timeball.domain.job.job import decode_spec
from timeball.domain.run.lifecycle import Failed, Failure, Outcome, Succeeded
from timeball.ports.store.runs import SlotRequest
from timeball.ports.store.store import Store
from timeball.stores.postgres.store import PostgresStore

TASK = {"kind": "shell", "command": "true"}
ERRORS = {"disk": "no space left on device", "net": "connection refused", "data": "row {} is bad"}


class Fleet:
    """One or two servers on a store, and a worker that fails as a run's parameters say."""

    def __init__(self, servers: list[Api]) -> None:
        self.servers = servers
        self.api = servers[0]

    @property
    def store(self) -> Store:
        return self.api.server.context.store

    async def create(self, count: int, **fields: Any) -> list[str]:
        """One-shots without retries, each with its number among its parameters."""
        parameters = fields.pop("parameters", {})
        jobs = [
            {"task": TASK, "maxRetries": 0, "parameters": {**parameters, "row": row}, **fields} for row in range(count)
        ]
        answer = await self.api("POST", "/v1/jobs:batch", json=jobs)
        assert answer.status_code == 200, answer.text
        return [item["jobId"] for item in answer.json()["items"]]

    async def work_off(self) -> None:
        """Execute everything that is due."""
        await self.store.register(worker("w_1", slots=1_000), LEASE)
        while claims := (await self.store.claim([SlotRequest("w_1", "", 1_000)], 0)).claims:
            await self.store.settle([settlement(claim, _outcome(claim.spec)) for claim in claims])

    async def post(self, path: str, status: int = 200, server: int = 0, **body: Any) -> Any:
        answer = await self.servers[server]("POST", path, json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def count(self, **query: str) -> int:
        page = await self.api.get("/v1/runs", params={**query, "limit": "1000"})
        assert page["nextCursor"] is None
        return len(page["items"])

    async def groups(self) -> dict[str, dict[str, Any]]:
        """By a word of their message."""
        found = (await self.api.get("/v1/dead-letters/groups"))["items"]
        words = {word: text.partition("{}")[2] or text for word, text in ERRORS.items()}
        return {next(word for word, text in words.items() if text in item["message"]): item for item in found}


def _outcome(spec: bytes) -> Outcome:
    parameters = decode_spec(spec).parameters
    if (error := parameters.get("error")) is None:
        return Succeeded()
    message = ERRORS[error].format(parameters.get("row"))
    return Failed(Failure(kind="exit", message=f"exit code 1: {message}", exit_code=1))


@pytest.fixture(params=["sqlite", "postgres"])
async def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Fleet]:
    stores: list[Store]
    if request.param == "sqlite":
        stores = [sqlite_store(tmp_path / "timeball.db")]
    else:
        dsn = request.getfixturevalue("migrated_dsn")
        await empty_postgres(dsn)
        stores = [PostgresStore(dsn, monotonic=system.monotonic, min_connections=1) for _ in range(2)]
    async with AsyncExitStack() as stack:
        yield Fleet([await stack.enter_async_context(serving(store)) for store in stores])


# --- many at once -----------------------------------------------------------------------------------------------------


async def test_a_thousand_dead_runs_in_three_groups_are_dealt_with_by_group(fleet: Fleet) -> None:
    for error, count in (("disk", 500), ("net", 300), ("data", 200)):
        await fleet.create(count, parameters={"error": error, "keep": "me"}, tags=[error])
    await fleet.work_off()
    groups = await fleet.groups()
    assert {word: (group["count"], group["jobs"]) for word, group in groups.items()} == {
        "disk": (500, 500),
        "net": (300, 300),
        "data": (200, 200),
    }
    assert list(groups) == ["disk", "net", "data"]
    assert groups["data"]["kind"] == "exit"
    assert groups["data"]["firstAt"] <= groups["data"]["lastAt"]
    example = await fleet.api.get(f"/v1/runs/{groups['data']['exampleRunId']}")
    assert (example["status"], example["fingerprint"]) == ("dead", groups["data"]["fingerprint"])

    # Nothing was healed: retried by group in one call, they die again.
    disk = groups["disk"]["fingerprint"]
    counted = await fleet.post("/v1/dead-letters:retry", fingerprint=disk, dryRun=True)
    assert counted["matched"] == 500
    retried = await fleet.post("/v1/dead-letters:retry", fingerprint=disk)
    assert (retried["matched"], retried["retried"], retried["skipped"]) == (500, 500, 0)
    assert len({item["retriedAs"] for item in retried["items"]}) == 500
    await fleet.work_off()
    assert (await fleet.groups())["disk"]["count"] == 500

    # Edited, they succeed; their jobs are as they were.
    edit = {"parameters": {"error": None}, "timeout": "1h", "retry": {"maxRetries": 2}}
    edited = await fleet.post("/v1/dead-letters:retry", fingerprint=disk, edit=edit)
    assert (edited["matched"], edited["retried"]) == (500, 500)
    await fleet.work_off()
    assert await fleet.count(status="succeeded", tag="disk") == 500
    healed = edited["items"][0]["retriedAs"]
    spec = await fleet.api.get(f"/v1/runs/{healed}/spec")
    assert spec["edited"] is True
    assert spec["spec"]["parameters"].keys() == {"keep", "row"}
    assert (spec["spec"]["timeout"], spec["spec"]["retry"]["maxRetries"]) == ("1h", 2)
    job = await fleet.api.get(f"/v1/jobs/{(await fleet.api.get(f'/v1/runs/{healed}'))['jobId']}")
    assert (job["parameters"]["error"], job["version"], job["maxRetries"]) == ("disk", 1, 0)

    discarded = await fleet.post("/v1/dead-letters:discard", filter={"tag": "net"})
    assert (discarded["matched"], discarded["discarded"], discarded["skipped"]) == (300, 300, 0)
    assert list(await fleet.groups()) == ["data"]
    assert await fleet.count(status="dead", tag="net") == 300


async def test_two_servers_that_retry_the_same_group_at_once_make_one_successor_each(fleet: Fleet) -> None:
    await fleet.create(700, parameters={"error": "net"})
    await fleet.work_off()
    fingerprint = (await fleet.groups())["net"]["fingerprint"]
    servers = [at % len(fleet.servers) for at in range(4)]
    answers = await asyncio.gather(
        *(fleet.post("/v1/dead-letters:retry", server=server, fingerprint=fingerprint) for server in servers)
    )
    assert sum(answer["retried"] for answer in answers) == 700
    assert await fleet.count(status="queued") == 700
    successors = [run["retriedAs"] for run in (await fleet.api.get("/v1/runs?status=dead&limit=1000"))["items"]]
    assert len(set(successors)) == 700
    assert (await fleet.post("/v1/dead-letters:retry", fingerprint=fingerprint))["matched"] == 0


async def test_what_a_call_makes_is_not_its_own_next_match(fleet: Fleet) -> None:
    """A worker that fails everything at once must not keep a retry of everything going for ever."""
    await fleet.create(1_200, parameters={"error": "net"})
    await fleet.work_off()
    done = asyncio.Event()

    async def keep_failing() -> None:
        while not done.is_set():
            await fleet.work_off()
            await asyncio.sleep(0)

    failing = asyncio.create_task(keep_failing())
    answer = await fleet.post("/v1/runs:bulk", action="retry", filter={"status": "dead"})
    done.set()
    await failing
    await fleet.work_off()
    assert (answer["matched"], answer["changed"]) == (1_200, 1_200)
    assert (await fleet.api.get("/v1/dead-letters/groups"))["items"][0]["count"] == 1_200


async def test_runs_that_have_to_wait_for_each_other_are_retried_and_replayed_in_their_order(fleet: Fleet) -> None:
    hourly = {"type": "interval", "expression": "1h"}
    job = await fleet.api.create(schedule=hourly, overlap="queue", maxRetries=0, parameters={"error": "net"})
    for _ in range(20):
        await fleet.post(f"/v1/jobs/{job['jobId']}/run")
    await fleet.work_off()

    async def executed(origin: str, link: str) -> list[str]:
        """Which runs were followed, in the order in which their followers were claimed."""
        runs = (await fleet.api.get("/v1/runs", params={"origin": origin}))["items"]
        return [run[link] for run in sorted(runs, key=lambda run: run["fencingToken"])]

    dead = sorted(await executed("manual", "runId"))
    assert len(dead) == 20
    assert (await fleet.post("/v1/dead-letters:retry", all=True))["retried"] == 20
    await fleet.work_off()
    assert await executed("retry", "retryOf") == dead
    replayed = await fleet.post("/v1/runs:bulk", action="replay", filter={"origin": "manual"})
    assert replayed["changed"] == 20
    await fleet.work_off()
    assert await executed("replay", "replayOf") == dead


# --- choosing ---------------------------------------------------------------------------------------------------------


async def test_dead_letters_are_found_by_everything_they_have(fleet: Fleet) -> None:
    (mine,) = await fleet.create(1, parameters={"error": "net"}, tags=["a"], userId="u")
    await fleet.create(2, parameters={"error": "disk"})
    await fleet.work_off()
    fingerprint = (await fleet.groups())["net"]["fingerprint"]
    for query in ({"jobId": mine}, {"tag": "a"}, {"userId": "u"}, {"fingerprint": fingerprint}):
        found = (await fleet.api.get("/v1/dead-letters", params=query))["items"]
        assert [run["jobId"] for run in found] == [mine], query
        groups = (await fleet.api.get("/v1/dead-letters/groups", params=query))["items"]
        assert [group["count"] for group in groups] == [1], query
        counted = await fleet.post("/v1/dead-letters:discard", filter=query, dryRun=True)
        assert counted["matched"] == 1, query
    assert (await fleet.api.get("/v1/dead-letters", params={"endTime": "2020-01-01T00:00:00Z"}))["items"] == []
    assert await fleet.count(fingerprint=fingerprint) == 1
    assert (await fleet.post("/v1/dead-letters:discard", filter={"all": True}, dryRun=True))["matched"] == 3
    other = await fleet.api("POST", "/v1/dead-letters:retry", OTHER, json={"fingerprint": fingerprint})
    assert other.json()["matched"] == 0


@pytest.mark.parametrize(
    ("path", "body", "pointer"),
    [
        ("/v1/dead-letters:retry", {"filter": {}}, "/filter"),
        ("/v1/dead-letters:retry", {"filter": {"tag": ""}}, "/filter"),
        ("/v1/dead-letters:retry", {"filter": {"all": True, "tag": "a"}}, "/filter/all"),
        ("/v1/dead-letters:retry", {"filter": {"status": "dead"}}, "/filter/status"),
        ("/v1/dead-letters:retry", {"filter": {"startTime": "soon"}}, "/filter/startTime"),
        ("/v1/dead-letters:retry", {"fingerprint": "a", "all": True}, ""),
        ("/v1/dead-letters:discard", {"fingerprint": "a", "edit": {"timeout": 1}}, "/edit"),
        ("/v1/dead-letters:retry", {"all": True, "edit": {}}, "/edit"),
        ("/v1/dead-letters:retry", {"all": True, "edit": {"name": "n"}}, "/edit/name"),
        ("/v1/dead-letters:retry", {"all": True, "edit": {"timeout": "soon"}}, "/edit/timeout"),
        ("/v1/dead-letters:retry", {"all": True, "edit": {"grace": -1}}, "/edit/grace"),
        ("/v1/dead-letters:retry", {"all": True, "edit": {"taskId": "nobody"}}, "/edit/taskId"),
        ("/v1/dead-letters:retry", {"all": True, "edit": {"task": {"kind": "shell"}}}, "/edit/task/command"),
        ("/v1/dead-letters:retry", {"all": True, "edit": {"retry": {"base": "soon"}}}, "/edit/retry/base"),
        ("/v1/dead-letters:retry", {"all": True, "edit": {"retry": {"maxRetries": -1}}}, "/edit/retry/maxRetries"),
        ("/v1/dead-letters:retry", {"all": True, "edit": {"parameters": {"a": "\0"}}}, "/edit/parameters/a"),
        ("/v1/runs:bulk", {"filter": {"all": True}}, "/action"),
        ("/v1/runs:bulk", {"action": "explode", "filter": {"all": True}}, "/action"),
        ("/v1/runs:bulk", {"action": "cancel"}, "/filter"),
        ("/v1/runs:bulk", {"action": "cancel", "filter": {}}, "/filter"),
        ("/v1/runs:bulk", {"action": "cancel", "filter": {"status": "nope"}}, "/filter/status"),
        ("/v1/runs:bulk", {"action": "cancel", "filter": {"status": "queued,dead"}}, "/filter/status"),
        ("/v1/runs:bulk", {"action": "retry", "filter": {"status": ["succeeded"]}}, "/filter/status"),
        ("/v1/runs:bulk", {"action": "replay", "filter": {"status": "running"}}, "/filter/status"),
        ("/v1/runs:bulk", {"action": "retry", "filter": {"origin": "nobody"}}, "/filter/origin"),
        ("/v1/runs:bulk", {"action": "cancel", "filter": {"all": True}, "edit": {"timeout": 1}}, "/edit"),
        ("/v1/runs:bulk", {"action": "retry", "filter": {"createdBefore": "x"}}, "/filter/createdBefore"),
    ],
)
async def test_what_is_not_meant_is_refused_and_nothing_is_written(
    fleet: Fleet, path: str, body: dict[str, Any], pointer: str
) -> None:
    await fleet.create(1, parameters={"error": "net"})
    await fleet.work_off()
    refused = await fleet.post(path, 422, **body)
    assert refused["errors"][0]["pointer"] == pointer, refused
    assert await fleet.count() == 1
    assert len((await fleet.api.get("/v1/dead-letters"))["items"]) == 1


# --- one by one -------------------------------------------------------------------------------------------------------


async def test_a_dead_run_is_edited_and_retried_once(fleet: Fleet) -> None:
    await fleet.create(1, parameters={"error": "net"})
    await fleet.work_off()
    (dead,) = (await fleet.api.get("/v1/dead-letters"))["items"]
    path = f"/v1/runs/{dead['runId']}/retry"
    again = await fleet.post(path, edit={"parameters": {"error": "disk"}})
    assert (again["origin"], again["retryOf"], again["replayOf"]) == ("retry", dead["runId"], None)
    refused = await fleet.post(path, 409, edit={"parameters": {"error": None}})
    assert again["runId"] in refused["detail"]
    assert (await fleet.post(path))["runId"] == again["runId"]
    await fleet.work_off()
    assert list(await fleet.groups()) == ["disk"]

    # One that was edited keeps its edit; a further one comes on top.
    third = await fleet.post(f"/v1/runs/{again['runId']}/retry")
    assert (await fleet.api.get(f"/v1/runs/{third['runId']}/spec"))["spec"]["parameters"] == {"error": "disk", "row": 0}
    await fleet.work_off()
    last = await fleet.post(f"/v1/runs/{third['runId']}/retry", edit={"parameters": {"error": None}})
    assert (await fleet.api.get(f"/v1/runs/{last['runId']}/spec"))["spec"]["parameters"] == {"row": 0}
    await fleet.work_off()
    assert (await fleet.api.get(f"/v1/runs/{last['runId']}"))["status"] == "succeeded"


async def test_an_edit_is_of_what_the_run_executed_whatever_became_of_its_job(fleet: Fleet) -> None:
    (job,) = await fleet.create(1, parameters={"error": "net", "days": 7})
    await fleet.work_off()
    changed = await fleet.api("PATCH", f"/v1/jobs/{job}", json={"parameters": {"other": True}})
    assert changed.status_code == 200
    (dead,) = (await fleet.api.get("/v1/dead-letters"))["items"]
    again = await fleet.post(f"/v1/runs/{dead['runId']}/retry", edit={"parameters": {"error": None}})
    spec = await fleet.api.get(f"/v1/runs/{again['runId']}/spec")
    assert spec["spec"]["parameters"] == {"days": 7, "row": 0}
    assert (await fleet.api.get(f"/v1/jobs/{job}"))["parameters"] == {"other": True}


async def test_a_run_with_attempts_left_cannot_be_edited(fleet: Fleet) -> None:
    await fleet.create(1, parameters={"error": "net"}, maxRetries=3)
    await fleet.work_off()
    (waiting,) = (await fleet.api.get("/v1/runs?status=retrying"))["items"]
    refused = await fleet.post(f"/v1/runs/{waiting['runId']}/retry", 409, edit={"timeout": 1})
    assert "attempts left" in refused["detail"]
    assert (await fleet.post(f"/v1/runs/{waiting['runId']}/retry"))["runId"] == waiting["runId"]


async def test_a_discarded_run_says_so_and_is_retried_by_its_id(fleet: Fleet) -> None:
    await fleet.create(2, parameters={"error": "net"})
    await fleet.work_off()
    first, second = [run["runId"] for run in (await fleet.api.get("/v1/dead-letters"))["items"]]
    discarded = await fleet.post("/v1/dead-letters:discard", runIds=[first, "r_x"])
    assert (discarded["matched"], discarded["discarded"], discarded["skipped"]) == (2, 1, 1)
    assert (await fleet.api.get(f"/v1/runs/{first}"))["discardedAt"]
    assert "discardedAt" not in await fleet.api.get(f"/v1/runs/{second}")
    again = await fleet.post("/v1/dead-letters:discard", runIds=[first])
    assert again["items"][0]["error"]["code"] == "conflict"
    assert (await fleet.post("/v1/dead-letters:retry", filter={"all": True}))["retried"] == 1
    by_id = await fleet.post("/v1/dead-letters:retry", runIds=[first])
    assert by_id["retried"] == 1
    assert await fleet.count(origin="retry") == 2


async def test_a_retry_that_overlap_forbids_is_refused_and_leaves_the_letter(fleet: Fleet) -> None:
    schedule = {"type": "interval", "expression": "1h"}
    job = await fleet.api.create(schedule=schedule, overlap="skip", maxRetries=0, parameters={"error": "net", "row": 1})
    await fleet.post(f"/v1/jobs/{job['jobId']}/run")
    await fleet.work_off()
    (dead,) = (await fleet.api.get("/v1/dead-letters"))["items"]
    await fleet.post(f"/v1/jobs/{job['jobId']}/run")
    refused = await fleet.post(f"/v1/runs/{dead['runId']}/retry", 409)
    assert "overlap" in refused["detail"]
    assert len((await fleet.api.get("/v1/dead-letters"))["items"]) == 1
    assert await fleet.count(status="skipped") == 0


# --- replays ----------------------------------------------------------------------------------------------------------


async def test_a_run_is_replayed_by_the_current_spec_any_number_of_times(fleet: Fleet) -> None:
    (job,) = await fleet.create(1)
    await fleet.work_off()
    (done,) = (await fleet.api.get("/v1/runs?status=succeeded"))["items"]
    await fleet.api("PATCH", f"/v1/jobs/{job}", json={"parameters": {"days": 1}})
    first = await fleet.post(f"/v1/runs/{done['runId']}/replay")
    second = await fleet.post(f"/v1/runs/{done['runId']}/replay", edit={"parameters": {"days": 2}})
    assert (first["status"], first["replayOf"]) == ("queued", done["runId"])
    assert (second["status"], second["detail"]) == ("blocked", "it waits until an earlier run has ended")
    specs = [await fleet.api.get(f"/v1/runs/{answer['runId']}/spec") for answer in (first, second)]
    assert [(spec["edited"], spec["spec"]["parameters"]) for spec in specs] == [
        (False, {"days": 1}),
        (True, {"days": 2}),
    ]
    await fleet.work_off()
    replays = (await fleet.api.get("/v1/runs?origin=replay"))["items"]
    assert {(run["status"], run["replayOf"], run["retryOf"]) for run in replays} == {("succeeded", done["runId"], None)}
    assert (await fleet.api.get(f"/v1/jobs/{job}/ledger"))["due"] == 1
    assert (await fleet.api.get(f"/v1/runs/{done['runId']}"))["retriedAs"] is None


async def test_only_what_has_ended_can_be_replayed(fleet: Fleet) -> None:
    (job,) = await fleet.create(1)
    (queued,) = (await fleet.api.get("/v1/runs"))["items"]
    assert "queued" in (await fleet.post(f"/v1/runs/{queued['runId']}/replay", 409))["detail"]
    await fleet.api("DELETE", f"/v1/jobs/{job}")
    refused = await fleet.post(f"/v1/runs/{queued['runId']}/replay", 409)
    assert "was cancelled" in refused["detail"]
    assert (await fleet.api("POST", f"/v1/runs/{queued['runId']}/replay", OTHER)).status_code == 404


async def test_replaying_many_is_repeated_safely_with_the_moment_of_the_first_answer(fleet: Fleet) -> None:
    await fleet.create(600, tags=["a"])
    await fleet.create(5)
    await fleet.work_off()
    request: dict[str, Any] = {"action": "replay", "filter": {"tag": "a"}}
    counted = await fleet.post("/v1/runs:bulk", **request, dryRun=True)
    assert counted["matched"] == 600
    request["filter"]["createdBefore"] = counted["createdBefore"]
    last = len(fleet.servers) - 1
    answers = await asyncio.gather(*(fleet.post("/v1/runs:bulk", server=at, **request) for at in (0, last, 0)))
    assert sum(answer["changed"] for answer in answers) == 600
    await fleet.work_off()
    again = await fleet.post("/v1/runs:bulk", **request)
    assert (again["matched"], again["changed"], again["skipped"]) == (600, 0, 600)
    assert len(again["failed"]) == 10
    assert "replayed already" in again["failed"][0]["error"]["detail"]
    assert len((await fleet.api.get("/v1/runs?origin=replay&limit=1000"))["items"]) == 600


# --- bulk -------------------------------------------------------------------------------------------------------------


async def test_runs_are_cancelled_over_a_filter(fleet: Fleet) -> None:
    later = {"type": "date", "expression": "2099-01-01T00:00:00Z"}
    jobs = await fleet.create(3, tags=["a"], schedule=later)
    await fleet.create(2)
    await fleet.work_off()
    await fleet.create(2, tags=["a"])
    counted = await fleet.post("/v1/runs:bulk", action="cancel", filter={"tag": "a"}, dryRun=True)
    assert counted["matched"] == 2  # what is beyond the horizon is no run yet
    assert await fleet.count(status="cancelled") == 0
    answer = await fleet.post("/v1/runs:bulk", action="cancel", filter={"tag": "a"})
    assert (answer["matched"], answer["changed"], answer["skipped"], answer["failed"]) == (2, 2, 0, [])
    assert (await fleet.post("/v1/runs:bulk", action="cancel", filter={"tag": "a"}))["matched"] == 0
    assert await fleet.count(status="succeeded") == 2
    assert (await fleet.api.get(f"/v1/jobs/{jobs[0]}"))["status"] == "scheduled"


async def test_runs_are_retried_over_a_filter(fleet: Fleet) -> None:
    await fleet.create(3, parameters={"error": "net"})
    await fleet.create(2, parameters={"error": "net"}, maxRetries=3)
    gone = await fleet.create(1, parameters={"error": "net"})
    await fleet.work_off()
    await fleet.api("DELETE", f"/v1/jobs/{gone[0]}")
    answer = await fleet.post("/v1/runs:bulk", action="retry", filter={"all": True})
    assert (answer["matched"], answer["changed"], answer["skipped"]) == (6, 5, 1)
    assert "was cancelled" in answer["failed"][0]["error"]["detail"]
    assert await fleet.count(origin="retry") == 3
    assert (await fleet.post("/v1/runs:bulk", action="retry", filter={"status": "cancelled"}))["matched"] == 0


async def test_a_group_without_a_fingerprint_is_selected_by_its_word(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A retry of that group retries exactly its dead letters, not all of them."""
    with monkeypatch.context() as old:  # before the store kept fingerprints
        old.setattr("timeball.stores.sql.runs.settling.fingerprint", lambda failure: None)
        await fleet.create(2, parameters={"error": "disk"})
        await fleet.work_off()
    await fleet.create(3, parameters={"error": "net"})
    await fleet.work_off()
    groups = (await fleet.api.get("/v1/dead-letters/groups"))["items"]
    assert {group["fingerprint"]: group["count"] for group in groups}["none"] == 2
    listed = await fleet.api.get("/v1/dead-letters", params={"fingerprint": "none"})
    assert len(listed["items"]) == 2
    counted = await fleet.post("/v1/dead-letters:retry", filter={"fingerprint": "none"}, dryRun=True)
    assert counted["matched"] == 2
    retried = await fleet.post("/v1/dead-letters:retry", filter={"fingerprint": "none"})
    assert (retried["matched"], retried["retried"]) == (2, 2)
    left = (await fleet.api.get("/v1/dead-letters/groups"))["items"]
    assert [group["count"] for group in left] == [3]
