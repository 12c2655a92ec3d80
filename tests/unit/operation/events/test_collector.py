"""The data of a job in the events of its runs: known from specs, else read from the store, in the order of the
changes."""

from typing import Any

import msgspec
import pytest

from tests.unit.operation.events.changes import TIME, Server, batch, change, created, job, read, types
from timeball.domain.instant import MILLISECOND, SECOND
from timeball.domain.job.job import Job, encode_spec
from timeball.domain.run.ledger import Origin, Verdict
from timeball.domain.run.run import Run
from timeball.domain.run.status import Status
from timeball.operation.events import collector, job_facts
from timeball.operation.events.collector import MissingFacts
from timeball.ports.store.changes import JobSeen
from timeball.ports.store.jobs import JobStatus


def started(number: int, claimed: Job, **more: Any) -> Any:
    return change(
        number, Status.RUNNING, tenant=claimed.tenant, job_id=claimed.id, spec=encode_spec(claimed.spec), **more
    )


def run(number: int, of: Job, status: Status = Status.RUNNING) -> Run:
    nothing: dict[str, Any] = dict.fromkeys(
        field.name for field in msgspec.structs.fields(Run) if field.default is msgspec.NODEFAULT
    )
    own = {"id": f"r_{number}", "job_id": of.id, "tenant": of.tenant, "job_name": of.spec.name, "status": status}
    return Run(**nothing | own | {"origin": Origin.MANUAL, "verdict": Verdict.OPEN})


def test_a_claim_teaches_the_job_of_a_run_until_its_end() -> None:
    server = Server()
    listener = server.listen()
    recurring = job(1, tags=("x",), repeats=True)
    server.happen(started(1, recurring))
    server.happen(change(1, Status.SUCCEEDED, tenant=""))
    events = read(listener)
    assert [event["data"]["jobName"] for event in events] == ["job 1", "job 1"]
    assert [event["data"]["tags"] for event in events] == [["x"], ["x"]]
    assert [event["data"]["kind"] for event in events] == ["shell", "shell"]
    assert server.hub._collector._facts._by_run == {}


def test_facts_of_jobs_that_fire_once_are_forgotten_with_their_end() -> None:
    server = Server()
    server.listen()
    for number in range(100):
        server.happen(created(job(number)), change(number, Status.RUNNING), change(number, Status.SUCCEEDED, tenant=""))
    assert server.hub._collector._facts._by_job == {}


def test_the_number_of_facts_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_facts, "MAX_FACTS", 5)
    server = Server()
    server.listen()
    for number in range(20):
        server.happen(created(job(number, repeats=True)), started(number, job(100 + number, repeats=True)))
    facts = server.hub._collector._facts
    assert (len(facts._by_job), len(facts._by_run)) == (5, 5)


def test_a_run_that_is_claimed_early_starts_when_it_is_due() -> None:
    server = Server()
    listener = server.listen()
    early = msgspec.structs.replace(started(1, job(1)), at=TIME + 200 * MILLISECOND)
    server.hub.collect(batch(early))
    server.turn()
    assert types(listener) == []
    assert server.hub.due_in(server.now) is not None
    server.take(TIME + SECOND)
    server.publish()
    assert types(listener) == ["run.started"]


def test_a_run_without_a_known_job_is_looked_up_once_and_keeps_its_place() -> None:
    server = Server()
    listener = server.listen()
    known, old = job(1), job(2, tags=("x",), repeats=True)
    hub = server.hub
    hub.collect(batch(change(7, Status.RUNNING, tenant="", job_id="", progress=(0.5, "half")), created(known)))
    assert server.take() == MissingFacts(["r_7"], [])
    assert hub.runs_found({"r_7": run(7, old)}) == MissingFacts([], ["j_2"])
    hub.jobs_found(["j_2"], {"j_2": JobStatus(old, "scheduled", None)})
    server.publish()
    progress, new = read(listener)
    assert (progress["type"], new["type"]) == ("timeball.run.progress", "timeball.job.created")
    assert progress["data"] == {
        "runId": "r_7",
        "jobId": "j_2",
        "jobName": "job 2",
        "status": "running",
        "tags": ["x"],
        "kind": "shell",
        "progress": 0.5,
        "note": "half",
    }
    hub.collect(batch(change(7, Status.SUCCEEDED, tenant="", job_id="j_2")))
    assert server.take() == MissingFacts([], [])


