"""Collects the changes of commits until their window ends, and finds out which jobs and tenants they are about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import UNSET

from timeball.domain.events import EventType
from timeball.domain.instant import MILLISECOND, Micros
from timeball.domain.run.run import Run
from timeball.domain.run.status import TERMINAL, Status
from timeball.operation.events.job_facts import FactsCache
from timeball.operation.events.window import Item
from timeball.ports.store.changes import ChangeBatch, JobChange, JobSeen, Recorded, RunChange, WorkerChange
from timeball.ports.store.jobs import JobStatus

MAX_COLLECTED: Final = 20_000
"""Maximum number of changes in a window. If there are more, they are dropped."""
MAX_LOOKED_UP: Final = 200
"""Maximum number of runs, and of jobs, of a window that are looked up in the store."""
EARLY_TOLERANCE: Final = 50 * MILLISECOND
"""How much a run that was claimed early may be due in the future and count as started: the time of the store is a lower
bound."""


class Lookups(NamedTuple):
    """What has to be read from the store before a window is published."""

    run_ids: list[str]
    job_ids: list[str]


NO_LOOKUPS: Final = Lookups([], [])


class ChangeCollector:
    def __init__(self, is_wanted: Callable[[str], bool]) -> None:
        """`is_wanted` returns True if the changes of a tenant are published."""
        self._is_wanted = is_wanted
        self._facts = FactsCache()
        self._batches: list[ChangeBatch] = []
        self._count = 0
        self._early: list[RunChange] = []
        """Runs that were claimed shortly before they are due."""
        self._window: list[Item] = []
        """The changes of the window that ended, in order."""
        self._incomplete: list[int] = []
        """Positions in the window of changes whose job is not known, or not completely."""
        self.has_lost = False
        """True if changes were dropped."""

    @property
    def is_empty(self) -> bool:
        return not (self._batches or self._early)

    def clear(self) -> None:
        self._batches, self._count, self._early = [], 0, []
        self._facts.clear()

    def add(self, batches: Sequence[ChangeBatch]) -> None:
        """Add what a commit changed to the window."""
        self._batches += batches
        self._count += sum([batch.count for batch in batches])
        if self._count > MAX_COLLECTED:
            self._batches, self._count = [], 0
            self.has_lost = True

    def take(self, time: Micros) -> Lookups:
        """End the window. Return what has to be looked up before it is published. `time` is the time of the store."""
        batches, self._batches, self._count = self._batches, [], 0
        changes: list[Recorded] = [*self._early]
        self._early = []
        for batch in batches:
            changes += batch.list_changes()
        window: list[Item] = []
        incomplete: list[int] = []
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
        self._window, self._incomplete = window, incomplete
        return self._lookups() if incomplete else NO_LOOKUPS

    def runs_found(self, found: Mapping[str, Run]) -> Lookups:
        """Use the runs that were looked up. Return the jobs that have to be looked up now."""
        for at in self._incomplete:
            change, facts = self._window[at]
            if facts is None and isinstance(change, RunChange) and (run := found.get(change.run_id)) is not None:
                self._window[at] = (change, self._facts.of_found_run(run))
        return Lookups([], self._lookups().job_ids)

    def jobs_found(self, wanted: Sequence[str], found: Mapping[str, JobStatus]) -> None:
        asked = frozenset(wanted)
        for at in self._incomplete:
            change, facts = self._window[at]
            if facts is not None and not facts.is_complete and facts.job_id in asked:
                status = found.get(facts.job_id)
                known = self._facts.of_missing_job(facts) if status is None else self._facts.of_job(status.job)
                self._window[at] = (change, known)

    def lookups_failed(self) -> None:
        """Leave the window as it is: changes of runs that could not be looked up are lost."""
        if any(self._window[at][1] is None for at in self._incomplete):
            self.has_lost = True

    def by_tenant(self) -> tuple[dict[str, list[Item]], list[WorkerChange]]:
        """Return the changes of the window by tenant, without those of tenants that have no listeners, and the changes
        of workers, which belong to no tenant. Changes of runs that were not found are dropped."""
        window, self._window, self._incomplete = self._window, [], []
        items: dict[str, list[Item]] = {}
        workers: list[WorkerChange] = []
        for item in window:
            change, facts = item
            if facts is None:
                if type(change) is WorkerChange:
                    workers.append(change)
                continue
            found = items.get(facts.tenant)
            if found is None:
                if not self._is_wanted(facts.tenant):
                    continue
                found = items[facts.tenant] = []
            found.append(item)
            if facts.fires_once and type(change) is RunChange and change.status in TERMINAL and not change.is_task:
                found.append((JobChange(EventType.JOB_COMPLETED, facts.job_id, change.at), facts))
        return items, workers

    def _lookups(self) -> Lookups:
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
        return Lookups(list(runs)[:MAX_LOOKED_UP], list(jobs)[:MAX_LOOKED_UP])
