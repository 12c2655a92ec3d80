"""A summary of changes: what is sent instead of the changes when there are many, and what servers send each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import UNSET, Struct, field

from timeball.domain.events import RunsChangedData
from timeball.operation.events.filters import EventFilter
from timeball.operation.events.job_facts import JobFacts
from timeball.ports.store.changes import Change, JobChange, RunChange

MAX_SUMMARY_JOBS: Final = 50
"""Maximum number of jobs in a summary: those with the most changes."""
MAX_SUMMARY_RUNS: Final = 50
MAX_SUMMARY_TAGS: Final = 50


class RunsSummary(Struct):
    count: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    jobs: dict[str, Counter[str]] = {}
    runs: list[str] = []
    tags: Counter[str] = field(default_factory=Counter)
    job_events: Counter[str] = field(default_factory=Counter)
    jobs_truncated: bool = False
    tags_truncated: bool = False
    """True if some changes are of jobs whose tags are unknown, or of tags that are not listed."""
    kinds_unknown: bool = False

    @classmethod
    def of(cls, items: Iterable[tuple[Change, JobFacts | None]]) -> RunsSummary:
        summary = cls()
        statuses: Counter[tuple[str, str]] = Counter()
        runs: dict[str, None] = {}
        tagged: dict[str, JobFacts] = {}
        for change, facts in items:
            if isinstance(change, RunChange):
                job_id = change.job_id if facts is None else facts.job_id
                statuses[job_id, change.status] += 1
                if len(runs) < MAX_SUMMARY_RUNS:
                    runs[change.run_id] = None
                if facts is None or facts.tags is UNSET:
                    summary.tags_truncated = True
                elif facts.tags:
                    tagged[job_id] = facts
            elif isinstance(change, JobChange):
                summary.job_events[change.type] += 1
        summary.runs = list(runs)
        for (job_id, status), count in statuses.items():
            summary.count += count
            summary.statuses[status] += count
            summary.jobs.setdefault(job_id, Counter())[status] = count
        for job_id, facts in tagged.items():
            total = summary.jobs[job_id].total()
            for tag in facts.tags or ():
                summary.tags[tag] += total
        return summary

    def add(self, other: RunsSummary) -> None:
        self.count += other.count
        self.statuses += other.statuses
        for job_id, statuses in other.jobs.items():
            self.jobs[job_id] = self.jobs.get(job_id, Counter()) + statuses
        self.runs = list(dict.fromkeys([*self.runs, *other.runs]))[:MAX_SUMMARY_RUNS]
        self.tags += other.tags
        self.job_events += other.job_events
        self.jobs_truncated = self.jobs_truncated or other.jobs_truncated
        self.tags_truncated = self.tags_truncated or other.tags_truncated

    def limited(self, jobs: int = MAX_SUMMARY_JOBS, runs: int = MAX_SUMMARY_RUNS, tags: int = MAX_SUMMARY_TAGS) -> None:
        """Drop the jobs and tags with the fewest changes."""
        if len(self.jobs) > jobs:
            largest = sorted(self.jobs.items(), key=lambda item: -item[1].total())[:jobs]
            self.jobs, self.jobs_truncated = dict(largest), True
        if len(self.tags) > tags:
            self.tags, self.tags_truncated = Counter(dict(self.tags.most_common(tags))), True
        del self.runs[runs:]

    def narrowed(self, where: EventFilter) -> RunsSummary | None:
        """Return the part that a filter selects; None if it is certainly empty. Where the summary cannot tell, it is
        returned as it is: the listener then reads more than it needs.
        """
        if where.is_empty:
            return self
        if where.statuses and not any(self.statuses.get(status) for status in where.statuses):
            return None
        if where.job_id:
            statuses = self.jobs.get(where.job_id)
            if statuses is None:
                return self if self.jobs_truncated else None
            return _part(statuses, where, {where.job_id: statuses})
        if where.tag and where.tag not in self.tags and not self.tags_truncated:
            return None
        if (
            where.run_id
            and where.run_id not in self.runs
            and len(self.runs) < MAX_SUMMARY_RUNS
            and not self.jobs_truncated
        ):
            return None
        return self

    @property
    def data(self) -> RunsChangedData:
        return RunsChangedData(
            count=self.count,
            statuses=dict(self.statuses),
            jobs={job_id: dict(statuses) for job_id, statuses in self.jobs.items()},
            jobs_truncated=self.jobs_truncated,
            runs=self.runs,
            tags=dict(self.tags),
            job_events=dict(self.job_events),
        )


def _part(statuses: Mapping[str, int], where: EventFilter, jobs: dict[str, Counter[str]]) -> RunsSummary | None:
    wanted = Counter({status: n for status, n in statuses.items() if not where.statuses or status in where.statuses})
    if not wanted:
        return None
    return RunsSummary(count=wanted.total(), statuses=wanted, jobs=jobs, runs=[where.run_id] if where.run_id else [])
