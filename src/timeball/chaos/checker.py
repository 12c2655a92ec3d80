"""Judges a history: checks that every promised fire was executed once and not early, and that it is in the ledger.

The checker is pure and independent of the system that it judges: it relies on the attempts that jobs recorded
themselves, and compares the ledger with them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, Literal

from msgspec import Struct, field

from timeball.chaos.history import Fault, History, Part, Promise, Row, Sighting
from timeball.domain.instant import MILLISECOND, SECOND, Micros
from timeball.domain.run.ledger import TOLERANCE
from timeball.domain.run.status import TERMINAL

Breach = Literal["lost", "stuck", "early", "double", "double-effective", "extra", "unbalanced"]
"""`lost`: a fire has no run, or its run did not succeed, or never executed. `stuck`: its run has not ended. `early`:
its run started before the fire time. `double`: it has two runs, or an attempt was repeated without a fault or started
in the wrong order. `double-effective`: it took effect twice. `extra`: a run belongs to no fire. `unbalanced`: the
ledger of a job does not add up to its fires.
"""
BREACHES: Final[tuple[Breach, ...]] = ("lost", "stuck", "early", "double", "double-effective", "extra", "unbalanced")
LEASE: Final = 15 * SECOND
NOTICEABLE: Final = 250 * MILLISECOND
"""A start that is at least this late, in microseconds, counts as delayed by a fault."""
FAULT_EFFECT_TIME: Final = 5 * SECOND
"""Microseconds after the end of a fault for which it may still be the reason of a late start."""
NO_FAULT: Final = "no fault"

_DELAYS_LATER_FIRES: Final[frozenset[Part]] = frozenset({"server", "database", "fleet"})
"""Parts whose faults delay fires that have not started yet."""


class Violation(Struct, frozen=True):
    """A breach that the checker found."""

    breach: Breach
    text: str


class Judgement(Struct, kw_only=True):
    """The result of the checker. `due` = `on_time` + `late` + lost fires + stuck fires."""

    due: int = 0
    on_time: int = 0
    late: int = 0
    repeated: int = 0
    """Number of attempts that were interrupted by a fault and followed by another attempt."""
    violations: list[Violation] = field(default_factory=list)
    recoveries: dict[str, list[Micros]] = field(default_factory=dict)
    """By the name of a fault, or `NO_FAULT`: for each late start and each repeated attempt, the microseconds until that
    start. They count from when the run was due, or the earlier attempt started; from the beginning of the fault if that
    was later."""

    def count(self, breach: Breach) -> int:
        return sum(violation.breach == breach for violation in self.violations)


def judge(history: History) -> Judgement:
    return _Judge(history).judge()


def percentile(values: Sequence[Micros], share: float) -> Micros:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0


class _Judge:
    def __init__(self, history: History) -> None:
        self._history = history
        self._faults = _Faults(history.faults)
        self._rows: dict[str, list[Row]] = defaultdict(list)
        for row in history.rows:
            self._rows[row.job_id].append(row)
        self._sightings: dict[str, list[Sighting]] = defaultdict(list)
        for sighting in history.sightings or ():
            self._sightings[sighting.run_id].append(sighting)
        self._accepted = {promise.job_id: promise.accepted_at for promise in history.promises}
        self._verdict = Judgement()

    def judge(self) -> Judgement:
        for promise in self._history.promises:
            self._keep(promise)
        for job_id in self._history.unbalanced:
            self._breach("unbalanced", f"the ledger of job {job_id} does not add up to the fires that were due")
        return self._verdict

    def _breach(self, breach: Breach, text: str) -> None:
        self._verdict.violations.append(Violation(breach, text))

    # --- one job ---------------------------------------------------------------------------------------------------

    def _keep(self, promise: Promise) -> None:
        rows = self._rows.get(promise.job_id, [])
        by_fire: dict[Micros, list[Row]] = defaultdict(list)
        for row in rows:
            by_fire[row.fire_time].append(row)
        if promise.fires is None:
            self._fire(promise.job_id, None, rows)
            return
        for fire_time in promise.fires:
            self._fire(promise.job_id, fire_time, by_fire.pop(fire_time, []))
        for row in (row for extra in by_fire.values() for row in extra):
            self._breach("extra", f"{_named(row)} was not due")

    def _fire(self, job_id: str, fire_time: Micros | None, rows: list[Row]) -> None:
        """Check that a fire has exactly one run and that the run succeeded: no job of the load fails by itself."""
        self._verdict.due += 1
        if not rows:
            at = "at once" if fire_time is None else f"at {fire_time}"
            self._breach("lost", f"job {job_id} was due {at}, and there is no run")
            return
        if len(rows) > 1:
            self._breach("double", f"one fire became {len(rows)} runs: {', '.join(map(_named, rows))}")
            if sum(row.status == "succeeded" for row in rows) > 1:
                self._breach("double-effective", f"{_named(rows[0])} and others of the same fire succeeded")
        for row in rows:
            self._run(row)
        first = min(rows, key=lambda row: row.token or 0)
        self._outcome(first)

    def _outcome(self, row: Row) -> None:
        if row.status not in TERMINAL:
            self._breach("stuck", f"{_named(row)} is still {row.status}")
            return
        if row.status != "succeeded":
            self._breach("lost", f"{_named(row)} ended {row.status}: {row.reason or 'without a reason'}")
            return
        late = self._lateness(row)
        if late is None:
            self._breach("lost", f"{_named(row)} is recorded as succeeded, but never ran")
        elif late <= TOLERANCE:
            self._verdict.on_time += 1
        else:
            self._verdict.late += 1

    def _lateness(self, row: Row) -> Micros | None:
        """Return how late a run started, according to the record of the job, or to the ledger if jobs recorded nothing.
        None: the job did not start.
        """
        if self._history.sightings is None:
            return row.late
        seen = self._sightings.get(row.run_id)
        return None if not seen else min(each.started_at for each in seen) - self._due(row)

    def _due(self, row: Row) -> Micros:
        """Return when a run was due: at its fire time, or when its job was accepted if that was later, because a
        submission may take long.
        """
        return max(row.fire_time, self._accepted[row.job_id])

    # --- one run ---------------------------------------------------------------------------------------------------

    def _run(self, row: Row) -> None:
        seen = sorted(self._sightings.get(row.run_id, ()), key=lambda each: (each.token, each.started_at))
        if row.late is not None and row.late < 0:
            self._breach("early", f"{_named(row)} started {-row.late} µs early by the ledger")
        for each in seen:
            if self._history.same_clock and each.started_at < row.fire_time:
                self._breach("early", f"{_named(row)} started {row.fire_time - each.started_at} µs early")
            if self._is_after_the_end(each, row):
                self._breach("double-effective", f"{_named(row)} had ended and started again on {each.worker}")
        if row.effective is not None and row.effective != row.token:
            self._breach(
                "double-effective",
                f"{_named(row)} belonged to token {row.token}, but the result of token {row.effective} was kept",
            )
        for earlier, later in pairwise(seen):
            self._repetition(row, earlier, later)
        self._first_start(row, seen)

    def _is_after_the_end(self, seen: Sighting, row: Row) -> bool:
        """Return True if an attempt was claimed after the one whose result ended the run (its token is higher), or
        started after the run had ended. The attempt that ended the run is left out, because its start and its end are
        measured by different clocks.
        """
        if row.token is None or row.ended_at is None or seen.token == row.token:
            return False
        return seen.token > row.token or (self._history.same_clock and seen.started_at > row.ended_at)

    def _repetition(self, row: Row, earlier: Sighting, later: Sighting) -> None:
        if later.token == earlier.token:
            self._breach("double", f"{_named(row)}: attempt {earlier.attempt} started twice on {earlier.worker}")
            return
        if later.started_at < earlier.started_at:
            self._breach("double", f"{_named(row)}: attempt {earlier.attempt} started after attempt {later.attempt}")
        fault = self._faults.interrupting(earlier.worker, earlier.started_at, later.started_at)
        if fault is None:
            self._breach(
                "double",
                f"{_named(row)}: attempt {earlier.attempt} on {earlier.worker} was repeated; nothing interrupted it",
            )
            return
        self._verdict.repeated += 1
        self._recovered(fault.name, later.started_at - max(fault.began, earlier.started_at))

    def _first_start(self, row: Row, seen: list[Sighting]) -> None:
        """If a run started late, record the delay and the fault that explains it: a fault of the worker that held an
        earlier attempt which never started, otherwise the fault that `delaying` finds.
        """
        if not seen:
            return
        started, due = seen[0].started_at, self._due(row)
        if started - due < NOTICEABLE:
            return
        fault = None
        if 1 < seen[0].attempt <= len(row.workers) + 1:
            fault = self._faults.interrupting(row.workers[seen[0].attempt - 2], due - LEASE, started)
        fault = fault or self._faults.delaying(due, started)
        began = due if fault is None else max(fault.began, due)
        self._recovered(NO_FAULT if fault is None else fault.name, started - began)

    def _recovered(self, name: str, after: Micros) -> None:
        self._verdict.recoveries.setdefault(name, []).append(after)


class _Faults:
    """Finds the fault that explains an interruption or a delay."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self._faults = sorted(faults, key=lambda fault: fault.began)

    def interrupting(self, worker: str, since: Micros, until: Micros) -> Fault | None:
        """Return the fault because of which a worker lost an attempt: a fault of the worker itself, otherwise a fault
        of a server, the database or the fleet that may have kept them from renewing its lease. A kill of a server is
        no such fault: the worker uses another server. None: there was no such fault.
        """
        during = list(self._during(since, until))
        return next(
            (fault for fault in during if fault.target == worker),
            next((fault for fault in during if fault.part in _DELAYS_LATER_FIRES and fault.kind != "kill"), None),
        )

    def delaying(self, due: Micros, started: Micros) -> Fault | None:
        """Return the last fault that may have delayed a start. A fault of a worker or of the client counts only if
        there was none of a server, the database or the fleet. None: there was no fault.
        """
        during = list(self._during(due - FAULT_EFFECT_TIME, started))
        carrying = [fault for fault in during if fault.part in _DELAYS_LATER_FIRES]
        return next(reversed(carrying or during), None)

    def _during(self, since: Micros, until: Micros) -> Iterator[Fault]:
        return (fault for fault in self._faults if fault.began <= until and fault.ended >= since)


def _named(row: Row) -> str:
    return f"run {row.run_id} of {row.fire_time}"
