"""Translates a filter of runs to SQL conditions, for live and for finished runs.

A filter becomes several conditions, and each run matches at most one of them. Each condition has an index in the order
of fire times, so the cost of a page depends on the page, not on the number of runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from timeball.domain.instant import DAY, Micros
from timeball.domain.run.error_fingerprint import NO_FINGERPRINT
from timeball.domain.run.ledger import Origin
from timeball.domain.run.lifecycle import State
from timeball.domain.run.status import GAVE_UP, TERMINAL, Status
from timeball.ports.store.queries import RunFilter
from timeball.stores.sql.dialect import Query
from timeball.stores.sql.names import resolve
from timeball.stores.sql.rows.values import plain
from timeball.stores.sql.statements import literals, query

_DUE_AT: Final = "COALESCE(r.due_at, r.fire_time)"
_SHOWN_AS: Final = {
    Status.SCHEDULED: resolve(
        f"({_DUE_AT} > {{now}} OR (r.state = {{state.ready}} AND r.attempt = 0 AND r.eligible_at > {{now}}))"
    ),
    Status.BLOCKED: resolve(f"(r.state = {{state.blocked}} AND {_DUE_AT} <= {{now}})"),
    Status.QUEUED: resolve("(r.state = {state.ready} AND r.attempt = 0 AND r.eligible_at <= {now})"),
    Status.RUNNING: resolve(f"(r.state = {{state.running}} AND {_DUE_AT} <= {{now}})"),
    Status.RETRYING: resolve("(r.state = {state.ready} AND r.attempt > 0)"),
}
"""For each live status: the SQL condition on rows that `lifecycle.status` shows with this status."""

_STATES: Final = {
    State.READY: (
        resolve("r.state = {state.ready} AND r.state <> {state.running}"),
        {Status.SCHEDULED, Status.QUEUED, Status.RETRYING},
    ),
    State.BLOCKED: (
        resolve("r.state = {state.blocked} AND r.state <> {state.running}"),
        {Status.SCHEDULED, Status.BLOCKED},
    ),
    State.RUNNING: (resolve("r.state = {state.running} AND r.session > ''"), {Status.SCHEDULED, Status.RUNNING}),
}
"""For each stored state: the SQL condition, and the statuses with which such runs may be shown. The words `r.state <>
running` let the database use the partial index of waiting runs, which excludes running ones. Running runs are found by
the partial index on their session: there is at most one per slot, besides the live workflow runs."""

_NARROWED: Final = {
    "job_id": "r.job_id = :job_id",
    "user_id": "j.user_id = :user_id",
    "task_id": "j.task_id = :task_id",
    "tag": "EXISTS (SELECT 1 FROM job_tags t WHERE t.job_id = r.job_id AND t.tag = :tag)",
    "fingerprint": "r.fingerprint = :fingerprint",
    "no_fingerprint": f"r.fingerprint IS NULL AND r.status IN ({literals(sorted(GAVE_UP))})",
    "session": resolve("r.state = {state.running} AND r.session = :session"),
    "made_before": "r.id < :made_before",
}
"""The condition of each field of a filter, if the field is set."""

_OF_JOBS: Final = {
    "user_id": "j.user_id = :user_id AND j.user_id <> ''",
    "task_id": "j.task_id = :task_id",
    "tag": "EXISTS (SELECT 1 FROM job_tags t WHERE t.job_id = j.id AND t.tag = :tag)",
}
"""The SQL conditions of the filter fields that refer to the job of a run."""

_BETWEEN: Final = "(r.fire_time, r.id) > (:{0}_time, :{0}_id) AND (r.fire_time, r.id) < (:{1}_time, :{1}_id)"
_INSIDE: Final = _BETWEEN.format("after", "before")
_NOT_SUCCEEDED: Final = resolve("r.status <> {status.succeeded}")
_NOT_SCHEDULED: Final = resolve("r.origin <> {origin.schedule}")
_UNATTENDED: Final = ("r.retried_as IS NULL", "r.discarded_at IS NULL")
_REACHING: Final = "r.fires > 1 AND r.fire_until >= :fire_from"
_LENGTH: Final = f"CASE WHEN r.fire_until - r.fire_time < {DAY} THEN 0 ELSE 1 END"
_OUTSIDE_SHORT: Final = _BETWEEN.format("day", "from")
_OUTSIDE_LONG: Final = _BETWEEN.format("seen", "from")
SHORT: Final = f"{_LENGTH} = 0"
"""The condition for spans of less than a day, in the form that their index needs."""
LONG: Final = f"{_LENGTH} = 1"


class RunPosition(NamedTuple):
    """The position of a run in a list. Positions are unique and never change."""

    fire_time: Micros
    run_id: str


FIRST: Final = RunPosition(-1, "")
LAST: Final = RunPosition(10**18, "")


class Meaning(Protocol):
    """A function that returns the conditions of a filter. With `of_jobs`, conditions about jobs are left out because
    the caller selects the jobs."""

    def __call__(self, where: RunFilter, *, of_jobs: bool = False) -> tuple[str, ...]: ...


def parameters(where: RunFilter, after: RunPosition = FIRST, before: RunPosition = LAST) -> dict[str, Any]:
    """Return the parameters of the conditions of a filter, for runs between two positions. The times of the filter
    become positions too: of two bounds on the same side SQLite would use only one, possibly the weaker one."""
    found: dict[str, Any] = {"tenant": where.tenant, "fire_from": where.fire_from}
    for field in _NARROWED:
        if (value := getattr(where, field, None)) is not None:
            found[field] = plain(value)
    begin = FIRST if where.fire_from is None else RunPosition(where.fire_from, "")
    last = end(where, before)
    places = {"after": max(after, begin), "before": last, "seen": after}
    places |= {"from": min(last, begin), "day": max(after, RunPosition(begin.fire_time - DAY, ""))}
    for name, place in places.items():
        found[f"{name}_time"], found[f"{name}_id"] = place
    return found


def end(where: RunFilter, before: RunPosition) -> RunPosition:
    """Return the position that ends the range: `before`, or the end of the filter's time if that is earlier."""
    return before if where.fire_until is None else min(before, RunPosition(where.fire_until, ""))


