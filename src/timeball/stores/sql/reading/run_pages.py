"""Pages of runs: merged from live and finished rows, in the order of fire times, ties by id.

A run's fire time and id never change, so that no run is missed or shown twice on the pages of a list, even if it starts
or ends between two pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from timeball.domain.errors import Invalid
from timeball.domain.instant import Micros
from timeball.domain.run.run import Run
from timeball.ports.store.paging import Page
from timeball.stores.sql.driver import Row
from timeball.stores.sql.page_bytes import fitting
from timeball.stores.sql.reading.run_filters import RunPosition
from timeball.stores.sql.rows.runs import finished_run, live_run
from timeball.stores.sql.rows.values import plain

ROW_BYTES: Final = 700
"""Size of a rendered run without the texts that may be long, in bytes."""


def by_id(alive: Iterable[Row], done: Iterable[Row], now: Micros) -> dict[str, Run]:
    """Return runs by id. A run that ended between the read of live rows and that of finished rows counts as
    finished."""
    found = {run.id: run for run in (live_run(row, now) for row in alive)}
    found.update((run.id, run) for run in map(finished_run, done))
    return found


def page_of(runs: Sequence[Run], limit: int) -> Page[Run]:
    items = list(runs[: fitting(map(_weight, runs), limit)])
    return Page(items, f"{items[-1].fire_time}:{items[-1].id}" if len(runs) > len(items) > 0 else None)


def _weight(run: Run) -> int:
    """Return the approximate size of a rendered run, in bytes."""
    failure = run.failure
    size = ROW_BYTES if failure is None else ROW_BYTES + len(failure.message) + sum(map(len, failure.exceptions))
    return size + len(run.progress_note) + len(run.reason)


def place_of(run: Run) -> RunPosition:
    return RunPosition(run.fire_time, run.id)


def place_at(cursor: str) -> RunPosition:
    time, colon, run_id = cursor.partition(":")
    if not colon or not time.isascii() or not time.isdigit() or len(time) > 18:
        raise Invalid(f"{cursor[:64]!r} is not a cursor; use the one of the page before")
    return RunPosition(int(time), plain(run_id))


def after_parameters(after: RunPosition) -> dict[str, Any]:
    return {"after_time": after.fire_time, "after_id": after.run_id}
