"""Settle attempts that ended: reports from workers and findings of the rescuer share commits."""

from __future__ import annotations

from collections.abc import Sequence

from timeball.operation.context import Context
from timeball.operation.group_commit import GroupCommit
from timeball.ports.hints import Topic
from timeball.ports.runs import Settled, Settlement


class Settle:
    """Callable; concurrent calls share commits. None for a settlement that was stale."""

    def __init__(self, context: Context) -> None:
        self._hints = context.hints
        self._commit = GroupCommit(context.store.settle)

    async def __call__(self, settlements: Sequence[Settlement]) -> Sequence[Settled | None]:
        settled = await self._commit(settlements)
        self._hints.give(Topic.ENDED)
        # The run itself, or who waited for its end, may be claimable now; also if it is stale because the answer to an
        # earlier call was lost.
        if any(each is None or each.frees or each.status is None for each in settled):
            self._hints.give(Topic.READY)
        if any(each is not None and each.backfills for each in settled):
            self._hints.give(Topic.BACKFILL)
        if any(each is None or each.woven for each in settled):
            self._hints.give(Topic.WORKFLOW)
        if any(each is None or each.echoes for each in settled):
            self._hints.give(Topic.FOLLOW)
        return settled
