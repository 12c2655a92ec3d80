"""Searches for live and finished runs that match a filter, with the index that suits the filter best."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import repeat
from typing import Any, Final, Protocol

import msgspec
from msgspec import Struct

from timeball.domain.instant import DAY, Micros
from timeball.domain.run.status import Status
from timeball.ports.store.queries import RunFilter
from timeball.stores.sql.day_ranges import LATELY, DayRange, day_range
from timeball.stores.sql.dialect import Query
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.reading import run_filters
from timeball.stores.sql.reading.run_filters import FIRST, LAST, Meaning, RunPosition
from timeball.stores.sql.schema.runs import ListedHistoryRow
from timeball.stores.sql.statements import query

FEW_JOBS: Final = 100
"""Maximum number of jobs whose runs are always looked up job by job."""
NEARBY: Final = 1_000
"""Number of runs, from the start of the page, that are searched first if a filter selects more than `FEW_JOBS` jobs.
Runs of frequent jobs are found among them."""
MAX_JOBS: Final = 2_000
"""Maximum number of jobs whose runs are looked up job by job, if the search among `NEARBY` runs does not fill the page.
With more jobs, all runs are searched."""
NEWEST_FIRST: Final = "r.fire_time DESC, r.id DESC"
OLDEST_FIRST: Final = "r.fire_time, r.id"


class _Find(Protocol):
    async def __call__(self, fires_from: Micros) -> list[Row]: ...


class RunSearch(Struct, frozen=True, kw_only=True):
    """A search for the live and finished runs that meet a filter, between two positions of the list."""

    tx: Tx
    where: RunFilter
    jobs: int
    """Number of jobs that the filter selects by their fields, counted up to `MAX_JOBS` + 1; 0 if the filter has no
    field of jobs, or names one job."""
    after: RunPosition = FIRST
    before: RunPosition = LAST
    newest_first: bool
    limit: int
    now: Micros

    async def live(self, name: str) -> list[Row]:
        of_jobs = 0 < self.jobs <= FEW_JOBS
        any_of = run_filters.live(self.where, of_jobs=of_jobs)
        if not any_of:
            return []
        how = {
            "jobs": run_filters.jobs(self.where),
            "chosen": run_filters.chosen_jobs(self.where),
            "order": self._order,
        }
        find = "find_live_of_jobs" if of_jobs else "find_live"
        found = " UNION ALL ".join(query(find, where=condition, **how).text for condition in any_of)
        return await self.fetch(run_filters.statement(name, found=found, order=self._order))

    async def finished(self, name: str) -> list[Row]:
        """Find finished runs with the statement `name`. On PostgreSQL, a list with the newest runs first that includes
        successes searches first the day (`LATELY`) that ends where the page starts, because that day usually fills the
        page. In all other cases, and if the page is not full, all days are searched."""
        is_frequent = not self.where.dead_letters and (not self.where.status or Status.SUCCEEDED in self.where.status)
        lately = is_frequent and self.newest_first and self.tx.has_days
        return await self._met(name, run_filters.finished, repeat(self.where.fire_from or 0), lately=lately)

    async def reaching(self, name: str) -> list[Row]:
        return await self._met(name, run_filters.reaching, ((self.where.fire_from or 0) - DAY, 0))

    async def _met(
        self, name: str, meaning: Meaning, fires_from: Iterable[Micros], *, lately: bool = False
    ) -> list[Row]:
        """Find the runs that match the filter. `meaning` returns its conditions, which are searched one after the
        other; `fires_from` has, for each of them, the earliest fire time to search."""
        rows: list[Row] = []
        anyones, of_jobs = meaning(run_filters.of_any_job(self.where)), meaning(self.where, of_jobs=True)
        found = zip(meaning(self.where), anyones, of_jobs, strict=True)
        for (condition, anyone, of_job), since in zip(found, fires_from, strict=False):
            some: list[Row] = []
            if self.jobs > FEW_JOBS:
                some = await self._find(f"{name}_nearby", nearby=anyone, where=run_filters.of_job(self.where))
            if len(some) < self.limit:
                if 0 < self.jobs <= MAX_JOBS:
                    find = partial(self._of_jobs, name, where=of_job)
                else:
                    find = partial(self._find, name, where=condition)
                some = await (self._lately(find, since) if lately else find(since))
            rows += some
        return rows

    async def _find(self, name: str, fires_from: Micros = 0, **parts: str) -> list[Row]:
        finding = run_filters.statement(name, jobs=run_filters.jobs(self.where), order=self._order, **parts)
        return await self.fetch(finding, self._days(fires_from))

    async def _lately(self, find: _Find, fires_from: Micros) -> list[Row]:
        """Search the runs that fired within `LATELY` before the start of the page first, newest first. If they fill the
        page, return them: all other runs fired earlier. Otherwise search all runs since `fires_from`."""
        lately = min(self.now, run_filters.end(self.where, self.before).fire_time) - LATELY
        if self._days(lately) > self._days(fires_from):
            rows = await find(lately)
            if len(rows) == self.limit and ListedHistoryRow(*rows[-1]).fire_time >= lately:
                return rows
        return await find(fires_from)

    def _days(self, fires_from: Micros) -> DayRange:
        return day_range(self.now, fires_from=fires_from, job_id=self.where.job_id)

    async def _of_jobs(self, name: str, fires_from: Micros, *, where: str) -> list[Row]:
        """Find the runs of the selected jobs, job by job. The first query returns the first run of each job, for at
        most `limit` jobs. If it returns `limit` runs, these alone fill the page, so runs after the last of them are not
        searched."""
        chosen = run_filters.chosen_jobs(self.where)
        firsts = await self._find("first_of_jobs", fires_from, chosen=chosen, where=where)
        if not firsts:
            return []
        *_, (_, last, _) = firsts
        search = self._up_to(last) if len(firsts) == self.limit else self
        finding = run_filters.statement(f"{name}_of_jobs", where=where, order=self._order)
        return await search.fetch(finding, self._days(fires_from), b=[job_id for job_id, _, _ in firsts])

    def _up_to(self, fire_time: Micros) -> RunSearch:
        if self.newest_first:
            return msgspec.structs.replace(self, after=max(self.after, RunPosition(fire_time, "")))
        return msgspec.structs.replace(self, before=min(self.before, RunPosition(fire_time + 1, "")))

    @property
    def _order(self) -> str:
        return NEWEST_FIRST if self.newest_first else OLDEST_FIRST

    async def fetch(self, statement: Query, made: DayRange | None = None, **batches: Any) -> list[Row]:
        parameters = run_filters.parameters(self.where, self.after, self.before) | (made or DayRange())._asdict()
        return await self.tx.fetch(statement, limit=self.limit, nearby=NEARBY, **parameters, **batches)


async def chosen_jobs(tx: Tx, where: RunFilter) -> int:
    """Return the number of jobs that a filter selects by their fields, at least 1, counted up to `MAX_JOBS` + 1; 0 if
    the filter has no field of jobs, or names one job."""
    chosen = run_filters.chosen_jobs(where)
    if not chosen:
        return 0
    counting = run_filters.statement("count_chosen_jobs", chosen=chosen)
    ((jobs,),) = await tx.fetch(counting, limit=MAX_JOBS + 1, **run_filters.parameters(where))
    return max(1, int(jobs))
