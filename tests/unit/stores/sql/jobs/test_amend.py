"""The result of a batch of amendments, decided from loaded rows, without a database."""

from typing import Any

from msgspec import structs

from tests.support.builders import interval, job, run
from timeball.domain.instant import HOUR, SECOND
from timeball.domain.job.job import Job, JobState
from timeball.domain.run.ledger import Origin
from timeball.domain.run.lifecycle import State
from timeball.ports.store.jobs import Amended, Amendment, Fired, Outdated
from timeball.stores.sql.jobs.amend import Loaded, decide
from timeball.stores.sql.rows.runs import new_run_row
from timeball.stores.sql.schema.runs import RunRow

NOW = 1_000 * HOUR


def recurring(**fields: Any) -> Job:
    return job(NOW - HOUR, schedule=interval(), next_fire_at=NOW + HOUR, **fields)


def live(of: Job, fire_time: int, **columns: Any) -> RunRow:
    row = new_run_row(run(of, fire_time, origin=Origin.SCHEDULE), 0, serial=False, eligible_at=fire_time)
    empty = dict.fromkeys(RunRow.__struct_fields__)
    return RunRow(**{**empty, "gated": 0, "attempt": 0, "kill": 0, **structs.asdict(row), **columns})


def change(of: Job, **fields: Any) -> Amendment:
    return Amendment(**{"job": of, "spec": of.spec, "state": of.state, "keep_schedule": True, **fields})


def loaded(of: Job, *runs: RunRow) -> Loaded:
    return Loaded(NOW, {of.id: of}, {of.id: list(runs)})


def test_a_change_of_a_job_that_is_not_there_any_more_is_outdated() -> None:
    assert decide([change(recurring())], Loaded(NOW, {}, {})).answers == [Outdated()]


def test_of_two_changes_of_one_version_the_second_is_outdated() -> None:
    of = recurring()
    decided = decide([change(of, state=JobState.PAUSED), change(of)], loaded(of))
    first, second = decided.answers
    assert isinstance(first, Amended)
    assert first.job.version == of.version + 1
    assert second == Outdated()
    assert [each.id for each in decided.writes.jobs] == [of.id]


def test_a_change_waits_for_a_fire_ahead_that_a_worker_holds() -> None:
    of = recurring()
    held = live(of, NOW + SECOND, state=State.RUNNING.value)
    decided = decide([change(of)], loaded(of, held))
    assert decided.answers == [Fired(NOW + SECOND)]
    assert decided.writes.jobs == []


def test_the_run_of_a_fire_ahead_is_dropped_and_its_fire_is_given_back() -> None:
    of = recurring().with_(fired=3)
    ahead = live(of, NOW + SECOND)
    decided = decide([change(of, state=JobState.PAUSED)], loaded(of, ahead))
    (answer,) = decided.answers
    assert isinstance(answer, Amended)
    assert decided.writes.dropped == [ahead]
    assert (answer.job.next_fire_at, answer.job.fired) == (NOW + SECOND, 2)
    assert answer.job.plan_at is None


def test_a_run_that_is_due_keeps_the_spec_it_fell_due_with() -> None:
    of = recurring()
    edited = structs.replace(of.spec, priority=9)
    decided = decide([change(of, spec=edited)], loaded(of, live(of, NOW - SECOND)))
    assert [job_id for job_id, _, _ in decided.writes.kept_specs] == [of.id]
    assert [(job_id, version) for job_id, version, *_ in decided.writes.versions] == [(of.id, of.version)]


def test_deciding_changes_nothing_that_was_loaded() -> None:
    of = recurring()
    found = loaded(of)
    decide([change(of, state=JobState.PAUSED)], found)
    assert found.jobs == {of.id: of}
