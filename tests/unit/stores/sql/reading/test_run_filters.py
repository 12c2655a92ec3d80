"""Filters of runs in SQL agree with the statuses and states of the domain."""

import itertools

from timeball.domain.instant import SECOND
from timeball.domain.run import lifecycle
from timeball.domain.run.lifecycle import State
from timeball.domain.run.status import LIVE
from timeball.stores.sql.reading.run_filters import _SHOWN_AS, _STATES

NOW = 100 * SECOND
TIMES = (NOW - SECOND, NOW + SECOND)


def test_every_live_status_has_a_condition() -> None:
    assert set(_SHOWN_AS) == set(LIVE)


def test_the_runs_of_every_state_are_found_by_an_index() -> None:
    assert set(_STATES) == set(State)


def test_a_state_is_looked_through_for_what_it_may_be_shown_as() -> None:
    for state, (_, possible) in _STATES.items():
        moments = itertools.product((0, 1), TIMES, TIMES)
        shown = {
            lifecycle.status(state, attempt=attempt, due_at=due, eligible_at=eligible, now=NOW)
            for attempt, due, eligible in moments
        }
        assert shown == possible
