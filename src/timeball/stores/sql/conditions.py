"""What a filter of runs means in SQL: of live runs, and of finished ones."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import msgspec

from timeball.domain.ledger import Origin
from timeball.domain.lifecycle import TERMINAL, Status
from timeball.ports.store import RunFilter
from timeball.stores.sql.dialect import Query
from timeball.stores.sql.library import query
from timeball.stores.sql.rows import plain

_DUE_AT: Final = "COALESCE(r.due_at, r.fire_time)"
_SHOWN_AS: Final = {
    Status.SCHEDULED: f"({_DUE_AT} > {{now}} OR (r.state = 'ready' AND r.attempt = 0 AND r.eligible_at > {{now}}))",
    Status.BLOCKED: f"(r.state = 'blocked' AND {_DUE_AT} <= {{now}})",
    Status.QUEUED: "(r.state = 'ready' AND r.attempt = 0 AND r.eligible_at <= {now})",
    Status.RUNNING: f"(r.state = 'running' AND {_DUE_AT} <= {{now}})",
    Status.RETRYING: "(r.state = 'ready' AND r.attempt > 0)",
}
"""The rows that `lifecycle.status` shows as each live status."""

_NARROWED: Final = {
    "job_id": "r.job_id = :job_id",
    "fire_from": "{last} >= :fire_from",
    "fire_until": "r.fire_time < :fire_until",
    "user_id": "j.user_id = :user_id",
    "task_id": "j.task_id = :task_id",
    "tag": "EXISTS (SELECT 1 FROM job_tags t WHERE t.job_id = r.job_id AND t.tag = :tag)",
    "fingerprint": "r.fingerprint = :fingerprint",
    "made_before": "r.id < :made_before",
}
"""What each field of a filter says, if it is given. `{last}` is the last instant that a row stands for."""

_UNATTENDED: Final = ("r.retried_as IS NULL", "r.discarded_at IS NULL")


def parameters(where: RunFilter) -> dict[str, Any]:
    """The values that the conditions of a filter ask for."""
    found: dict[str, Any] = {"tenant": where.tenant}
    for field in _NARROWED:
        if (value := getattr(where, field)) is not None:
            found[field] = plain(value) if isinstance(value, str) else value
    return found


def live(where: RunFilter) -> str | None:
    """The condition on a live run `r` of a job `j`; None: none can be meant."""
    return _live(_statuses(where), where.origin, frozenset(parameters(where)))


def finished(where: RunFilter) -> str | None:
    """The condition on a finished run `r` of a job `j`; None: none can be meant."""
    unattended = where.unattended or where.dead_letters
    return _finished(_statuses(where), where.origin, unattended, frozenset(parameters(where)))


def finished_apart(where: RunFilter) -> list[str]:
    """The same as conditions of which each run meets one at most, and each of which an index knows in the order of ids.
    Several unhappy statuses at once would be looked for among all runs, most of which are happy."""
    statuses = _statuses(where) & TERMINAL
    apart = [where]
    if len(statuses) > 1 and Status.SUCCEEDED not in statuses:
        apart = [msgspec.structs.replace(where, status=frozenset({status})) for status in sorted(statuses)]
    return [condition for each in apart if (condition := finished(each)) is not None]


def jobs(where: RunFilter) -> str:
    """How the jobs come in, if the conditions ask for anything of them."""
    return "JOIN jobs j ON j.id = r.job_id" if where.user_id is not None or where.task_id is not None else ""


@lru_cache(maxsize=4_096)
def statement(name: str, **parts: str) -> Query:
    """A statement with such conditions in it. The same one each time, so that it is compiled once."""
    return query(name, **parts)


def _statuses(where: RunFilter) -> frozenset[Status]:
    return frozenset({Status.DEAD}) if where.dead_letters else where.status


@lru_cache(maxsize=4_096)
def _live(status: frozenset[Status], origin: frozenset[Origin], given: frozenset[str]) -> str | None:
    shown = sorted(status - TERMINAL)
    if (status and not shown) or "fingerprint" in given:
        return None
    conditions = _narrow(given, "r.fire_time") + _of_origin(origin)
    if shown:
        conditions.append(f"({' OR '.join(_SHOWN_AS[each] for each in shown)})")
    return " AND ".join(conditions)


@lru_cache(maxsize=4_096)
def _finished(
    status: frozenset[Status], origin: frozenset[Origin], unattended: bool, given: frozenset[str]
) -> str | None:
    wanted = sorted(status & TERMINAL)
    if status and not wanted:
        return None
    conditions = _narrow(given, "r.fire_until") + _of_origin(origin)
    if wanted:
        conditions.append(_one_of("r.status", [each.value for each in wanted]))
    if unattended:
        conditions += _UNATTENDED
    if wanted and Status.SUCCEEDED not in wanted and not (unattended and wanted == [Status.DEAD]):
        conditions.append("r.status <> 'succeeded'")  # as the index says; dead letters have one of their own
    return " AND ".join(conditions)


def _narrow(given: frozenset[str], last: str) -> list[str]:
    narrow = [condition.replace("{last}", last) for field, condition in _NARROWED.items() if field in given]
    return ["r.tenant = :tenant", *narrow]


def _of_origin(origin: frozenset[Origin]) -> list[str]:
    if not origin:
        return []
    wanted = [_one_of("r.origin", sorted(each.value for each in origin))]
    return wanted if Origin.SCHEDULE in origin else [*wanted, "r.origin <> 'schedule'"]  # as the index says


def _one_of(column: str, values: list[str]) -> str:
    if len(values) == 1:
        return f"{column} = '{values[0]}'"
    return f"{column} IN ({', '.join(repr(value) for value in values)})"
