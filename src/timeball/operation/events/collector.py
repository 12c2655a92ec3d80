"""Collects the changes of commits in windows, and finds out which jobs and tenants they belong to. A window is the time
between two publications of events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import UNSET

from timeball.domain.events import EventType
from timeball.domain.instant import MILLISECOND, Micros
from timeball.domain.run.run import Run
from timeball.domain.run.status import TERMINAL, Status
from timeball.operation.events.job_facts import FactsCache
from timeball.operation.events.tally import BulkTally
from timeball.operation.events.window import Item, TenantWindow
from timeball.ports.store.changes import ChangeBatch, JobChange, JobSeen, Recorded, RunChange, WorkerChange
from timeball.ports.store.jobs import JobStatus
from timeball.slices import Steps

MAX_COLLECTED: Final = 20_000
"""Maximum number of changes in a window. With more, all collected changes are dropped, and listeners get a `reset`."""
MAX_DETAILED: Final = 500
"""Maximum number of changes in a window that are checked one by one. In a larger window they are only counted, unless a
filter needs them: a filter by job or run those it names, a filter by tag or kind all of them."""
MAX_LOOKED_UP: Final = 200
"""Maximum number of runs, and of jobs, of a window that are looked up in the store."""
EARLY_TOLERANCE: Final = 50 * MILLISECOND
"""A run that was claimed early counts as started if it is due within this time, in microseconds: the server's estimate
of the store's time may be that much behind."""


class EventInterest(NamedTuple):
    """The ids and properties that the filters of the listeners refer to."""

    ids: frozenset[str] = frozenset()
    """The ids of jobs and runs that filters name."""
    needs_facts: bool = False
    """True if a filter names tags or kinds, so that the job of each change must be known."""


class MissingFacts(NamedTuple):
    """The runs and jobs that have to be read from the store before a window is published."""

    run_ids: list[str]
    job_ids: list[str]


NO_MISSING_FACTS: Final = MissingFacts([], [])