def live(where: RunFilter, *, of_jobs: bool = False) -> tuple[str, ...]:
    """Return the SQL conditions of the filter on a live run `r` of a job `j`."""
    return _live(_statuses(where), where.origin, _given(where, of_jobs), of_jobs)


def finished(where: RunFilter, *, of_jobs: bool = False) -> tuple[str, ...]:
    """Return the SQL conditions of the filter on a finished run `r` of a job `j`. They exclude ledger spans that began
    before the time range of the filter: `reaching` finds those.
    """
    unattended = where.unattended or where.dead_letters
    return _finished(_statuses(where), where.origin, unattended, _given(where, of_jobs), of_jobs)


def reaching(where: RunFilter, *, of_jobs: bool = False) -> tuple[str, ...]:
    """Return the SQL conditions on ledger spans that began before the time range of the filter and have fires in it. A
    short span began less than a day before the range; long spans are rare.
    """
    if where.fire_from is None or (where.status and Status.SKIPPED not in where.status) or where.dead_letters:
        return ()
    if where.session is not None:
        return ()
    narrow = " AND ".join([*_narrow(_given(where, of_jobs), of_jobs), *_of_origin(where.origin), _REACHING])
    return f"{narrow} AND {SHORT} AND {_OUTSIDE_SHORT}", f"{narrow} AND {LONG} AND {_OUTSIDE_LONG}"


def jobs(where: RunFilter) -> str:
    """Return the join with `jobs` if the conditions use columns of the job, else an empty text."""
    return "JOIN jobs j ON j.id = r.job_id" if where.user_id is not None or where.task_id is not None else ""


def of_any_job(where: RunFilter) -> RunFilter:
    """Return the filter without the fields that refer to jobs."""
    return msgspec.structs.replace(where, user_id=None, task_id=None, tag=None)


def of_job(where: RunFilter) -> str:
    """Return the conditions of the filter on the job `j` of a run `r`."""
    return " AND ".join(_NARROWED[field] for field in _OF_JOBS if getattr(where, field) is not None)


def chosen_jobs(where: RunFilter) -> str:
    """Return a subquery for the ids of the matching jobs; empty if the filter has no field about jobs, or names one
    job."""
    given = [field for field in _OF_JOBS if getattr(where, field) is not None]
    if not given or where.job_id is not None:
        return ""
    if given == ["tag"]:
        return "SELECT t.job_id AS id FROM job_tags t WHERE t.tag = :tag"
    return f"SELECT j.id FROM jobs j WHERE j.tenant = :tenant AND {' AND '.join(_OF_JOBS[field] for field in given)}"


