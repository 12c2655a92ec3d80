"""Which requested runs are inserted and which are skipped, without a database."""

import pytest

from tests.support.builders import job, run
from timeball.domain.dispatch.overlap import TAKEN_OVER, Overlap
from timeball.domain.instant import HOUR
from timeball.domain.run.lifecycle import Hold
from timeball.stores.sql.jobs.manual_runs import admit
from timeball.stores.sql.runs.overlap import LiveRuns

NOW = 1_000 * HOUR
JOB = job(NOW)


def test_runs_of_a_job_that_allows_overlap_are_all_inserted() -> None:
    runs = [run(JOB, NOW), run(JOB, NOW)]
    assert admit(runs, {}, (), NOW) == ([(each, 0, each.serial) for each in runs], {})


def test_a_run_is_skipped_while_another_is_alive() -> None:
    new = run(JOB, NOW)
    inserted, skipped = admit([new], {JOB.id: LiveRuns(Overlap.SKIP, active=["r_1"])}, (), NOW)
    assert inserted == []
    assert "r_1" in skipped[new.id].reason


def test_the_retry_of_the_run_that_kept_the_ordering_key_waits_instead_of_being_skipped() -> None:
    new = run(JOB, NOW)
    others = LiveRuns(Overlap.SKIP, active=["r_1"], kept_back={"r_1"})
    inserted, skipped = admit([new], {JOB.id: others}, {new.id}, NOW)
    assert inserted == [(new, Hold.OVERLAP, True)]
    assert skipped == {}


@pytest.mark.parametrize("policy", [each for each in Overlap if LiveRuns(each).replaces])
def test_of_several_runs_that_replace_each_other_only_the_last_is_inserted(policy: Overlap) -> None:
    first, last = run(JOB, NOW), run(JOB, NOW)
    others = LiveRuns(policy, active=["r_1"])
    inserted, skipped = admit([first, last], {JOB.id: others}, (), NOW)
    assert inserted == [(last, Hold.OVERLAP, True)]
    assert skipped[first.id].reason == TAKEN_OVER
    assert others.successor == last.id


def test_several_runs_of_an_idle_job_are_serial() -> None:
    runs = [run(JOB, NOW), run(JOB, NOW)]
    inserted, _ = admit(runs, {JOB.id: LiveRuns(Overlap.QUEUE_ONE)}, (), NOW)
    assert [(holds, serial) for _, holds, serial in inserted] == [(0, True), (Hold.OVERLAP, True)]
