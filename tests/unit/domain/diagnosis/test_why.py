"""The reasons of `timeball why`: computed from a snapshot, in the order of their importance."""

from typing import Any

import pytest

from tests.support.builders import job, spec
from tests.unit.domain.run.test_lateness import run
from timeball.domain.diagnosis import why, worker_match
from timeball.domain.diagnosis.reasons import Code
from timeball.domain.diagnosis.snapshot import CalledHost, DiagnosisSnapshot, Permits, RunsAhead, Standing, Tokens, Turn
from timeball.domain.diagnosis.worker_match import WorkerOffer
from timeball.domain.dispatch.limits import TokenBucket
from timeball.domain.dispatch.overlap import Overlap
from timeball.domain.dispatch.placement import UNLIMITED, Offer, Resources, kind_label, need
from timeball.domain.instant import DAY, HOUR, MINUTE, SECOND
from timeball.domain.run.circuit_breaker import Circuit
from timeball.domain.run.ledger import Origin, Verdict
from timeball.domain.run.lifecycle import Failure, Hold
from timeball.domain.run.run import Run
from timeball.domain.run.status import Status
from timeball.domain.schedule.schedule import Interval
from timeball.domain.task.retry import Retry
from timeball.domain.task.task import Shell
from timeball.domain.workflow.definition import Workflow, WorkflowTask

NOW = 1_800_000_000 * SECOND
BOOM = Failure(kind="exit", message="boom")


def hand(
    name: str = "w", *, free: int = 0, slots: int = 2, reserved_for: str | None = None, **offer: Any
) -> WorkerOffer:
    def offered(count: int) -> Offer:
        values = {"cpu": UNLIMITED, "memory": UNLIMITED, **offer}
        return Offer(session=name, slots=count, reserved_for=reserved_for, **values)

    return WorkerOffer(name=name, idle=offered(slots), left=offered(free))


def waiting(**fields: Any) -> Run:
    values = {
        "status": Status.QUEUED, "attempt": 0, "token": None, "worker": None, "fire_time": NOW - SECOND,
        "eligible_at": NOW - SECOND, "created_at": NOW - SECOND, "claimed_at": None, "started_at": None,
        "finished_at": None, "fire_until": NOW - SECOND,
    }  # fmt: skip
    return run(**{**values, **fields})


def facts(of: Run, *, rules: Any = None, **fields: Any) -> DiagnosisSnapshot:
    values = {"now": NOW, "job": job(NOW, next_fire_at=NOW), "spec": spec(**(rules or {})), "credit": MINUTE}
    return DiagnosisSnapshot(run=of, **{**values, "workers": (hand(),), **fields})


def codes(found: DiagnosisSnapshot) -> list[Code]:
    return [reason.code for reason in why.of_run(found)]