def test_the_tenant_of_a_run_is_never_what_a_worker_says() -> None:
    """I24: a plain success has the id of its job from the worker's report."""
    server = Server()
    mine, theirs = server.listen("a"), server.listen("b")
    server.happen(created(job(1, tenant="a", repeats=True)), created(job(2, tenant="b", repeats=True)))
    server.happen(change(1, Status.RUNNING, tenant="a"), change(2, Status.RUNNING, tenant="b"))
    read(mine), read(theirs)
    server.happen(change(1, Status.SUCCEEDED, tenant="", job_id="j_2"))
    (event,) = read(mine)
    assert (event["data"]["runId"], event["data"]["jobId"]) == ("r_1", "j_1")
    assert read(theirs) == []
    server.hub.collect(batch(change(3, Status.SUCCEEDED, tenant="", job_id="j_2")))
    assert server.take() == MissingFacts(["r_3"], [])


def test_a_run_that_is_not_found_is_dropped_and_a_job_is_not_looked_up_twice() -> None:
    server = Server()
    listener = server.listen()
    hub = server.hub
    hub.collect(batch(change(1, Status.SUCCEEDED, tenant=""), change(2, Status.QUEUED)))
    assert server.take() == MissingFacts(["r_1"], ["j_2"])
    assert hub.runs_found({}) == MissingFacts([], ["j_2"])
    hub.jobs_found(["j_2"], {})
    server.publish()
    (event,) = read(listener)
    assert event["data"]["runId"] == "r_2"
    hub.collect(batch(change(2, Status.SKIPPED)))
    assert server.take() == MissingFacts([], [])


def test_lookups_are_bounded_and_what_they_leave_out_is_a_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "MAX_LOOKED_UP", 3)
    server = Server()
    listener = server.listen()
    server.hub.collect(batch(*(change(number, Status.SUCCEEDED, tenant="") for number in range(5))))
    wanted = server.take()
    assert len(wanted.run_ids) == 3
    server.hub.runs_found({run_id: run(int(run_id[2:]), job(1, repeats=True)) for run_id in wanted.run_ids})
    server.publish()
    assert types(listener) == ["run.succeeded"] * 3 + ["reset"]


def test_a_failed_lookup_is_a_reset_if_a_run_is_unknown() -> None:
    server = Server()
    listener = server.listen()
    server.hub.collect(batch(change(1, Status.SUCCEEDED, tenant=""), change(2, Status.QUEUED)))
    server.take()
    server.hub.lookups_failed()
    server.publish()
    assert types(listener) == ["run.queued", "reset"]


def test_jobs_that_the_planner_read_are_known() -> None:
    server = Server()
    listener = server.listen(tag="x")
    planned = job(1, tags=("x",), repeats=True)
    server.hub.collect(batch(JobSeen(planned), change(1, Status.SCHEDULED)))
    assert server.take() == MissingFacts([], [])
    server.publish()
    (event,) = read(listener)
    assert (event["type"], event["data"]["status"]) == ("timeball.run.queued", "scheduled")
    assert event["data"]["jobName"] == "job 1"


def test_the_end_of_a_task_does_not_complete_the_job_of_its_workflow() -> None:
    server = Server()
    listener = server.listen()
    server.happen(created(job(1)), change(1, Status.SUCCEEDED, is_task=True))
    assert types(listener) == ["job.created", "run.succeeded"]
    server.happen(change(2, Status.SUCCEEDED, job_id="j_1"))
    assert types(listener) == ["run.succeeded", "job.completed"]


def test_a_job_that_repeats_is_not_completed_by_a_run() -> None:
    server = Server()
    listener = server.listen()
    server.happen(created(job(1, repeats=True)), change(1, Status.DEAD))
    assert types(listener) == ["job.created", "run.dead"]


def test_a_spec_that_cannot_be_read_hides_nothing_but_its_facts() -> None:
    server = Server()
    listener = server.listen()
    server.hub.collect(batch(change(1, Status.RUNNING, spec=b'{"name": 7}')))
    server.take()
    server.publish()
    (event,) = read(listener)
    assert event["data"] == {"runId": "r_1", "jobId": "j_1", "status": "running"}
