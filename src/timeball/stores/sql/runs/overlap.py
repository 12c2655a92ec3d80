"""The live runs of a job whose runs may not overlap, and the decision of the overlap policy about another run.

The caller holds the lock on the row of the job. `Hold.OVERLAP` of a run changes only under that lock, and a run with
`serial = 1` ends only under it. A claim of a READY run does not need the lock; the run stays live.
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
LIVE_RUNS_OF_JOBS = query("live_runs_of_jobs")

NEVER: Final[Micros] = 2**63 - 1


class OverlappingRun(Struct, frozen=True):
    """A run that is blocked by an earlier run of its job."""

    id: str
    fire_time: Micros
    admitted: bool = False
    """True if an earlier version of the job admitted the run: a new overlap policy does not skip it."""


class LiveRuns(Struct):
    """The live runs of one job, in the order of their fire times."""

    policy: Overlap
    active: list[str] = []
    """Runs that block all others of the job: READY, RUNNING, or BLOCKED by something else than an earlier run."""
    active_since: Micros = NEVER
    """The instant at which the first of the active runs was created; if that run was unblocked just now, its fire time.
    A fire before this instant does not overlap with the active runs."""
    waiting: list[OverlappingRun] = []
    """Runs that are blocked by an earlier run of the job, and are due."""
    future: list[OverlappingRun] = []
    """Runs that are blocked by an earlier run of the job, and are not due yet."""
    free: list[str] = []
    """Runs to unblock: no earlier run is live any more."""
    successor: str | None = None
    """The run that replaces all active ones, if the overlap policy is `cancel_previous` or `terminate_previous`."""
    keys: set[tuple[str, str]] = set()
    """The ordering keys of the runs, each with its tenant."""
    kept_back: set[str] = set()
    """The ids of active runs that wait for an ordering key."""

    @property
    def replaces(self) -> bool:
        return self.policy in REPLACING

    def admit(self) -> Admission:
        """Return what the overlap policy decides about a new run of the job that is due now and later than all live
        runs.
        """
        return overlap.admit(self.policy, len(self.active) + len(self.waiting), len(self.waiting))

    def join(self, run_id: str, admission: Admission, fire_time: Micros) -> None:
        """Add to the live runs a new run that the overlap policy has admitted."""
        if admission is Admission.RUN:
            self.active.append(run_id)
            return
        if admission is Admission.REPLACE:
            self.active += [waiting.id for waiting in self.waiting]
            self.waiting = []
            self.successor = run_id
        self.waiting.append(OverlappingRun(run_id, fire_time))

    @property
    def skip_reason(self) -> str:
        blocker = next(iter(self.active), None) or next(each.id for each in self.waiting)
        return overlap.skip_reason(self.policy, blocker)

    @property
    def is_kept_back(self) -> bool:
        """True if all active runs wait for an ordering key that another run holds."""
        return self.kept_back.issuperset(self.active)

    @property
    def empty(self) -> bool:
        """True if no live run blocks a new run that is due now."""
        return not self.active and not self.waiting

    @property
    def alone(self) -> bool:
        """True if the job has no live run. A new run would then be the only one, and its end would unblock no other
        run.
        """
        return self.empty and not self.future

    def settle_waiting(self, *, newer: bool = False) -> list[OverlappingRun]:
        """Decide about the blocked runs of the job: unblock the first one if no run is active, and return the due runs
        to skip. With a policy that replaces runs, these are all but the newest one, which becomes the `successor` of
        the active runs; or all of them if `newer`, that is, if a due run exists that is later than all live runs. With
        any other policy, these are the runs for which it has no room, except those that overlap with no active run, or
        that an earlier version of the job admitted."""
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
        skipped, kept = list[OverlappingRun](), self.waiting[:room]
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
    """Read the live runs of jobs. Each job is given by its id, its overlap policy, and whether all its runs are already
    marked as serial; if not, they are marked now.
    """
    found = {job_id: LiveRuns(policy) for job_id, policy, _ in jobs}
    if not found:
        return found
    # The run of a one-shot job is marked as serial only when the job may get another run, because then its end has to
    # unblock that other run.
    if strangers := [job_id for job_id, _, serial in jobs if not serial]:
        await tx.execute(MAKE_SERIAL, b=strangers)
    rows = await tx.fetch(LIVE_RUNS_OF_JOBS, b=list(found))
    for job_id, run_id, held, fire_time, created_at, older, tenant, key, kept_back in rows:
        live_runs_of_jobs = found[job_id]
        if key is not None:
            live_runs_of_jobs.keys.add((tenant, key))
        if not held:
            live_runs_of_jobs.active.append(run_id)
            live_runs_of_jobs.active_since = min(live_runs_of_jobs.active_since, created_at)
            if kept_back:
                live_runs_of_jobs.kept_back.add(run_id)
        else:
            (live_runs_of_jobs.waiting if fire_time <= now else live_runs_of_jobs.future).append(
                OverlappingRun(run_id, fire_time, bool(older))
            )
    return found