FULL = Permits("db", 1, 1, ("r_x",))
SPENT = Tokens("api", TokenBucket(1, HOUR, NOW + HOUR))
OPEN = CalledHost("h:443", Circuit(7, NOW + 30 * SECOND, 1))
PROBED = CalledHost("h:443", Circuit(7, NOW - SECOND, 1, "r_probe"))
WELL = CalledHost("h:443", Circuit())
HELD = {"status": Status.BLOCKED, "holds": Hold.GATE}
BUSY_RIVAL = run(id="r_rival", status=Status.RUNNING, attempt_started_at=NOW - MINUTE, finished_at=None)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (facts(waiting()), ["busy"]),
        (facts(waiting(), workers=()), ["no_worker"]),
        (facts(waiting(), workers=(hand(free=1),)), ["claimable"]),
        (facts(waiting(), ahead=RunsAhead(0, 3)), ["ahead", "busy"]),
        (facts(waiting(), ahead=RunsAhead(1), workers=(hand(free=1),)), ["ahead"]),
        (facts(waiting(), ahead=RunsAhead(1), workers=(hand(free=2),)), ["claimable"]),
        (facts(waiting(profile="p"), workers=(hand(reserved_for="p"),)), ["reserved", "busy"]),
        (facts(waiting(), workers=(hand(free=2, reserved_for="other"),)), ["busy"]),
        (facts(waiting(), permits=FULL), ["concurrency"]),
        (facts(waiting(), permits=FULL, target=OPEN, tokens=SPENT), ["concurrency", "circuit_open", "rate_limit"]),
        (facts(waiting(**HELD, gate="rate:api"), permits=FULL, tokens=SPENT), ["rate_limit", "concurrency"]),
        (facts(waiting(**HELD, gate="host:h:443"), target=PROBED), ["circuit_probed"]),
        (facts(waiting(**HELD, gate="host:h:443"), target=WELL), ["circuit_open"]),
        (facts(waiting(**HELD, gate="limit:db"), permits=Permits("db", 2, 1, ("r_x",))), ["concurrency"]),
        (facts(waiting(status=Status.BLOCKED, holds=Hold.OVERLAP), rival=BUSY_RIVAL), ["overlap"]),
        (facts(waiting(status=Status.BLOCKED, holds=Hold.OVERLAP)), ["overlap"]),
        (facts(waiting(holds=Hold.TURN, ordering_key="k"), turn=Turn(None, 0)), ["turn"]),
        (
            facts(
                waiting(holds=Hold.TURN | Hold.OVERLAP, ordering_key="k"), turn=Turn(BUSY_RIVAL, 1), rival=BUSY_RIVAL
            ),
            ["overlap", "turn"],
        ),
        (facts(waiting(attempt=2, eligible_at=NOW + SECOND, failure=BOOM)), ["retry"]),
        (facts(waiting(attempt=2, failure=BOOM)), ["busy"]),
        (facts(waiting(fire_time=NOW + HOUR)), ["not_due"]),
        (facts(waiting(due_at=NOW + MINUTE)), ["jitter"]),
        (facts(waiting(start_by=NOW + HOUR)), ["busy", "start_deadline"]),
        (facts(waiting(token=1, attempt=1)), ["claimed"]),
        (facts(waiting(token=1, attempt=1, attempt_started_at=NOW), leased=False), ["silent", "running"]),
        (
            facts(waiting(token=1, attempt=1, attempt_started_at=NOW, cancel_requested_at=NOW)),
            ["cancelling", "running"],
        ),
        (
            facts(waiting(token=1, attempt=1, fire_time=NOW - MINUTE, started_at=NOW, attempt_started_at=NOW)),
            ["running", "late"],
        ),
    ],
)
def test_reasons_in_their_order(found: DiagnosisSnapshot, expected: list[str]) -> None:
    assert codes(found) == expected


@pytest.mark.parametrize("policy", list(Overlap))
def test_what_an_overlap_will_come_to_is_told_beforehand(policy: Overlap) -> None:
    future = waiting(fire_time=NOW + MINUTE, holds=Hold.OVERLAP)
    late, overlap = why.of_run(facts(future, rules={"overlap": policy}, rival=BUSY_RIVAL))
    assert (late.code, overlap.code) == ("not_due", "overlap")
    assert ("skipped" in overlap.text) == (policy is Overlap.SKIP)
    assert ("it is stopped and this run replaces it" in overlap.text) == policy.endswith("_previous")


def test_the_bound_of_aging_is_told() -> None:
    (ahead, _) = why.of_run(facts(waiting(), ahead=RunsAhead(312), priority=5))
    assert ahead.text.startswith("312 runs are ahead of this one by priority: 312 of a higher priority")
    assert ahead.until == NOW - SECOND + 4 * MINUTE
    (old, _) = why.of_run(facts(waiting(eligible_at=NOW - HOUR), ahead=RunsAhead(1), priority=5))
    assert old.text.endswith("no new run overtakes it any more.")
    (many, _) = why.of_run(facts(waiting(), ahead=RunsAhead(10_001), priority=5))
    assert many.text.startswith("More than 10,000 runs are ahead of this one;")


