"""Discard dead and failed runs that will not be retried. They stay in the history."""

from __future__ import annotations

from collections.abc import Sequence

from timeball.domain.errors import Conflict, NotFound, TimeballError
from timeball.domain.run.run import Run
from timeball.domain.run.status import GAVE_UP
from timeball.operation.context import OperationContext
from timeball.operation.runs.bulk_item_result import BulkItemResult
from timeball.ports.store.queries import Match
from timeball.ports.wakeups import Topic


async def discard(context: OperationContext, matches: Sequence[Match]) -> list[BulkItemResult]:
    """Discard in one transaction those of the given dead and failed runs that were neither retried nor discarded.
    Return one result per run, in order: for each of the others, the error that says why."""
    run_ids = [match.run_id for match in matches]
    discarded = await context.store.discard(run_ids)
    runs = await context.store.runs([run_id for run_id, done in zip(run_ids, discarded, strict=True) if not done])
    context.wakeups.wake(Topic.READY)  # a run that waited behind one of them may be claimable now
    return [
        BulkItemResult(run_id) if done else BulkItemResult(run_id, error=_refusal(run_id, runs.get(run_id)))
        for run_id, done in zip(run_ids, discarded, strict=True)
    ]


def _refusal(run_id: str, run: Run | None) -> TimeballError:
    if run is None:
        return NotFound("run", run_id)
    if run.retried_as is not None:
        return Conflict(f"run {run_id} was already retried, as {run.retried_as}")
    if run.status not in GAVE_UP:
        return Conflict(f"run {run_id} is {run.status}; only a run that gave up can be discarded")
    return Conflict(f"run {run_id} was already discarded")
