"""Counts many changes without an object for each of them: for windows that are sent as summaries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from timeball.domain.run.status import TERMINAL, Status
from timeball.operation.events.job_facts import FactsCache
from timeball.operation.events.summary import MAX_SUMMARY_JOBS, MAX_SUMMARY_RUNS, Counts, RunsSummary
from timeball.operation.events.window import Item
from timeball.ports.store.changes import ChangeBatch, JobChange, JobColumns, Recorded, RunChange, RunColumns


class _TenantTally:
    def __init__(self) -> None:
        self.statuses: Counter[str] = Counter()
        self.jobs: dict[str, Counts] = {}
        self.runs: dict[str, None] = {}
        self.job_events: Counter[str] = Counter()
        self.has_all_jobs = True
        self.has_all_runs = True

    def count(self, run_ids: Sequence[str], job_ids: Sequence[str], statuses: Status | Sequence[Status]) -> None:
        if isinstance(statuses, Status):
            self.statuses[statuses] += len(run_ids)
        else:
            self.statuses.update(statuses)
        room = MAX_SUMMARY_RUNS - len(self.runs)
        self.runs.update(dict.fromkeys(run_ids[:room]))
        self.has_all_runs = self.has_all_runs and len(run_ids) <= room
        if not self.has_all_jobs:
            return
        if len(self.jobs.keys() | set(job_ids)) > MAX_SUMMARY_JOBS:
            self.has_all_jobs = False
            job_ids = job_ids[: MAX_SUMMARY_JOBS - len(self.jobs)]
        each_status = [statuses] * len(job_ids) if isinstance(statuses, Status) else statuses
        for (job_id, status), count in Counter(zip(job_ids, each_status, strict=False)).items():
            counts = self.jobs.setdefault(job_id, {})
            counts[status] = counts.get(status, 0) + count

    @property
    def summary(self) -> RunsSummary:
        return RunsSummary(
            count=self.statuses.total(),
            statuses=dict(self.statuses),
            jobs=self.jobs,
            runs=list(self.runs),
            job_events=dict(self.job_events),
            jobs_truncated=not self.has_all_jobs,
            runs_truncated=not self.has_all_runs,
            tags_truncated=True,
        )


class BulkTally:
    """The counts of the changes of a window, by tenant."""

    def __init__(self, facts: FactsCache, wanted_ids: frozenset[str]) -> None:
        """`wanted_ids` are jobs and runs whose changes are needed one by one."""
        self._facts: Final = facts
        self._wanted_ids: Final = wanted_ids
        self._tenants: dict[str, _TenantTally] = {}
        self.picked: list[Item] = []
        """The changes of the jobs and runs in `wanted_ids`. They are included in the counts."""

    @property
    def summaries(self) -> dict[str, RunsSummary]:
        return {tenant: tally.summary for tenant, tally in self._tenants.items()}

    def add(self, batch: ChangeBatch) -> Sequence[Recorded]:
        """Count the changes of a batch. Return the changes that have to be checked one by one instead."""
        if batch.list_columns is None:
            return batch.list_changes()
        columns = batch.list_columns()
        if isinstance(columns, JobColumns):
            self._pick(batch, columns.job_ids, ())
            for tenant, count in Counter(columns.tenants).items():
                self._of(tenant).job_events[columns.type] += count
            return ()
        tenants: Sequence[str | None] = columns.tenants or self._facts.tenants_of(columns.run_ids)
        self._pick(batch, columns.job_ids, columns.run_ids)
        return self._add_runs(batch, columns, tenants)

    def _of(self, tenant: str) -> _TenantTally:
        found = self._tenants.get(tenant)
        if found is None:
            found = self._tenants[tenant] = _TenantTally()
        return found

    def _pick(self, batch: ChangeBatch, job_ids: Sequence[str], run_ids: Sequence[str]) -> None:
        wanted = self._wanted_ids
        if not wanted or (wanted.isdisjoint(job_ids) and wanted.isdisjoint(run_ids)):
            return
        changes = batch.list_changes()
        for at, job_id in enumerate(job_ids):
            if job_id in wanted or (run_ids and run_ids[at] in wanted):
                change = changes[at]
                if isinstance(change, RunChange):
                    self.picked.append((change, self._facts.of_run(change)))
                elif isinstance(change, JobChange) and change.job is not None:
                    self.picked.append((change, self._facts.of_job(change.job)))

    def _add_runs(self, batch: ChangeBatch, columns: RunColumns, tenants: Sequence[str | None]) -> Sequence[Recorded]:
        first = tenants[0]
        if first is not None and tenants.count(first) == len(tenants):
            self._count(first, columns)
            return ()
        unknown: list[int] = []
        by_tenant: dict[str, list[int]] = {}
        for at, tenant in enumerate(tenants):
            (unknown if tenant is None else by_tenant.setdefault(tenant, [])).append(at)
        statuses = columns.statuses
        for tenant, places in by_tenant.items():
            own = RunColumns(
                [columns.run_ids[at] for at in places],
                [columns.job_ids[at] for at in places],
                None,
                statuses if isinstance(statuses, Status) else [statuses[at] for at in places],
            )
            self._count(tenant, own)
        if not unknown:
            return ()
        changes = batch.list_changes()
        return [changes[at] for at in unknown]

    def _count(self, tenant: str, columns: RunColumns) -> None:
        self._of(tenant).count(columns.run_ids, columns.job_ids, columns.statuses)
        statuses = columns.statuses
        if statuses is Status.RUNNING:
            self._facts.remember(columns.run_ids, tenant)
        elif (statuses if isinstance(statuses, Status) else statuses[0]) in TERMINAL:
            self._facts.forget(columns.run_ids)