@pytest.mark.parametrize(
    ("asked", "workers", "code", "words"),
    [
        (need(None, []), [], "no_worker", "There is no worker"),
        (need(None, ["gpu"]), [], "no_fitting_worker", "No worker offers label gpu: there is no worker."),
        (need(None, ["a", "b"]), [hand()], "no_fitting_worker", "no worker has the labels a and b"),
        (
            need(None, ["a", "b"]),
            [hand(labels=frozenset("a")), hand(labels=frozenset("b"))],
            "no_fitting_worker",
            "no worker has all of these labels",
        ),
        (
            need(Resources(cpu=4, memory_mb=512), ["gpu"]),
            [hand(labels=frozenset(["gpu"]), cpu=2000, memory=256)],
            "no_fitting_worker",
            "label gpu: the largest offers of the workers with these labels are 2 slots, 2 CPU and 256 MiB.",
        ),
        (need(Resources(slots=3), []), [hand(slots=2)], "no_fitting_worker", "of 1 worker are 2 slots"),
        (need(None, []), [hand(dedicated=True)], "no_fitting_worker", "can only execute runs that require a label"),
    ],
)
def test_what_nobody_offers(asked: Any, workers: list[WorkerOffer], code: str, words: str) -> None:
    reason = worker_match.lacking(asked, None, workers)
    assert reason is not None
    assert reason.code == code
    assert words in reason.text


def test_the_kinds_that_workers_take_are_told() -> None:
    web = hand(kinds=frozenset([kind_label("http")]), labels=frozenset(["eu"]))
    reason = worker_match.lacking(need(None, []), None, [web, web], "shell")
    assert reason is not None
    assert (reason.code, reason.text) == (
        "no_fitting_worker",
        "No worker accepts shell jobs (2 workers with other kinds only).",
    )
    assert "--kinds shell" in reason.unblocks
    assert worker_match.lacking(need(None, []), None, [web], "http") is None
    assert worker_match.lacking(need(None, []), None, [web, hand()], "shell") is None
    lacking = worker_match.lacking(need(None, ["gpu"]), None, [web], "http")
    assert lacking is not None
    assert lacking.text == "No worker offers label gpu: no worker has the label gpu."


def test_whoever_could_run_it_were_he_idle_is_enough() -> None:
    assert worker_match.lacking(need(Resources(slots=2), []), None, [hand(free=0, slots=2)]) is None
    assert worker_match.lacking(need(None, []), "f", [hand()]) is not None
    skilled = WorkerOffer(name="w", idle=hand().idle, left=hand().left, functions=frozenset("f"))
    assert worker_match.lacking(need(None, []), "f", [skilled]) is None


@pytest.mark.parametrize(
    ("fields", "rules", "expected", "words"),
    [
        ({"finished_at": 5_000_000}, {}, ["succeeded"], "The run succeeded"),
        ({"started_at": 10 * SECOND, "claimed_at": 10 * SECOND}, {}, ["late", "succeeded"], "9 s in the queue"),
        ({"status": Status.DEAD, "failure": BOOM, "attempt": 4}, {}, ["dead"], "failed (4); the last one: boom"),
        ({"status": Status.DEAD, "failure": BOOM, "retried_as": "r_2"}, {}, ["dead"], "was retried as run r_2"),
        ({"status": Status.DEAD, "failure": BOOM, "discarded_at": 1}, {}, ["dead"], "it was discarded"),
        ({"status": Status.FAILED, "failure": BOOM}, {}, ["failed"], "excludes a retry of this failure: boom"),
        ({"status": Status.FAILED, "failure": BOOM}, {"delivery": "at_most_once"}, ["at_most_once"], "at_most_once"),
        ({"status": Status.CANCELLED, "reason": "x"}, {}, ["cancelled"], ": x."),
        ({"status": Status.SKIPPED, "verdict": "skipped", "reason": "x"}, {}, ["skipped"], "The run was skipped: x."),
        (
            {"status": Status.SKIPPED, "verdict": Verdict.MISSED, "fires": 3, "reason": "x"},
            {},
            ["missed"],
            "3 fires from",
        ),
    ],
)
def test_how_a_run_ended(fields: Any, rules: Any, expected: list[str], words: str) -> None:
    reasons = why.of_run(facts(run(**fields), rules=rules, now=20 * SECOND))
    assert [reason.code for reason in reasons] == expected
    assert words in reasons[0].text


