"""The judgement of `timeball chaos`: one history for each way to break a promise, and one in which all are kept."""

from typing import Any

import pytest
from msgspec import structs

from timeball.chaos.checker import NO_FAULT, Judgement, judge, percentile
from timeball.chaos.history import Fault, History, Promise, Row, Sighting
from timeball.domain.instant import MILLISECOND, SECOND

T = 1_000_000 * SECOND
JOB = "j_1"


def row(number: int = 0, **more: Any) -> Row:
    """A run that started when it was due, and took a second."""
    fire = T + number * SECOND
    usual = {
        "run_id": f"r_{number}",
        "job_id": JOB,
        "fire_time": fire,
        "status": "succeeded",
        "verdict": "on_time",
        "attempt": 1,
        "token": 100 + number,
        "late": 5 * MILLISECOND,
        "ended_at": fire + SECOND,
    }
    return Row(**(usual | more))


def seen(of: Row, **more: Any) -> Sighting:
    usual = {
        "job_id": of.job_id,
        "run_id": of.run_id,
        "fire_time": of.fire_time,
        "attempt": of.attempt,
        "token": of.token,
        "worker": "worker-1",
        "started_at": of.fire_time + 5 * MILLISECOND,
    }
    return Sighting(**(usual | more))


def kill(target: str = "worker-1", at: int = 0, lasts: int = SECOND, **more: Any) -> Fault:
    usual = {"kind": "kill", "part": target.partition("-")[0], "target": target, "began": T + at}
    return Fault(**(usual | {"ended": T + at + lasts} | more))


def judged(rows: list[Row], sightings: list[Sighting] | None, *faults: Fault, due: int = 1, **more: Any) -> Judgement:
    fires = tuple(T + number * SECOND for number in range(due))
    return judge(History(promises=[Promise(JOB, fires)], rows=rows, sightings=sightings, faults=list(faults), **more))


def breaches(judgement: Judgement) -> list[str]:
    return [violation.breach for violation in judgement.violations]


def adds_up(judgement: Judgement) -> bool:
    return judgement.due == judgement.on_time + judgement.late + judgement.count("lost") + judgement.count("stuck")


def test_a_history_in_which_all_was_kept() -> None:
    rows = [row(number) for number in range(3)]
    judgement = judged(rows, [seen(each) for each in rows], due=3)
    assert (judgement.due, judgement.on_time, judgement.late, judgement.violations) == (3, 3, 0, [])
    assert judgement.recoveries == {}


def test_a_late_start_counts_as_late_and_breaks_nothing() -> None:
    late = row()
    judgement = judged([late], [seen(late, started_at=T + 3 * SECOND)])
    assert (judgement.on_time, judgement.late, judgement.violations) == (0, 1, [])
    assert judgement.recoveries == {NO_FAULT: [3 * SECOND]}


@pytest.mark.parametrize(
    ("rows", "sightings", "found"),
    [
        ([], [], ["lost"]),
        ([row(status="skipped")], [], ["lost"]),
        ([row(status="dead")], [seen(row())], ["lost"]),
        ([row()], [], ["lost"]),  # said to have succeeded, but nobody saw it
        ([row(status="running", ended_at=None)], [seen(row())], ["stuck"]),
        ([row(status="queued", token=None, ended_at=None)], [], ["stuck"]),
        ([row(late=-1)], [seen(row())], ["early"]),
        ([row()], [seen(row(), started_at=T - 1)], ["early"]),
        ([row(), row(7)], [seen(row()), seen(row(7))], ["extra"]),
        ([row(), row(run_id="r_b", status="cancelled")], [seen(row())], ["double"]),
        (
            [row(), row(run_id="r_b", token=107)],
            [seen(row()), seen(row(run_id="r_b", token=107))],
            ["double", "double-effective"],
        ),
        ([row()], [seen(row()), seen(row())], ["double"]),  # the same attempt twice
    ],
)  # fmt: skip
def test_each_way_to_break_a_promise_is_found(rows: list[Row], sightings: list[Sighting], found: list[str]) -> None:
    judgement = judged(rows, sightings)
    assert breaches(judgement) == found
    assert adds_up(judgement)


def test_a_ledger_that_does_not_add_up_is_found() -> None:
    assert breaches(judged([row()], [seen(row())], unbalanced=[JOB])) == ["unbalanced"]


def test_an_interrupted_attempt_may_be_repeated() -> None:
    """The time that counts is from the fault to the next start."""
    again = row(attempt=2, token=200, ended_at=T + 17 * SECOND)
    sightings = [seen(again, attempt=1, token=100), seen(again, worker="worker-2", started_at=T + 16 * SECOND)]
    judgement = judged([again], sightings, kill(at=SECOND))
    assert judgement.violations == []
    assert judgement.repeated == 1
    assert judgement.recoveries == {"kill worker": [15 * SECOND]}


