"""Settle attempts that ended. Reports of workers and attempts found by the lease rescuer share commits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

import structlog
from msgspec import UNSET, Struct
from msgspec.structs import replace

from timeball.domain.errors import Unavailable
from timeball.domain.run.lifecycle import Failed, Failure, Outcome, Succeeded
from timeball.operation.context import OperationContext
from timeball.operation.group_commit import GroupCommit
from timeball.ports.store.runs import Settled, Settlement
from timeball.ports.wakeups import Topic

MAX_REASON_LENGTH: Final = 500
"""Maximum number of characters of an error that are copied into a failure."""
_log = structlog.get_logger()


@final
class Unwritten(Struct, frozen=True):
    """Returned when the store can write neither the outcome of an attempt nor a replacement for it."""

    error: Exception


class Settle:
    """Settles attempts. Concurrent calls share commits. The result is None for an attempt that its session does not
    hold.

    An outcome that cannot be written does not prevent others from being written: the batch is halved until that outcome
    is alone, and `_write_replaced` tries to write a simpler one in its place: a failure with the reason, or a success
    without its result. If that is not possible, only the call with that attempt raises. `Unavailable` is raised for all
    calls of the batch.
    """

    def __init__(self, context: OperationContext) -> None:
        self._store = context.store
        self._wakeups = context.wakeups
        self._run_events = context.run_events
        self._commit: GroupCommit[Settlement, Settled | Unwritten | None] = GroupCommit(
            self._write, sizes=context.metrics.settles
        )

    async def __call__(self, settlements: Sequence[Settlement]) -> Sequence[Settled | None]:
        answers = await self._commit(settlements)
        settled = [each for each in answers if type(each) is not Unwritten]
        self._wakeups.wake(Topic.ENDED)
        self._run_events.changed(each.run_id for each in settlements)
        self._wake_others(settled)
        if len(settled) < len(answers):
            raise next(each.error for each in answers if isinstance(each, Unwritten))
        return settled

    def _wake_others(self, settled: Sequence[Settled | None]) -> None:
        """Wake the loops for which these ends may be work. Most ends are not: no other run, job or backfill needs
        them."""
        notable = [
            each
            for each in settled
            if each is None
            or each.status is None
            or each.frees
            or each.backfills
            or each.is_workflow_task
            or each.upstream_events
        ]
        if not notable:
            return
        # The run itself, or one that waited for its end, may be claimable now. This holds also for a stale settlement:
        # the answer to an earlier call may have been lost.
        if any(each is None or each.frees or each.status is None for each in notable):
            self._wakeups.wake(Topic.READY)
        if any(each is not None and each.backfills for each in notable):
            self._wakeups.wake(Topic.BACKFILL)
        if any(each is None or each.is_workflow_task for each in notable):
            self._wakeups.wake(Topic.WORKFLOW)
        if any(each is None or each.upstream_events for each in notable):
            self._wakeups.wake(Topic.FOLLOW)

    async def _write(self, settlements: Sequence[Settlement]) -> Sequence[Settled | Unwritten | None]:
        try:
            return await self._store.settle(settlements)
        except Unavailable:
            raise
        except Exception as error:
            if len(settlements) == 1:
                return [await self._write_replaced(settlements[0], error)]
            _log.warning("outcomes of attempts cannot be written together", count=len(settlements), error=_words(error))
            half = len(settlements) // 2
            return [*await self._write(settlements[:half]), *await self._write(settlements[half:])]

    async def _write_replaced(self, settlement: Settlement, error: Exception) -> Settled | Unwritten | None:
        """Settle with a replacement for the outcome: a failure with the reason in place of a failure, a success without
        a result in place of a success. If that can be written, the outcome itself was the cause of the error."""
        outcome = _replacement(settlement.outcome, _words(error))
        if outcome is None:
            return Unwritten(error)
        try:
            (settled,) = await self._store.settle([replace(settlement, outcome=outcome)])
        except Unavailable:
            raise
        except Exception:
            return Unwritten(error)
        _log.error("an outcome cannot be written and was replaced", run=settlement.run_id, error=_words(error))
        return settled


def _replacement(outcome: Outcome, reason: str) -> Outcome | None:
    if isinstance(outcome, Failed):
        message = f"its outcome could not be written: {reason}"
        return Failed(Failure(kind="worker", message=message))
    return Succeeded() if isinstance(outcome, Succeeded) and outcome.result is not UNSET else None


def _words(error: Exception) -> str:
    """Return the error as text that the store can write, whatever characters it contains."""
    words = f"{type(error).__name__}: {error}"[:MAX_REASON_LENGTH]
    return words.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