def test_a_task_that_failed_is_retried_with_its_workflow_run() -> None:
    failed = run(status=Status.FAILED, failure=BOOM, origin=Origin.TASK)
    (reason,) = why.of_run(facts(failed, part_of="r_whole", now=20 * SECOND))
    assert reason.text == "The run failed: boom."
    assert "timeball workflows retry r_whole" in reason.unblocks


def test_a_workflow_run_that_failed_is_retried_from_its_tasks() -> None:
    tasks = Workflow([WorkflowTask(name="a", task=Shell(command="true"))])
    failed = run(status=Status.FAILED, failure=BOOM)
    (reason,) = why.of_run(facts(failed, rules={"task": tasks}, now=20 * SECOND))
    assert (reason.text, f"timeball workflows retry {failed.id}" in reason.unblocks) == ("The run failed: boom.", True)


def test_a_run_of_a_backfill_is_not_late() -> None:
    old = run(origin=Origin.BACKFILL, started_at=DAY, claimed_at=DAY, finished_at=DAY)
    assert [reason.code for reason in why.of_run(facts(old, now=2 * DAY))] == ["succeeded"]


def standing(**fields: Any) -> Standing:
    made = job(NOW, next_fire_at=NOW + HOUR, **fields.pop("rules", {}))
    state = fields.pop("state", {})
    return Standing(**{"now": NOW, "job": made.with_(**state), "alive": 0, "next_fire": None, "run": None, **fields})


def test_a_job_whose_schedule_is_over_says_why() -> None:
    every = Interval(expression="1h")
    ended = standing(rules={"schedule": every, "end_at": "2027-01-01T00:00:00Z"})
    assert [reason.code for reason in why.of_job(ended)] == ["ended"]
    spent = standing(rules={"schedule": every, "max_runs": 2}, state={"fired": 2})
    assert [reason.code for reason in why.of_job(spent)] == ["exhausted"]
    assert [reason.code for reason in why.of_job(standing())] == ["completed"]
    assert "after its current run" in why.of_job(standing(alive=1))[0].text


def test_attempts_are_counted_as_the_policy_has_them() -> None:
    retried = waiting(attempt=2, eligible_at=NOW + 12 * SECOND, failure=BOOM)
    (reason,) = why.of_run(facts(retried, rules={"retry": Retry(max_retries=4)}))
    assert reason.text == "The retry is due in 12 s; attempt 2 of 5 failed: boom."
    assert reason.until == NOW + 12 * SECOND


def test_a_wait_that_the_cap_cut_is_named() -> None:
    """I15: the reason says why the retry starts before the target wanted it to."""
    busy = Failure(kind="http", message="503", status=503, retry_after=2 * 3600 * SECOND)
    retried = waiting(attempt=1, eligible_at=NOW + 30 * SECOND, failure=busy)
    (reason,) = why.of_run(facts(retried, rules={"retry": Retry(cap="30s")}))
    assert reason.text.endswith("attempt 1 of 4 failed: 503. The target requested a delay of 2 h; the cap is 30 s.")
    (reason,) = why.of_run(facts(retried, rules={"retry": Retry(cap="2h")}))
    assert reason.text.endswith("failed: 503.")
