"""Large windows of changes are counted without an object per change, and the counts are correct."""

import pytest

from tests.unit.operation.events.changes import Server, change, created, job, last_id, read, types
from timeball.domain.run.status import Status
from timeball.operation.events import collector
from timeball.operation.events.collector import MAX_DETAILED, MissingFacts
from timeball.operation.events.summary import RunsSummary
from timeball.ports.store.changes import ChangeBatch, JobColumns, RunChange, RunColumns

MANY = MAX_DETAILED


def in_columns(*changes: RunChange) -> ChangeBatch:
    """As the store reports them."""
    tenants = [each.tenant for each in changes]
    return ChangeBatch(
        len(changes),
        lambda: changes,
        lambda: RunColumns(
            [each.run_id for each in changes],
            [each.job_id for each in changes],
            tenants if all(tenants) else None,
            changes[0].status if len({each.status for each in changes}) == 1 else [each.status for each in changes],
        ),
    )


def many(status: Status, count: int = MANY, *, jobs: int = 3, first: int = 0) -> ChangeBatch:
    return in_columns(*(change(number, status, job_id=f"j_{first + number % jobs}") for number in range(count)))


def happen(server: Server, *batches: ChangeBatch) -> None:
    server.hub.collect(batches)
    server.turn()


def test_the_counts_are_those_of_the_changes() -> None:
    server = Server()
    listener = server.listen()
    batches = [many(Status.QUEUED), many(Status.RUNNING), many(Status.SUCCEEDED, 200)]
    happen(server, *batches)
    (event,) = read(listener)
    whole = RunsSummary.of((each, None) for batch in batches for each in batch.list_changes())  # type: ignore[misc]
    assert event["data"]["count"] == whole.count == 2 * MANY + 200
    assert event["data"]["statuses"] == whole.statuses
    assert event["data"]["jobs"] == whole.jobs
    assert event["data"]["jobsTruncated"] is False
    assert event["data"]["runs"] == whole.runs


def test_few_changes_are_looked_at_one_by_one() -> None:
    server = Server()
    listener = server.listen()
    happen(server, many(Status.QUEUED, 50), many(Status.RUNNING, 50))
    assert types(listener) == ["run.queued"] * 50 + ["run.started"] * 50


def test_jobs_and_runs_are_listed_up_to_a_limit() -> None:
    server = Server()
    listener, of_job = server.listen(), server.listen(statuses=frozenset({Status.DEAD}))
    happen(server, many(Status.QUEUED, 2_000, jobs=500))
    (event,) = read(listener)
    data = event["data"]
    assert (data["count"], data["jobsTruncated"]) == (2_000, True)
    assert 0 < len(data["jobs"]) <= 50
    assert len(data["runs"]) == 50
    assert read(of_job) == []


def test_filters_by_job_and_run_get_their_changes_one_by_one() -> None:
    server = Server()
    of_job, of_run, of_other = server.listen(job_id="j_7"), server.listen(run_id="r_9"), server.listen(job_id="j_x")
    by_status = server.listen(statuses=frozenset({Status.RUNNING}))
    begin = last_id(of_job)
    happen(server, many(Status.QUEUED, jobs=MANY), many(Status.RUNNING, jobs=MANY), many(Status.SUCCEEDED, jobs=MANY))
    for listener, name in ((of_job, "r_7"), (of_run, "r_9")):
        events = read(listener)
        assert [event["data"]["status"] for event in events] == ["queued", "running", "succeeded"]
        assert {event["data"]["runId"] for event in events} == {name}
    assert read(of_other) == []
    (event,) = read(by_status)
    assert event["data"]["statuses"]["running"] == MANY
    assert types(server.listen(last_id=begin, job_id="j_7")) == ["runs.changed"]


def test_filters_by_tag_look_at_each_change() -> None:
    server = Server()
    every, tagged = server.listen(), server.listen(tag="x")
    server.happen(created(job(1, tags=("x",), repeats=True)))
    read(every), read(tagged)
    others = many(Status.QUEUED, 2 * MANY, first=1_000)
    own = in_columns(*(change(number, Status.RUNNING, job_id="j_1") for number in range(90_000, 90_005)))
    happen(server, others, own)
    (event,) = read(every)
    assert event["data"]["count"] == 2 * MANY + 5
    assert [event["data"]["jobId"] for event in read(tagged)] == ["j_1"] * 5


def test_the_tenant_of_a_success_is_that_of_its_claim() -> None:
    """I24: a success has no tenant, and the id of its job from the worker."""
    server = Server()
    mine, theirs = server.listen("a"), server.listen("b")
    claims = [change(number, Status.RUNNING, tenant="ab"[number % 2]) for number in range(2 * MANY)]
    ends = [change(number, Status.SUCCEEDED, tenant="", job_id="j_forged") for number in range(2 * MANY)]
    happen(server, in_columns(*claims))
    happen(server, in_columns(*ends))
    for listener in (mine, theirs):
        counts = [event["data"]["statuses"] for event in read(listener)]
        assert counts == [{"running": MANY}, {"succeeded": MANY}]
    assert server.hub._collector._facts._by_run == {}


def test_successes_of_unknown_runs_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "MAX_LOOKED_UP", 5)
    server = Server()
    listener = server.listen()
    known = [change(number, Status.RUNNING) for number in range(MANY)]
    ends = [change(number, Status.SUCCEEDED, tenant="") for number in range(MANY + 3)]
    server.hub.collect([in_columns(*known), in_columns(*ends)])
    assert server.take() == MissingFacts([f"r_{number}" for number in range(MANY, MANY + 3)], [])
    server.publish()
    (event,) = read(listener)
    assert event["data"]["statuses"] == {"running": MANY, "succeeded": MANY}


def test_what_was_only_counted_is_completed_later() -> None:
    """Its tenant is known, and its job is looked up when an event names it."""
    server = Server()
    listener = server.listen()
    happen(server, many(Status.RUNNING))
    read(listener)
    server.hub.collect([in_columns(change(1, Status.SUCCEEDED, tenant="", job_id="j_1"))])
    assert server.take() == MissingFacts([], ["j_1"])
    server.publish()
    (event,) = read(listener)
    assert event["data"] == {"runId": "r_1", "jobId": "j_1", "status": "succeeded"}


def test_new_jobs_are_counted_by_tenant() -> None:
    server = Server()
    mine, theirs = server.listen("a"), server.listen("b")
    jobs = [job(number, tenant="aab"[number % 3]) for number in range(3 * MANY)]
    columns = JobColumns(created(jobs[0]).type, [each.id for each in jobs], [each.tenant for each in jobs])
    happen(server, ChangeBatch(len(jobs), lambda: [created(each) for each in jobs], lambda: columns))
    assert [event["data"]["jobEvents"] for event in read(mine)] == [{"timeball.job.created": 2 * MANY}]
    assert [event["data"]["jobEvents"] for event in read(theirs)] == [{"timeball.job.created": MANY}]


def test_many_changes_are_told_to_other_servers_as_counts() -> None:
    work, page = Server(1), Server(2)
    listener = page.listen()
    page.turn()
    page.tell(work)
    happen(work, many(Status.QUEUED, 5_000), many(Status.RUNNING, 5_000))
    work.tell(page)
    page.turn()
    (event,) = read(listener)
    assert event["data"]["statuses"] == {"queued": 5_000, "running": 5_000}
