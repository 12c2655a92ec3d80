"""Every list of statuses follows from one table."""

import pytest

from timeball.domain.run import status
from timeball.domain.run.status import STATUSES, WORDS, Status
from timeball.stores.sql.jobs import manual_runs
from timeball.stores.sql.runs import ordering_keys


def test_every_status_has_its_row_in_the_same_order() -> None:
    assert tuple(STATUSES) == tuple(Status)


def test_five_statuses_are_terminal_and_the_others_live() -> None:
    assert {"succeeded", "failed", "dead", "cancelled", "skipped"} == status.TERMINAL
    assert status.LIVE == ("scheduled", "blocked", "queued", "running", "retrying")


def test_runs_that_gave_up_failed_or_are_dead() -> None:
    assert status.GAVE_UP == ("failed", "dead")
    assert {"succeeded", "failed", "dead"} == status.RAN
    assert {"succeeded"} == status.SUCCESSFUL


def test_no_live_status_says_how_a_run_ended() -> None:
    assert all((STATUSES[each].end is None) == (each not in status.TERMINAL) for each in Status)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("success", {"succeeded"}),
        ("done", {"succeeded"}),
        ("in_progress", {"running"}),
        ("error", {"failed", "dead"}),
        ("pending", {"scheduled", "blocked", "queued"}),
        ("not_started", {"scheduled", "blocked", "queued"}),
        ("canceled", {"cancelled"}),
    ],
)
def test_filters_accept_other_words(word: str, meant: set[str]) -> None:
    assert WORDS[word] == meant


def test_filters_accept_every_status_by_its_name() -> None:
    assert all(WORDS[each.value] == {each} for each in Status)


def test_lists_in_sql_are_those_of_the_table() -> None:
    assert "status IN ('dead', 'failed') AND" in manual_runs.DISCARD.text
    assert "status IN ('failed', 'dead') AND" in ordering_keys.DEAD_HOLDERS.text
