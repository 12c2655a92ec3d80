"""The fields of a job that events contain besides its id.

The hub learns these facts from changes that contain a spec and from lookups in the store. It drops those of a run when
the run ends, and those of a job when its only run ends or when `MAX_FACTS` jobs are newer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from timeball.domain.job.job import Job, JobSpec
from timeball.domain.run.run import Run
from timeball.domain.run.status import TERMINAL, Status
from timeball.ports.store.changes import RunChange

MAX_FACTS: Final = 50_000
"""Maximum number of jobs, and of runs, whose facts are kept. The oldest ones are dropped."""


class JobFacts(Struct, frozen=True, gc=False):
    tenant: str
    job_id: str
    name: str | UnsetType = UNSET
    tags: tuple[str, ...] | UnsetType = UNSET
    kind: str | UnsetType = UNSET
    fires_once: bool = False

    @property
    def is_complete(self) -> bool:
        return self.tags is not UNSET


class _ShownTask(Struct, frozen=True, gc=False):
    kind: str | UnsetType = UNSET


class _ShownSchedule(Struct, frozen=True, gc=False):
    type: str = "immediate"


_IMMEDIATE: Final = _ShownSchedule()


class _ShownSpec(Struct, frozen=True, gc=False):
    """The fields of a spec that events contain. The other fields are not decoded."""

    name: str = ""
    tags: tuple[str, ...] = ()
    task: _ShownTask | None = None
    schedule: _ShownSchedule = _IMMEDIATE


_decode_spec = msgspec.json.Decoder(_ShownSpec).decode
_decode_task = msgspec.json.Decoder(_ShownTask).decode


class FactsCache:
    def __init__(self) -> None:
        self._by_job: dict[str, JobFacts] = {}
        self._by_run: dict[str, JobFacts] = {}
        """The facts of runs that are executed now, and of runs that were looked up."""

    def clear(self) -> None:
        self._by_job.clear()
        self._by_run.clear()

    def of_job(self, job: Job) -> JobFacts:
        facts = self._by_job[job.id] = _of_spec(job.tenant, job.id, job.spec)
        _limit(self._by_job)
        return facts

    def of_run(self, change: RunChange) -> JobFacts | None:
        """Return the facts of the job of a run; None if the run has to be looked up. If the change has no tenant, only
        the facts that are known of its run are used: the job id in such a change comes from a worker and is not
        trusted."""
        is_over = change.status in TERMINAL
        facts = self._by_run.pop(change.run_id, None) if is_over else self._by_run.get(change.run_id)
        tenant = change.tenant or ("" if facts is None else facts.tenant)
        if not tenant:
            return None
        if facts is None or not facts.is_complete:
            facts = self._of_job(tenant, change, facts)
            if facts is not None and change.status is Status.RUNNING:
                self._by_run[change.run_id] = facts
                _limit(self._by_run)
        if is_over and facts is not None and facts.fires_once and not change.is_task:
            self._by_job.pop(facts.job_id, None)
        return facts

    def _of_job(self, tenant: str, change: RunChange, facts: JobFacts | None) -> JobFacts | None:
        job_id = change.job_id if facts is None or not facts.job_id else facts.job_id
        known = self._by_job.get(job_id)
        if known is not None and known.tenant == tenant:
            return known
        if change.spec is not None:
            return _of_claim(change)
        return JobFacts(tenant, job_id) if job_id else None

    def tenants_of(self, run_ids: Sequence[str]) -> list[str | None]:
        """Return the tenants of runs; None where the run has to be looked up."""
        return [None if facts is None else facts.tenant for facts in map(self._by_run.get, run_ids)]

    def remember(self, run_ids: Iterable[str], tenant: str) -> None:
        """Keep the tenants of runs that are executed now, and no other facts about them."""
        self._by_run.update(zip(run_ids, repeat(_tenant_facts(tenant)), strict=False))
        while len(self._by_run) > MAX_FACTS:
            _limit(self._by_run)

    def forget(self, run_ids: Iterable[str]) -> None:
        for run_id in run_ids:
            self._by_run.pop(run_id, None)

    def of_found_run(self, run: Run) -> JobFacts:
        """Return the facts of a run that was looked up."""
        facts = self._by_job.get(run.job_id)
        if facts is None:
            facts = JobFacts(run.tenant, run.job_id, run.job_name)
        if not run.is_terminal:
            self._by_run[run.id] = facts
            _limit(self._by_run)
        return facts

    def of_missing_job(self, facts: JobFacts) -> JobFacts:
        """Store and return facts for a job that does not exist any more, so that it is not looked up again."""
        known = JobFacts(facts.tenant, facts.job_id, facts.name, (), facts.kind)
        self._by_job[facts.job_id] = known
        _limit(self._by_job)
        return known


@lru_cache(maxsize=1_000)
def _tenant_facts(tenant: str) -> JobFacts:
    return JobFacts(tenant, "")


def _of_spec(tenant: str, job_id: str, spec: JobSpec) -> JobFacts:
    kind = UNSET if spec.task is None else type(spec.task).__struct_config__.tag
    assert kind is UNSET or isinstance(kind, str)
    return JobFacts(tenant, job_id, spec.name, tuple(spec.tags), kind, spec.one_shot)


def _of_claim(change: RunChange) -> JobFacts:
    """Return the facts from the spec of a claimed run; unknown facts if the spec cannot be decoded."""
    assert change.spec is not None
    try:
        spec = _decode_spec(change.spec)
        task = spec.task if change.task is None else _decode_task(change.task)
    except msgspec.MsgspecError:
        return JobFacts(change.tenant, change.job_id)
    kind = UNSET if task is None else task.kind
    once = spec.schedule.type in ("immediate", "date")
    return JobFacts(change.tenant, change.job_id, spec.name, spec.tags, kind, once)


def _limit(facts: dict[str, JobFacts]) -> None:
    if len(facts) > MAX_FACTS:
        del facts[next(iter(facts))]
