"""Retention in worlds of their own, the theme `retention`: days last seconds there, and maintenance deletes history.

In other worlds no run gets old enough, so the traces of their seeds stay the same. Here every deletion is checked:
which server does it, what is deleted, and whether the sums stay the same. Deleted rows are remembered and returned to
the other checks as if they still existed, so all promises are checked for them, too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING, Any
from unittest import mock

from msgspec import structs

from tests.simulation import usage
from tests.simulation.records import Micros, Violation
from tests.simulation.storage import at_once
from tests.simulation.weather import S
from timeball.domain import ids, retention
from timeball.domain.job.job import HORIZON, JobState
from timeball.domain.run.ledger import DUE
from timeball.domain.run.run import Run
from timeball.ports.store.jobs import JobStatus
from timeball.ports.store.maintenance import Lead
from timeball.ports.store.paging import Page
from timeball.ports.store.queries import LedgerSums, LogLine, RunFilter
from timeball.server.loops import maintenance
from timeball.stores.sql.maintenance import maintenance as sql_maintenance

if TYPE_CHECKING:
    from tests.simulation.world import World

THEME = "retention"
DAY = 5 * S
LOGS_OF_DAY = "SELECT run_id, attempt, seq, stream, at, text FROM logs WHERE run_id >= ? AND run_id < ?"
FINISHED_OF_DAY = "SELECT id FROM history WHERE id >= ? AND id < ?"


def keep_for(seed: int) -> Micros:
    """Return the retention time, from a random source of its own. It is longer than the planning horizon, as every
    retention is: the fire of a run is over before the run may be deleted."""
    return Random(f"retention {seed}").choice((20, 25, 40)) * S


@contextmanager
def short_days() -> Iterator[None]:
    patches = [
        mock.patch.object(retention, "DAY", DAY),
        mock.patch.object(sql_maintenance, "DAY", DAY),
        mock.patch.object(maintenance, "LEASE", S),
        mock.patch.object(maintenance, "MAINTENANCE_INTERVAL", S // 2),
        mock.patch.object(maintenance, "RARE_INTERVAL", 3 * S),
        mock.patch.object(maintenance, "ROWS", 2),
        *usage.soon(),
    ]
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in reversed(patches):
            patch.stop()


class Gone:
    """The rows that were deleted, as they were."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.runs: dict[str, Run] = {}
        self.jobs: dict[str, JobStatus] = {}
        self.logs: dict[str, list[LogLine]] = defaultdict(list)

    # --- each step -------------------------------------------------------------------------------------------------

    def watch(self, args: tuple[Any, ...], leader: Lead | None, held: set[str]) -> bool:
        """Execute one `prune_day` and check everything that it changes. Raise a `Violation` afterwards."""
        world = self._world
        lead, day, before, _ = args
        of_day = ids.first_run(day), ids.first_run(day + DAY)
        runs: dict[str, Run] = world.read("runs", [run_id for (run_id,) in world.rows(FINISHED_OF_DAY, *of_day)])
        logs = world.rows(LOGS_OF_DAY, *of_day)
        jobs: dict[str, JobStatus] = world.read("jobs", sorted({run.job_id for run in runs.values()}))
        sums = {job_id: self._sums(job_id) for job_id in jobs}
        world.counting.remember()
        answer: bool = at_once(world.store.prune_day(*args))
        self._rightful("prune_day", lead, leader)
        left = {run_id for (run_id,) in world.rows(FINISHED_OF_DAY, *of_day)}
        gone = {run_id: run for run_id, run in runs.items() if run_id not in left}
        silent = set(logs) - set(world.rows(LOGS_OF_DAY, *of_day))
        world.trace("prune", day, len(gone), len(silent))
        self.runs |= gone
        for run_id, *line in sorted(silent):
            self.logs[run_id].append(LogLine(*line))
        still = at_once(world.store.jobs(list(jobs)))
        self.jobs |= {job_id: found for job_id, found in jobs.items() if job_id not in still}
        self._old_enough(gone, day, before)
        self._nobody_needs(set(gone) | {run_id for run_id, *_ in silent}, held)
        for job_id, status in jobs.items():
            if job_id in self.jobs:
                self._over(status)
            elif (now := self._sums(job_id)) != sums[job_id]:
                raise Violation("I23", f"pruning changed the sums of {job_id} from {sums[job_id]} to {now}")
        world.counting.check()
        return answer

    def _rightful(self, what: str, lead: Lead, leader: Lead | None) -> None:
        """I9: a server that lost the lease changes nothing."""
        if leader is not None and lead.epoch != leader.epoch:
            raise Violation("I9", f"{what} was done for {lead}, while {leader} leads")

    def _old_enough(self, gone: dict[str, Run], day: Micros, before: Micros) -> None:
        world = self._world
        if before > world.now - world.keep_for or day + DAY > before:
            raise Violation("I2", f"at {world.now} the day {day} was pruned of what ended before {before}")
        for run in gone.values():
            if run.finished_at is None or run.finished_at >= before or not run.is_terminal:
                raise Violation("I2", f"{run} went, although it did not end before {before}")
            if run.fire_until >= before + HORIZON:
                raise Violation("I2", f"{run} went, although it counts a fire after {before}")

    def _nobody_needs(self, run_ids: set[str], held: set[str]) -> None:
        """Check that no worker holds the deleted runs, and that none of them gave up and blocks its ordering key."""
        alive = held | {run_id for (run_id,) in self._world.rows("SELECT id FROM runs")}
        alive |= {run_id for (run_id,) in self._world.rows("SELECT holder FROM turns WHERE holder IS NOT NULL")}
        if needed := run_ids & alive:
            raise Violation("I2", f"runs that are still needed were deleted: {sorted(needed)[:3]}")

    def _over(self, status: JobStatus) -> None:
        job = status.job
        if not job.spec.one_shot or job.next_fire_at is not None or job.state is JobState.PAUSED:
            raise Violation("I1", f"{job} went, although it may fire again")
        if self._world.rows("SELECT id FROM runs WHERE job_id = ?", job.id):
            raise Violation("I1", f"{job} went, although a run of it is alive")

    def _sums(self, job_id: str) -> LedgerSums:
        sums: LedgerSums = at_once(self._world.store.ledger_sums(job_id, 0, self._world.now + 1))
        return sums

    # --- as if it were still there ---------------------------------------------------------------------------------

    def recalled(self, name: str, args: tuple[Any, ...], found: Any) -> Any:
        """Return the answer of the store, with the deleted rows added."""
        match name:
            case "runs":
                return {run_id: self.runs[run_id] for run_id in args[0] if run_id in self.runs} | found
            case "jobs":
                return {job_id: self.jobs[job_id] for job_id in args[0] if job_id in self.jobs} | found
            case "list_jobs" if found.next_cursor is None:
                return Page([*found.items, *(each for each in self.jobs.values() if each.job.tenant == args[0].tenant)])
            case "list_runs" if found.next_cursor is None:
                return Page([*found.items, *(run for run in self.runs.values() if _is_meant(run, args[0]))])
            case "ledger" if found.next_cursor is None:
                rows = [run for run in self.runs.values() if run.job_id == args[0] and run.origin in DUE]
                return Page(sorted([*found.items, *rows], key=lambda run: (run.fire_time, run.id)))
            case "ledger_sums" if args[0] in self.jobs:
                rows = [run for run in self.runs.values() if run.job_id == args[0] and run.origin in DUE]
                counts = Counter[Any]()
                for run in rows:
                    counts[run.verdict] += run.fires
                return LedgerSums(counts.total(), dict(counts))
            case "logs" if args[0] in self.logs:
                return sorted([*self.logs[args[0]], *found], key=lambda line: (line.attempt, line.seq))
            case _:
                return found


def _is_meant(run: Run, where: RunFilter) -> bool:
    narrowed = structs.replace(where, job_id=None, status=frozenset())
    assert narrowed == RunFilter(tenant=where.tenant), "add deleted rows to the answer of this call"
    return (
        run.tenant == where.tenant
        and where.job_id in (None, run.job_id)
        and (not where.status or run.status in where.status)
    )