@lru_cache(maxsize=4_096)
def statement(name: str, **parts: str) -> Query:
    """Return a statement with the conditions of a filter inserted. Statements are cached, so that each is compiled
    once.
    """
    return query(name, **parts)


def _statuses(where: RunFilter) -> frozenset[Status]:
    if where.dead_letters:
        return frozenset({Status.DEAD})
    if where.fingerprint == NO_FINGERPRINT:  # only runs that gave up are meant; the index on their statuses finds them
        return where.status.intersection(GAVE_UP) or where.status or frozenset(GAVE_UP)
    return where.status


def _given(where: RunFilter, of_jobs: bool) -> frozenset[str]:
    known = _OF_JOBS if of_jobs else ()
    given = frozenset(field for field in _NARROWED if field not in known and getattr(where, field, None) is not None)
    return given - {"fingerprint"} | {"no_fingerprint"} if where.fingerprint == NO_FINGERPRINT else given


@lru_cache(maxsize=4_096)
def _live(
    status: frozenset[Status], origin: frozenset[Origin], given: frozenset[str], of_jobs: bool
) -> tuple[str, ...]:
    shown = status - TERMINAL
    if (status and not shown) or given & {"fingerprint", "no_fingerprint"}:
        return ()
    narrow = [*_narrow(given, of_jobs), *_of_origin(origin), _INSIDE]
    if "job_id" in given or of_jobs:
        return (" AND ".join([*narrow, *_shown_as(shown)]),)
    return tuple(
        " AND ".join([*narrow, found_by, *_shown_as(shown & possible)])
        for state, (found_by, possible) in _STATES.items()
        if (not shown or shown & possible) and (state is State.RUNNING or "session" not in given)
    )


@lru_cache(maxsize=4_096)
def _finished(
    status: frozenset[Status], origin: frozenset[Origin], unattended: bool, given: frozenset[str], of_jobs: bool
) -> tuple[str, ...]:
    """Return the SQL conditions on finished runs, each for other runs; none if the filter selects only live runs. There
    is one for each status if the filter has statuses, and success is not among them; else one for each origin if it has
    origins, and the schedule is not among them; else one for all. A single condition for several rare values would
    search all runs, most of which succeeded and came from the schedule."""
    wanted = sorted(status & TERMINAL)
    if (status and not wanted) or "session" in given:
        return ()
    is_unhappy = bool(wanted) and Status.SUCCEEDED not in wanted
    is_unusual = bool(origin) and Origin.SCHEDULE not in origin
    statuses = [[each] for each in wanted] if is_unhappy else [wanted]
    origins = [frozenset({each}) for each in sorted(origin)] if is_unusual and not is_unhappy else [origin]
    return tuple(
        " AND ".join([*_narrow(given, of_jobs), *_of_origin(some), *_with_status(each, unattended), _INSIDE])
        for each in statuses
        for some in origins
    )


def _narrow(given: Iterable[str], of_jobs: bool) -> list[str]:
    """Return the SQL conditions on the tenant and on the fields of the filter. If the filter names a job, the
    conditions make the database use the index on the job, not the one on the tenant.
    """
    tenant = "{unindexed_text r.tenant}" if of_jobs or "job_id" in given else "r.tenant"
    return [f"{tenant} = :tenant", *(condition for field, condition in _NARROWED.items() if field in given)]


def _shown_as(status: Iterable[Status]) -> list[str]:
    shown = [_SHOWN_AS[each] for each in sorted(status)]
    return [f"({' OR '.join(shown)})"] if shown else []


def _with_status(wanted: list[Status], unattended: bool) -> list[str]:
    conditions = [_one_of("r.status", [each.value for each in wanted])] if wanted else []
    if unattended:
        conditions += _UNATTENDED
    if wanted and Status.SUCCEEDED not in wanted and not (unattended and wanted == [Status.DEAD]):
        conditions.append(_NOT_SUCCEEDED)  # as in the partial index; that of dead letters has no such condition
    return conditions


def _of_origin(origin: frozenset[Origin]) -> list[str]:
    if not origin:
        return []
    wanted = [_one_of("r.origin", sorted(each.value for each in origin))]
    return wanted if Origin.SCHEDULE in origin else [*wanted, _NOT_SCHEDULED]  # as in the partial index


def _one_of(column: str, values: list[str]) -> str:
    if len(values) == 1:
        return f"{column} = '{values[0]}'"
    return f"{column} IN ({', '.join(repr(value) for value in values)})"