@pytest.mark.parametrize(
    "faults",
    [
        [],
        [kill("worker-2")],  # somebody else
        [kill(at=-9 * SECOND)],  # over before it began
        [kill(at=20 * SECOND)],  # after it was repeated
        [kill("server-1")],  # which has none of the worker's attempts
    ],
)
def test_an_attempt_that_nothing_interrupted_must_not_be_repeated(faults: list[Fault]) -> None:
    again = row(attempt=2, token=200, ended_at=T + 17 * SECOND)
    sightings = [seen(again, attempt=1, token=100), seen(again, worker="worker-2", started_at=T + 16 * SECOND)]
    assert breaches(judged([again], sightings, *faults)) == ["double"]


def test_a_run_that_had_ended_must_not_start_again() -> None:
    over = row()
    assert breaches(judged([over], [seen(over), seen(over, token=101, attempt=2)], kill())) == ["double-effective"]


def test_a_zombie_that_starts_after_its_successor_is_found() -> None:
    again = row(attempt=2, token=200, ended_at=T + 30 * SECOND)
    late_zombie = seen(again, attempt=1, token=100, started_at=T + 20 * SECOND)
    successor = seen(again, worker="worker-2", started_at=T + 16 * SECOND)
    assert "double" in breaches(judged([again], [late_zombie, successor], kill(lasts=30 * SECOND)))


def test_the_result_of_a_stale_attempt_must_not_count() -> None:
    again = row(attempt=2, token=200, effective=100, ended_at=T + 17 * SECOND)
    sightings = [seen(again, attempt=1, token=100), seen(again, worker="worker-2", started_at=T + 16 * SECOND)]
    assert breaches(judged([again], sightings, kill())) == ["double-effective"]


def test_what_a_dead_worker_never_started_is_blamed_on_its_end() -> None:
    """It had claimed the run, so the first start that was seen is the second attempt."""
    again = row(attempt=2, token=200, workers=("worker-1", "worker-2"), ended_at=T + 17 * SECOND)
    sighting = seen(again, worker="worker-2", started_at=T + 15 * SECOND)
    judgement = judged([again], [sighting], kill(at=-SECOND), kill("server-1", at=14 * SECOND))
    assert judgement.recoveries == {"kill worker": [15 * SECOND]}


def test_a_fire_that_is_late_after_the_end_of_a_server_is_blamed_on_that() -> None:
    late = row()
    judgement = judged([late], [seen(late, started_at=T + 2 * SECOND)], kill("server-2", at=-SECOND), kill(at=SECOND))
    assert judgement.recoveries == {"kill server": [2 * SECOND]}


def test_a_job_that_is_due_at_once_is_due_once() -> None:
    promise = Promise(JOB, None)
    usual: dict[str, Any] = {"promises": [promise], "faults": []}
    assert judge(History(rows=[row()], sightings=[seen(row())], **usual)).violations == []
    assert breaches(judge(History(rows=[], sightings=[], **usual))) == ["lost"]
    twice = [row(), row(1)]
    found = breaches(judge(History(rows=twice, sightings=[seen(each) for each in twice], **usual)))
    assert found == ["double", "double-effective"]


def test_a_job_that_was_accepted_after_its_time_is_due_then() -> None:
    late = row()
    promise = Promise(JOB, (T,), accepted_at=T + 8 * SECOND)
    sighting = seen(late, started_at=T + 8 * SECOND + 10 * MILLISECOND)
    judgement = judge(History(promises=[promise], rows=[late], sightings=[sighting], faults=[]))
    assert (judgement.on_time, judgement.late, judgement.recoveries) == (1, 0, {})


def test_without_witnesses_the_ledger_alone_is_judged() -> None:
    rows = [row(), row(1, late=3 * SECOND), row(2, status="running", ended_at=None)]
    judgement = judged(rows, None, due=4)
    assert (judgement.on_time, judgement.late) == (1, 1)
    assert breaches(judgement) == ["stuck", "lost"]
    assert adds_up(judgement)


def test_clocks_of_different_machines_are_not_compared() -> None:
    early = seen(row(), started_at=T - SECOND)
    assert judged([row()], [early], same_clock=False).violations == []
    assert breaches(judged([structs.replace(row(), late=-1)], [early], same_clock=False)) == ["early"]


def test_percentiles() -> None:
    values = list(range(100, 0, -1))
    assert [percentile(values, share) for share in (0.5, 0.99, 1.0)] == [51, 100, 100]
    assert percentile([], 0.99) == 0
