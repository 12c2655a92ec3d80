"""A summary of changes: it is sent to listeners instead of the changes when there are many, and between servers."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Final

from msgspec import UNSET, Struct, structs

from timeball.domain.events import RunsChangedData
from timeball.operation.events.filters import EventFilter
from timeball.operation.events.job_facts import JobFacts
from timeball.ports.store.changes import Change, JobChange, RunChange

MAX_SUMMARY_JOBS: Final = 50
"""Maximum number of jobs in a summary: those with the most changes."""
MAX_SUMMARY_RUNS: Final = 50
MAX_SUMMARY_TAGS: Final = 50

Counts = dict[str, int]


class RunsSummary(Struct, frozen=True, kw_only=True):
    """The number of runs that reached each status, in all and by job, and the number of changes by tag."""

    count: int = 0
    statuses: Counts = {}
    jobs: dict[str, Counts] = {}
    """By job: the number of its runs that reached each status. A job that was changed itself has an entry as well."""
    runs: list[str] = []
    tags: Counts = {}
    job_events: Counts = {}
    jobs_truncated: bool = False
    runs_truncated: bool = False
    tags_truncated: bool = False
    """True if some changes have tags that are not listed, or belong to jobs whose tags are unknown."""

    @classmethod
    def of(cls, items: Iterable[tuple[Change, JobFacts | None]]) -> RunsSummary:
        jobs: dict[str, Counts] = {}
        job_events: Counts = {}
        runs: dict[str, None] = {}
        tagged: dict[str, tuple[str, ...]] = {}
        tags_truncated = runs_truncated = False
        for change, facts in items:
            if type(change) is RunChange:
                job_id = change.job_id if facts is None else facts.job_id
                counts = jobs.get(job_id)
                if counts is None:
                    counts = jobs[job_id] = {}
                if change.progress is None:
                    status = change.status
                    counts[status] = counts.get(status, 0) + 1
                if len(runs) < MAX_SUMMARY_RUNS:
                    runs[change.run_id] = None
                elif not runs_truncated and change.run_id not in runs:
                    runs_truncated = True
                if facts is None or facts.tags is UNSET:
                    tags_truncated = True
                elif facts.tags:
                    tagged[job_id] = facts.tags
            elif type(change) is JobChange:
                _count(job_events, change.type)
                jobs.setdefault(change.job_id, {})
        statuses: Counts = {}
        for counts in jobs.values():
            for name, count in counts.items():
                _count(statuses, name, count)
        tags: Counts = {}
        for job_id, own_tags in tagged.items():
            total = sum(jobs[job_id].values())
            for tag in own_tags:
                _count(tags, tag, total)
        return cls(
            count=sum(statuses.values()),
            statuses=statuses,
            jobs=jobs,
            runs=list(runs),
            tags=tags,
            job_events=job_events,
            runs_truncated=runs_truncated,
            tags_truncated=tags_truncated,
        )

    def plus(self, other: RunsSummary) -> RunsSummary:
        jobs = {job_id: dict(counts) for job_id, counts in self.jobs.items()}
        for job_id, counts in other.jobs.items():
            jobs[job_id] = _sum(jobs.get(job_id, {}), counts)
        runs = list(dict.fromkeys([*self.runs, *other.runs]))
        return RunsSummary(
            count=self.count + other.count,
            statuses=_sum(self.statuses, other.statuses),
            jobs=jobs,
            runs=runs[:MAX_SUMMARY_RUNS],
            tags=_sum(self.tags, other.tags),
            job_events=_sum(self.job_events, other.job_events),
            jobs_truncated=self.jobs_truncated or other.jobs_truncated,
            runs_truncated=self.runs_truncated or other.runs_truncated or len(runs) > MAX_SUMMARY_RUNS,
            tags_truncated=self.tags_truncated or other.tags_truncated,
        )

    def limited(
        self, jobs: int = MAX_SUMMARY_JOBS, runs: int = MAX_SUMMARY_RUNS, tags: int = MAX_SUMMARY_TAGS
    ) -> RunsSummary:
        """Return the summary with at most this many jobs and tags, those with the most changes, and this many runs."""
        few_jobs, few_runs, few_tags = len(self.jobs) <= jobs, len(self.runs) <= runs, len(self.tags) <= tags
        if few_jobs and few_runs and few_tags:
            return self
        return structs.replace(
            self,
            jobs=self.jobs if few_jobs else dict(heapq.nlargest(jobs, self.jobs.items(), key=_total)),
            runs=self.runs[:runs],
            tags=self.tags if few_tags else dict(heapq.nlargest(tags, self.tags.items(), key=_number)),
            jobs_truncated=self.jobs_truncated or not few_jobs,
            runs_truncated=self.runs_truncated or not few_runs,
            tags_truncated=self.tags_truncated or not few_tags,
        )

    def narrowed(self, where: EventFilter) -> RunsSummary | None:
        """Return the part of the summary that a filter selects; None if that part is certainly empty. If the summary
        does not have the data to decide, it is returned unchanged, and the listener reads more than it needs."""
        if where.is_empty:
            return self
        if where.statuses and where.statuses.isdisjoint(self.statuses):
            return None
        if where.run_id and where.run_id not in self.runs and not self.runs_truncated:
            return None
        if where.tag and where.tag not in self.tags and not self.tags_truncated:
            return None
        if not where.job_id:
            return self
        counts = self.jobs.get(where.job_id)
        if counts is None:
            return self if self.jobs_truncated else None
        wanted = {status: count for status, count in counts.items() if not where.statuses or status in where.statuses}
        if counts and not wanted:
            return None
        runs = [where.run_id] if where.run_id else []
        return RunsSummary(count=sum(wanted.values()), statuses=wanted, jobs={where.job_id: wanted}, runs=runs)

    @property
    def data(self) -> RunsChangedData:
        return RunsChangedData(
            count=self.count,
            statuses=self.statuses,
            jobs=self.jobs,
            jobs_truncated=self.jobs_truncated,
            runs=self.runs,
            tags=self.tags,
            job_events=self.job_events,
        )


def _count(counts: Counts, key: str, number: int = 1) -> None:
    counts[key] = counts.get(key, 0) + number


def _sum(one: Counts, other: Counts) -> Counts:
    return {key: one.get(key, 0) + other.get(key, 0) for key in one | other}


def _total(job: tuple[str, Counts]) -> int:
    return sum(job[1].values())


def _number(tag: tuple[str, int]) -> int:
    return tag[1]