class ChangeCollector:
    def __init__(self, is_wanted: Callable[[str], bool]) -> None:
        """`is_wanted` returns True if the changes of a tenant are published."""
        self._is_wanted = is_wanted
        self._facts = FactsCache()
        self._batches: list[ChangeBatch] = []
        self._count = 0
        self._early: list[RunChange] = []
        """Starts of runs that were claimed before they are due. A later window publishes them."""
        self._window: list[Item] = []
        """The changes of the window that ended, in order."""
        self._incomplete: list[int] = []
        """Positions in the window of changes whose job is not known, or not completely."""
        self._bulk: BulkTally | None = None
        """The counts of the window, if it has too many changes to check each of them; None otherwise."""
        self.has_lost = False
        """True if changes were dropped."""

    @property
    def is_empty(self) -> bool:
        return not (self._batches or self._early)

    def clear(self) -> None:
        self._batches, self._count, self._early = [], 0, []
        self._facts.clear()

    def add(self, batches: Sequence[ChangeBatch]) -> None:
        """Add the changes of a commit to the window."""
        self._batches += batches
        self._count += sum([batch.count for batch in batches])
        if self._count > MAX_COLLECTED:
            self._batches, self._count = [], 0
            self.has_lost = True

    def take(self, time: Micros, wanted: EventInterest) -> Steps[MissingFacts]:
        """End the window. Return the runs and jobs that have to be looked up before the window is published. `time` is
        the time of the store."""
        batches, self._batches, count, self._count = self._batches, [], self._count, 0
        early, self._early = self._early, []
        self._window, self._incomplete, self._bulk = [], [], None
        self._add(early, time)
        if count <= MAX_DETAILED or wanted.needs_facts:
            for batch in batches:
                self._add(batch.list_changes(), time)
                yield
        else:
            self._bulk = tally = BulkTally(self._facts, wanted.ids)
            for batch in batches:
                self._add(tally.add(batch), time)
                yield
        return self._lookups() if self._incomplete else NO_MISSING_FACTS

    def _add(self, changes: Sequence[Recorded], time: Micros) -> None:
        window, incomplete = self._window, self._incomplete
        facts_of_run, soon = self._facts.of_run, time + EARLY_TOLERANCE
        for change in changes:
            if type(change) is RunChange:
                if change.at > soon and change.status is Status.RUNNING:
                    self._early.append(change)
                    continue
                facts = facts_of_run(change)
                if facts is None or facts.tags is UNSET:
                    incomplete.append(len(window))
                window.append((change, facts))
            elif type(change) is WorkerChange:
                window.append((change, None))
            elif type(change) is JobSeen:
                self._facts.of_job(change.job)
            elif type(change) is JobChange and change.job is not None:
                window.append((change, self._facts.of_job(change.job)))

    def runs_found(self, found: Mapping[str, Run]) -> MissingFacts:
        """Apply the runs that were looked up. Return the jobs that have to be looked up next."""
        for at in self._incomplete:
            change, facts = self._window[at]
            if facts is None and isinstance(change, RunChange) and (run := found.get(change.run_id)) is not None:
                self._window[at] = (change, self._facts.of_found_run(run))
        return MissingFacts([], self._lookups().job_ids)

    def jobs_found(self, wanted: Sequence[str], found: Mapping[str, JobStatus]) -> None:
        asked = frozenset(wanted)
        for at in self._incomplete:
            change, facts = self._window[at]
            if facts is not None and not facts.is_complete and facts.job_id in asked:
                status = found.get(facts.job_id)
                known = self._facts.of_missing_job(facts) if status is None else self._facts.of_job(status.job)
                self._window[at] = (change, known)

    def lookups_failed(self) -> None:
        """Record that the lookups failed: the changes of runs that are still unknown are lost."""
        if any(self._window[at][1] is None for at in self._incomplete):
            self.has_lost = True

    def windows(self) -> tuple[dict[str, TenantWindow], list[WorkerChange]]:
        """Return the window of each tenant with listeners on any server, and the changes of workers, which may concern
        several. Changes of runs that were not found are dropped."""
        window, self._window, self._incomplete = self._window, [], []
        bulk, self._bulk = self._bulk, None
        workers: list[WorkerChange] = []
        found: dict[str, TenantWindow] = {}
        for item in window:
            change, facts = item
            if facts is None:
                if type(change) is WorkerChange:
                    workers.append(change)
            elif (own := self._window_of(found, facts.tenant)) is not None:
                own.items.append(item)
                if facts.fires_once and type(change) is RunChange and change.status in TERMINAL and not change.is_task:
                    own.items.append((JobChange(EventType.JOB_COMPLETED, facts.job_id, change.at), facts))
        if bulk is not None:
            for tenant, summary in bulk.summaries.items():
                if (own := self._window_of(found, tenant)) is not None:
                    own.bulk = summary
            for item in bulk.picked:
                if item[1] is not None and (own := self._window_of(found, item[1].tenant)) is not None:
                    own.picked.append(item)
        return found, workers

    def _window_of(self, found: dict[str, TenantWindow], tenant: str) -> TenantWindow | None:
        own = found.get(tenant)
        if own is None and self._is_wanted(tenant):
            own = found[tenant] = TenantWindow()
        return own

    def _lookups(self) -> MissingFacts:
        runs: dict[str, None] = {}
        jobs: dict[str, None] = {}
        for at in self._incomplete:
            change, facts = self._window[at]
            if facts is not None:
                if not facts.is_complete and self._is_wanted(facts.tenant):
                    jobs[facts.job_id] = None
            elif isinstance(change, RunChange):
                runs[change.run_id] = None
        self.has_lost = self.has_lost or len(runs) > MAX_LOOKED_UP
        return MissingFacts(list(runs)[:MAX_LOOKED_UP], list(jobs)[:MAX_LOOKED_UP])
