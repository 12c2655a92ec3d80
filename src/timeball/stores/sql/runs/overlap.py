"""Who is in a job's way: the live runs of serial jobs, and what `overlap.admit` says of another one.

Everything here happens under the job's row lock. What holds a run back for the sake of its job changes only under that
lock; a run that is ready may be claimed meanwhile, which leaves it alive; and a serial run ends only under the lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from timeball.domain.dispatch import overlap
from timeball.domain.dispatch.overlap import REPLACING, Admission, Overlap
from timeball.domain.instant import Micros
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.statements import query

MAKE_SERIAL = query("make_serial")
CROWD = query("crowd")

NEVER: Final[Micros] = 2**63 - 1


class WaitingRun(Struct, frozen=True):
    """A run that waits for an earlier one of its job."""

    id: str
    fire_time: Micros
    admitted: bool = False
    """Whether an earlier version of the job let it wait: a new policy does not undo that."""


class LiveRuns(Struct):
    """The live runs of one job, in the order of their instants."""

    policy: Overlap
    active: list[str] = []
    """In the way of every other: claimable, held, or kept back by something else than an earlier run."""
    active_since: Micros = NEVER
    """When the first of these was there: it is not in the way of what fell due before."""
    waiting: list[WaitingRun] = []
    """Behind an active one, and due."""
    future: list[WaitingRun] = []
    """Behind an active one, until they fall due at least."""
    free: list[str] = []
    """Runs to unblock: nothing is in their way."""
    successor: str | None = None
    """The run that takes the place of all that are active."""
    keys: set[tuple[str, str]] = set()
    """Tenant and ordering key of its runs."""
    kept_back: set[str] = set()
    """Active ones that wait for their turn under an ordering key."""

    @property
    def replaces(self) -> bool:
        return self.policy in REPLACING

    def admit(self) -> Admission:
        """What becomes of another run that is due now, if it comes behind all of these."""
        return overlap.admit(self.policy, len(self.active) + len(self.waiting), len(self.waiting))

    def join(self, run_id: str, admission: Admission, fire_time: Micros) -> None:
        """Count a run that was admitted."""
        if admission is Admission.RUN:
            self.active.append(run_id)
            return
        if admission is Admission.REPLACE:
            self.active += [waiting.id for waiting in self.waiting]
            self.waiting = []
            self.successor = run_id
        self.waiting.append(WaitingRun(run_id, fire_time))

    @property
    def skip_reason(self) -> str:
        blocker = next(iter(self.active), None) or next(each.id for each in self.waiting)
        return overlap.skip_reason(self.policy, blocker)

    @property
    def is_kept_back(self) -> bool:
        """Whether nothing can start before somebody else under its ordering key did."""
        return self.kept_back.issuperset(self.active)

    @property
    def empty(self) -> bool:
        """Whether nothing is in the way of a run that is due."""
        return not self.active and not self.waiting

    @property
    def alone(self) -> bool:
        """Whether another run would be the job's only one, and nobody has to look for the next when it ends."""
        return self.empty and not self.future

    def settle_waiting(self, *, newer: bool = False) -> list[WaitingRun]:
        """Decide about runs that wait: the first may run if nobody is in its way; answers the due ones to skip.

        `newer`: another run is due, which comes behind all of these."""
        if self.replaces and self.waiting:
            if newer:
                replaced, self.waiting = self.waiting, []
                return replaced
            *replaced, newest = self.waiting
            self.waiting, self.successor = [newest], newest.id
            self._free_first()
            return replaced
        self._free_first()
        room = overlap.room(self.policy)
        skipped, kept = list[WaitingRun](), self.waiting[:room]
        for blocked in self.waiting[room:]:
            stays = blocked.admitted or blocked.fire_time < self.active_since
            (kept if stays else skipped).append(blocked)
        self.waiting = kept
        return skipped

    def _free_first(self) -> None:
        if not self.active and (blocked := self.waiting or self.future):
            head = blocked.pop(0)
            self.active.append(head.id)
            self.active_since = head.fire_time
            self.free.append(head.id)
            if self.successor == head.id:
                self.successor = None


async def live_runs(tx: Tx, jobs: Sequence[tuple[str, Overlap, bool]], now: Micros) -> dict[str, LiveRuns]:
    """The crowds of jobs, given by id, policy, and whether all their runs are known to be serial."""
    found = {job_id: LiveRuns(policy) for job_id, policy, _ in jobs}
    if not found:
        return found
    # A one-shot's run does not look for others when it ends, until there may be others.
    if strangers := [job_id for job_id, _, serial in jobs if not serial]:
        await tx.execute(MAKE_SERIAL, b=strangers)
    rows = await tx.fetch(CROWD, b=list(found))
    for job_id, run_id, held, fire_time, created_at, older, tenant, key, kept_back in rows:
        crowd = found[job_id]
        if key is not None:
            crowd.keys.add((tenant, key))
        if not held:
            crowd.active.append(run_id)
            crowd.active_since = min(crowd.active_since, created_at)
            if kept_back:
                crowd.kept_back.add(run_id)
        else:
            (crowd.waiting if fire_time <= now else crowd.future).append(WaitingRun(run_id, fire_time, bool(older)))
    return found
