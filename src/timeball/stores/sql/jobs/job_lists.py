"""Lists of jobs, newest first.

Fields with an index select the jobs. A text in the name, the kind of task and the type of schedule have no index: of
the jobs that the other fields select, one page compares a bounded number with these three, so a page may have fewer
items than requested although more jobs match.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from timeball.domain.job.job import JobState
from timeball.ports.store.jobs import JobFilter, JobStatus
from timeball.ports.store.paging import Page
from timeball.stores.sql.dialect import Query
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.jobs.jobs import with_status
from timeball.stores.sql.jobs.text_search import TEXT_IN_NAME, text_parameters
from timeball.stores.sql.names import resolve
from timeball.stores.sql.page_bytes import ids_that_fit
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.rows.jobs import WORKFLOW_TAG, read_jobs
from timeball.stores.sql.rows.values import plain
from timeball.stores.sql.statements import query

JOBS_BY_ID = query("jobs_by_id")
JOBS_WITH_MANY_RUNS = query("jobs_with_many_runs")

NEWEST: Final = "\U0010ffff"
"""A text that sorts after every id: the position before the first page."""
MAX_NAMES_COMPARED: Final = 10_000
"""Maximum number of jobs whose names one page compares with a text."""
UNLIMITED: Final = 1 << 40
"""A limit that no query reaches: more jobs than a store has."""
MAX_SPECS_COMPARED: Final = 2_000
"""Maximum number of jobs whose specs one page compares with a task kind or a type of schedule."""
_NO_RUNS = "NOT EXISTS (SELECT 1 FROM runs r WHERE r.job_id = j.id)"
_ACTIVE = resolve("j.state = {job.active}")
_STATUSES = ("scheduled", "paused", "completed", "cancelled")
_KIND: Final = (
    "COALESCE({text_of j.spec: task.kind},"
    " (SELECT {text_of t.spec: kind} FROM tasks t WHERE t.tenant = j.tenant AND t.id = j.task_id))"
)
_COMPARED: Final = {
    "text": TEXT_IN_NAME,
    "kind": f"{_KIND} = :kind",
    "schedule_type": "COALESCE({text_of j.spec: schedule.type}, 'immediate') = :schedule_type",
}
"""The SQL condition for each field of a filter that no index serves."""
_RELATED: Final = {
    "calendar": (
        "EXISTS (SELECT 1 FROM job_calendars c"
        " WHERE c.job_id = j.id AND c.tenant = j.tenant AND c.calendar = :calendar)"
    ),
    "tag": "EXISTS (SELECT 1 FROM job_tags t WHERE t.job_id = j.id AND t.tag = :tag)",
}
"""The SQL condition for each field of a filter that is stored in a table of its own. If the filter has no name, user or
task, which are columns of `jobs`, the first of these fields selects the jobs by the index of its table. The others are
looked up for each job."""


class JobLists(StorePart):
    async def list_jobs(
        self, where: JobFilter, cursor: str | None, limit: int, *, may_lag: bool = False
    ) -> Page[JobStatus]:
        async def work(tx: Tx) -> Page[JobStatus]:
            page = await _ids(tx, where, cursor, limit)
            jobs = await read_jobs(tx, await tx.fetch(JOBS_BY_ID, b=page.items)) if page.items else []
            jobs.sort(key=lambda job: job.id, reverse=True)
            return Page(await with_status(tx, jobs), page.next_cursor)

        return await self._db.read(work, slow=True, may_lag=may_lag)

    async def match_jobs(self, where: JobFilter, cursor: str | None, limit: int) -> Page[str]:
        async def work(tx: Tx) -> Page[str]:
            return await _ids(tx, where, cursor, limit)

        return await self._db.read(work, slow=True)

    async def count_jobs(self, where: JobFilter) -> int:
        search = _search(where, None)
        matches = " AND ".join(_COMPARED[field] for field in search.compared)
        counting = [_counting(listing, matches) for listing in search.listings]
        parameters = {**search.parameters, "limit": UNLIMITED}

        async def work(tx: Tx) -> int:
            count = 0
            for each in counting:
                ((found,),) = await tx.fetch(each, **parameters)
                count += int(found)
            return count

        return await self._db.read(work, slow=True)

    async def busy_jobs(self, ids: Sequence[str], live_runs: int) -> set[str]:
        async def work(tx: Tx) -> set[str]:
            return {job_id for (job_id,) in await tx.fetch(JOBS_WITH_MANY_RUNS, b=list(ids), limit=live_runs)}

        return await self._db.read(work) if ids else set()


class JobSearch(NamedTuple):
    """The SQL statements and parameters that find the jobs of a `JobFilter`."""

    listings: tuple[Query, ...]
    """The statements that list the jobs which the fields with an index select."""
    compared: tuple[str, ...]
    """The fields of the filter that are given and have no index."""
    parameters: dict[str, Any]


def _search(where: JobFilter, cursor: str | None) -> JobSearch:
    compared = tuple(field for field in _COMPARED if getattr(where, field) is not None)
    wanted = where.status or frozenset(_STATUSES)
    before = min(cursor or NEWEST, where.made_before or NEWEST)
    parameters: dict[str, Any] = {"tenant": where.tenant, "before": before}
    for field in ("name", "tag", "user_id", "task_id", "calendar"):
        if (value := getattr(where, field)) is not None:
            parameters[field] = plain(value)
    if where.workflows:
        parameters["tag"] = WORKFLOW_TAG
    listings = _listings(wanted & frozenset(_STATUSES), frozenset(parameters))
    return JobSearch(listings, compared, parameters | _compared_with(where))


async def _ids(tx: Tx, where: JobFilter, cursor: str | None, limit: int) -> Page[str]:
    search = _search(where, cursor)
    queries, rows_read, bounds = search.listings, limit + 1, {}
    if search.compared:
        queries = tuple(_searching(each, search.compared) for each in queries)
        rows_read, bounds = _jobs_compared(where), {"page": limit + 1}
    rows: list[Row] = []
    for each in queries:
        rows += await tx.fetch(each, **search.parameters, **bounds, limit=rows_read)
    found, last = _matching(rows, rows_read) if search.compared else (rows, None)
    newest_first = sorted(((job_id, size) for job_id, size in found), reverse=True)
    ids = ids_that_fit(newest_first, limit)
    return Page(ids, ids[-1] if len(found) > len(ids) > 0 else last)


def _jobs_compared(where: JobFilter) -> int:
    """Return how many jobs one page compares with the fields that have no index."""
    reads_specs = where.kind is not None or where.schedule_type is not None
    return MAX_SPECS_COMPARED if reads_specs else MAX_NAMES_COMPARED


def _compared_with(where: JobFilter) -> dict[str, Any]:
    """Return the parameters of the conditions in `_COMPARED`, for the fields that the filter has."""
    found: dict[str, Any] = {}
    if where.text is not None:
        found |= text_parameters(where.text)
    if where.kind is not None:
        found["kind"] = plain(where.kind)
    if where.schedule_type is not None:
        found["schedule_type"] = plain(where.schedule_type)
    return found


def _matching(rows: list[Row], limit: int) -> tuple[list[Row], str | None]:
    """Return the jobs that match, and the id of the last compared job if there may be further jobs that were not
    compared; None if all jobs were compared."""
    found = [(job_id, size) for job_id, size, is_match in rows if is_match]
    unfinished = [job_id for job_id, compared, is_match in rows if not is_match and compared >= limit]
    if not unfinished:
        return found, None
    last = max(unfinished)
    return [(job_id, size) for job_id, size in found if job_id >= last], last


@lru_cache(maxsize=1024)
def _searching(listing: Query, compared: tuple[str, ...]) -> Query:
    matches = " AND ".join(_COMPARED[field] for field in compared)
    return query("search_jobs", listing=listing.text.rstrip(";"), matches=matches)


@lru_cache(maxsize=1024)
def _counting(listing: Query, matches: str) -> Query:
    return query("count_jobs", listing=listing.text.rstrip(";"), matches=matches or "1 = 1")


@lru_cache(maxsize=1024)
def _listings(wanted: frozenset[str], given: frozenset[str]) -> tuple[Query, ...]:
    """Return the statements that list the jobs of the `wanted` statuses; their rows are merged. An index serves each of
    them. `given` are the names of the fields of the filter."""
    narrow = ["j.tenant = :tenant", "j.id < :before"]
    narrow += [f"j.{field} = :{field} AND j.{field} <> ''" for field in ("name", "user_id") if field in given]
    if "task_id" in given:
        narrow.append("j.task_id = :task_id")
    name = "list_jobs"
    related = [field for field in _RELATED if field in given]
    if related and not given & {"name", "user_id", "task_id"}:
        name = f"list_jobs_by_{related[0]}"
    lookups = [_RELATED[field] for field in related]
    others = lookups if name == "list_jobs" else lookups[1:]

    def listing(*conditions: str) -> Query:
        return query(name, where=" AND ".join([*narrow, *others, *conditions]))

    if wanted == frozenset(_STATUSES):
        return (listing(),)
    queries = [
        listing(resolve(f"j.state = {{job.{state}}} AND j.state <> {{job.active}}"))
        for state in (JobState.PAUSED, JobState.CANCELLED)
        if state.value in wanted
    ]
    if wanted >= {"scheduled", "completed"}:
        queries.append(listing(_ACTIVE))
    elif "scheduled" in wanted:
        queries.append(listing(f"{_ACTIVE} AND j.next_fire_at IS NOT NULL"))
        alive = [*narrow, *lookups, f"{_ACTIVE} AND j.next_fire_at IS NULL"]
        queries.append(query("list_jobs_with_runs", where=" AND ".join(alive)))
        queries.append(query("list_idle_followers", where=" AND ".join([*alive, _NO_RUNS])))
    elif "completed" in wanted:
        ended = f"{_NO_RUNS} AND NOT EXISTS (SELECT 1 FROM follows f WHERE f.follower = j.id)"
        queries.append(listing(f"{_ACTIVE} AND j.next_fire_at IS NULL AND {ended}"))
    return tuple(queries)
