"""Do something with every run that a filter means, however many: in bounded steps, oldest first.

Runs that were made after the call began are not meant, so what it makes itself is never its own next match. A call
that broke off may be repeated: what was done is not done again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from timeball.domain import ids
from timeball.domain.errors import NotFound
from timeball.domain.instant import Micros
from timeball.operation.context import Context
from timeball.operation.runs.bulk_item_result import BulkItemResult
from timeball.ports.store.queries import Match, RunFilter

STEP: Final = 500
"""Runs that one transaction changes at most, so that nobody else waits long."""
MAX_TOLD: Final = 1_000
"""Fates that are remembered one by one."""

Act = Callable[[Sequence[Match]], Awaitable[Sequence[BulkItemResult]]]


class Tally(Struct):
    """What came of it."""

    matched: int = 0
    changed: int = 0
    told: list[BulkItemResult] = []
    """Of the first runs."""
    refused: list[BulkItemResult] = []
    """The first of those that were not changed."""

    @property
    def skipped(self) -> int:
        return self.matched - self.changed

    def add(self, fates: Sequence[BulkItemResult]) -> None:
        refused = [fate for fate in fates if fate.error is not None]
        self.matched += len(fates)
        self.changed += len(fates) - len(refused)
        self.told += fates[: MAX_TOLD - len(self.told)]
        self.refused += refused[: MAX_TOLD - len(self.refused)]


def bounded(context: Context, where: RunFilter, ahead: Micros = 0) -> RunFilter:
    """The filter, for runs that were made by now; `ahead`: and a little later, where the call itself makes none, so
    that one which another server made a moment ago, by its idea of the store's time, is not missed."""
    if where.made_before is not None:
        return where
    return msgspec.structs.replace(where, made_before=ids.first_run(context.store.now() + ahead))


async def over_filter(context: Context, where: RunFilter, act: Act) -> Tally:
    """Everything that matches."""
    where = bounded(context, where)
    tally = Tally()
    after: Match | None = None
    while matches := await context.store.match_runs(where, after, STEP):
        tally.add(await act(matches))
        after = matches[-1]
    return tally


async def over_ids(context: Context, tenant: str, run_ids: Sequence[str], act: Act) -> Tally:
    """Those named, in that order."""
    named = list(dict.fromkeys(run_ids))
    tally = Tally()
    for start in range(0, len(named), STEP):
        some = named[start : start + STEP]
        runs = await context.store.runs([run_id for run_id in some if ids.is_id("r", run_id)])
        matches = [
            Match(run.id, run.job_id, run.fire_time, run.status)
            for run_id in some
            if (run := runs.get(run_id)) is not None and run.tenant == tenant
        ]
        fates = {fate.run_id: fate for fate in (await act(matches) if matches else ())}
        tally.add([fates.get(run_id) or BulkItemResult(run_id, error=NotFound("run", run_id[:100])) for run_id in some])
    return tally
