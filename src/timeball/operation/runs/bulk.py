"""Apply an action to every run that a filter selects, in bounded steps, oldest first.

Runs that were created after the call began are not selected, so a call never selects runs that it created itself. A
call that was interrupted may be repeated: completed actions are not applied again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from timeball.domain import ids
from timeball.domain.errors import NotFound
from timeball.domain.instant import Micros
from timeball.operation.context import OperationContext
from timeball.operation.runs.bulk_item_result import BulkItemResult
from timeball.ports.store.queries import Match, RunFilter

STEP: Final = 500
"""Maximum number of runs that one transaction changes, so that other transactions do not wait long."""
MAX_LISTED_RESULTS: Final = 1_000
"""Maximum number of runs whose results are kept and listed. Further results are only counted."""

Act = Callable[[Sequence[Match]], Awaitable[Sequence[BulkItemResult]]]


class Tally(Struct):
    """The results of an action on many runs."""

    matched: int = 0
    changed: int = 0
    results: list[BulkItemResult] = []
    """The results of the first `MAX_LISTED_RESULTS` runs."""
    refused: list[BulkItemResult] = []
    """The results of the first `MAX_LISTED_RESULTS` runs that were not changed."""

    @property
    def skipped(self) -> int:
        return self.matched - self.changed

    def add(self, results: Sequence[BulkItemResult]) -> None:
        refused = [result for result in results if result.error is not None]
        self.matched += len(results)
        self.changed += len(results) - len(refused)
        self.results += results[: MAX_LISTED_RESULTS - len(self.results)]
        self.refused += refused[: MAX_LISTED_RESULTS - len(self.refused)]


def bounded(context: OperationContext, where: RunFilter, ahead: Micros = 0) -> RunFilter:
    """Limit the filter to runs that were created by now, plus `ahead`. Calls that create no runs use `ahead`, so that a
    run from another server with a slightly later clock is not missed."""
    if where.made_before is not None:
        return where
    return msgspec.structs.replace(where, made_before=ids.first_run(context.store.now() + ahead))


async def over_filter(context: OperationContext, where: RunFilter, act: Act) -> Tally:
    """Apply the action to all runs that match a filter, in steps of `STEP` runs, and return the results."""
    where = bounded(context, where)
    tally = Tally()
    after: Match | None = None
    while matches := await context.store.match_runs(where, after, STEP):
        tally.add(await act(matches))
        after = matches[-1]
    return tally


async def over_ids(context: OperationContext, tenant: str, run_ids: Sequence[str], act: Act) -> Tally:
    """Apply the action to the named runs, in the given order, and return the results. An id that occurs twice counts
    once. The result of an id without a run of the tenant is the error `NotFound`."""
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
        results = {result.run_id: result for result in (await act(matches) if matches else ())}
        tally.add(
            [results.get(run_id) or BulkItemResult(run_id, error=NotFound("run", run_id[:100])) for run_id in some]
        )
    return tally
