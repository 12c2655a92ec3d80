"""Pause, resume, run or cancel every job that a filter selects, in bounded steps, newest first.

The rules are those of the operations on one job. The jobs of a step are changed in one transaction, except those that
need more work, such as jobs with many live runs, and those that another request changed at the same time: each of these
is changed by the operation on one job. A job that refuses the change does not stop the others. A call that was
interrupted may be repeated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec import Struct, structs

from timeball.domain import ids
from timeball.domain.instant import SECOND, Micros
from timeball.operation.context import OperationContext
from timeball.operation.jobs.job_result import JobResult
from timeball.ports.store.jobs import JobFilter

STEP: Final = 100
"""Maximum number of jobs that one transaction changes, so that other transactions do not wait long."""
MAX_WORK: Final = 5 * SECOND
"""After this time a call returns, also if it has not processed as many jobs as requested."""


class JobTally(Struct, kw_only=True):
    """The results of one call."""

    matched: int = 0
    refused: list[JobResult] = []
    next_cursor: str | None = None
    """The job after which the next call begins; None: all jobs that match were processed."""

    @property
    def changed(self) -> int:
        return self.matched - len(self.refused)


Act = Callable[[Sequence[str]], Awaitable[Sequence[JobResult]]]
"""Applies the action to the jobs of one step, at most `STEP`."""


def bounded(context: OperationContext, where: JobFilter, ahead: Micros) -> JobFilter:
    """Limit the filter to jobs that were created by now, plus `ahead`: another server may have a slightly later
    clock."""
    if where.made_before is not None:
        return where
    return structs.replace(where, made_before=ids.first_job(context.store.now() + ahead))


async def over_filter(
    context: OperationContext, where: JobFilter, act: Act, *, cursor: str | None, limit: int
) -> JobTally:
    """Apply the action to the next jobs that match a filter, after `cursor`: at most `limit` jobs, and fewer if
    `MAX_WORK` has passed."""
    tally = JobTally(next_cursor=cursor)
    deadline = context.clock.monotonic() + MAX_WORK
    while True:
        page = await context.store.match_jobs(where, tally.next_cursor, min(STEP, limit - tally.matched))
        if page.items:
            results = await act(page.items)
            tally.matched += len(results)
            tally.refused += [result for result in results if result.error is not None]
        tally.next_cursor = page.next_cursor
        if page.next_cursor is None or tally.matched >= limit or context.clock.monotonic() >= deadline:
            return tally
