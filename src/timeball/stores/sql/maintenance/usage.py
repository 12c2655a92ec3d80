"""Usage of tenants: what their runs used, from sums, and from the runs that are not in the sums yet.

Settling an attempt writes nothing about usage: all that counts is in the rows of the run. Maintenance adds finished
runs to the sums in the order of their ids, once they are 5 minutes old, and moves a mark; runs that are alive then are
pending until they have ended. So every run is after the mark, pending, or in the sums, and history is deleted only
where it is in the sums. The design note docs/design/usage.md has the reasons.
"""

from __future__ import annotations

import base64
import binascii
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, Final

import msgspec

from timeball.domain import ids
from timeball.domain.errors import Invalid
from timeball.domain.instant import Micros
from timeball.domain.usage import COUNT_DELAY, Amounts, Usage, UsageKey, resources_asked, total
from timeball.ports.store.maintenance import Lead
from timeball.ports.store.paging import Page
from timeball.ports.store.tenants import UsageFilter
from timeball.stores.sql.dialect import Query
from timeball.stores.sql.driver import Row, Tx, scalar
from timeball.stores.sql.maintenance.maintenance import check
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.rows.values import plain
from timeball.stores.sql.statements import query, text

MARK = query("usage_mark")
END_OF_STEP = query("end_of_usage_step")
MAKE_PENDING = query("make_usage_pending")
MOVE_MARK = query("move_usage_mark")
NOW_ENDED = query("usage_now_ended")
FORGET_PENDING = query("forget_pending_usage")
FORGET_LATER_PENDING = query("forget_later_pending_usage")
ADD = query("add_usage")
DROP_EMPTY = query("drop_empty_usage")


def _parts_of_range(condition: str) -> str:
    """Return SQL that selects the parts of usage of the finished runs whose ids meet a condition."""
    found = text("usage_parts_of_range")
    columns = {"history": "h.id", "attempts": "a.run_id", "logs": "l.run_id", "objects": "o.run_id"}
    for table, column in columns.items():
        found = found.replace(f"{{of_{table}}}", condition.replace("ID", column))
    return found


def _parts_of_each(found: str) -> str:
    """Return SQL that selects the parts of usage of the finished runs `h` of a join (`found`)."""
    return text("usage_parts_of_each").replace("{found}", found)


def _rows(parts: str, which: str = "true") -> str:
    return text("usage_rows").replace("{parts}", parts).replace("{which}", which)


_NOT_PENDING: Final = "NOT EXISTS (SELECT 1 FROM usage_pending q WHERE q.run_id = p.run_id)"
OF_RANGE = query("usage_to_count", rows=_rows(_parts_of_range("ID > :after AND ID <= :upto"), _NOT_PENDING))
OF_RUNS = query("usage_to_count", rows=_rows(_parts_of_each("{batch b: id text} {each_within history h: b.id}")))
_NOT_IN_SUMS: Final = _rows(
    "\nUNION ALL\n".join(
        [
            _parts_of_range("ID > COALESCE((SELECT m.upto FROM usage_marks m WHERE m.name = 'runs'), '')"),
            _parts_of_each("usage_pending q {each history h: q.run_id}"),
            text("usage_parts_of_live"),
        ]
    )
)

_COLUMNS: Final[dict[UsageKey, str]] = {"tenant": "tenant", "user": "user_id", "job": "job_id", "day": "day"}
_PRICED_BY: Final = ("tenant", "day", "cpu", "memory", "spec")
"""The columns by which rows are grouped in addition: prices belong to a tenant and a day."""
MAX_ROWS: Final = 5_000
"""Maximum number of rows of one statement."""
MAX_ROWS_OF_PAGE: Final = 10_000
"""A page ends with the group that exceeds this number of rows, even if it has fewer groups than were asked for."""
MAX_PENDING: Final = 1_000
"""Maximum number of pending runs that one step looks at."""
_FIRST: Final = ""
_PLACES: Final = tuple(f"after_{letter}" for letter in "abcdefghi")
"""Names of the parameters with the values of the row after which a page begins."""


class UsageSums(StorePart):
    _pending_after = _FIRST
    """The last pending run that maintenance looked at; empty if it begins again with the first."""

    async def usage(self, where: UsageFilter, cursor: str | None, limit: int) -> Page[Usage]:
        begin = () if cursor is None else _place(cursor, where.by)
        width = len(where.by)

        async def work(tx: Tx) -> Page[Usage]:
            rows: list[Row] = []
            last: tuple[Any, ...] = ()
            while True:
                more = await _fetch(tx, where, begin, last)
                rows += more
                groups = [(key, [*each]) for key, each in groupby(rows, lambda row: tuple(row[:width]))]
                if is_end := len(more) < MAX_ROWS:
                    break
                groups.pop()  # the rest of it may be missing
                if len(groups) >= limit or (groups and len(rows) >= MAX_ROWS_OF_PAGE):
                    break
                last = tuple(more[-1][: width + len(_PRICED_BY)])
            shown = groups[:limit]
            found = await tx.compute(lambda: [_usage(where, key, each) for key, each in shown])
            return Page(found, None if is_end and len(groups) <= limit else _cursor(shown[-1][0]))

        return await self._db.read(work, slow=True, may_lag=True)

    async def count_usage(self, lead: Lead, limit: int) -> bool:
        async def work(tx: Tx) -> tuple[bool, str]:
            await check(tx, lead)
            moved = await _count_range(tx, ids.first_run(max(0, now - COUNT_DELAY)), limit)
            pages_left, after = await _count_pending(tx, self._pending_after, now - COUNT_DELAY)
            return moved or pages_left, after

        now = self._db.now()
        is_more, self._pending_after = await self._db.write(work)
        return is_more

    async def usage_counted_until(self) -> Micros:
        async def work(tx: Tx) -> Micros:
            mark = scalar(await tx.fetch(MARK))
            return 0 if mark is None else ids.made_at(mark)

        return await self._db.read(work)


async def _count_range(tx: Tx, until: str, limit: int) -> bool:
    """Add the runs of the next step, which were created before `until`, to the sums. Return True if more are left."""
    after = scalar(await tx.fetch(MARK)) or _FIRST
    if after >= until:
        return False
    last = scalar(await tx.fetch(END_OF_STEP, after=after, until=until, size=limit))
    upto = until if last is None else last
    await tx.execute(MAKE_PENDING, after=after, upto=upto)
    await _add(tx, await tx.fetch(OF_RANGE, after=after, upto=upto))
    await tx.execute(MOVE_MARK, upto=upto)
    return last is not None


async def _count_pending(tx: Tx, after: str, before: Micros) -> tuple[bool, str]:
    """Add those of a page of pending runs to the sums that ended before an instant. Return True if there are more
    pages, and where the next one begins."""
    page = await tx.fetch(NOW_ENDED, after=after, before=before, size=MAX_PENDING)
    if over := [run_id for run_id, has_ended in page if has_ended]:
        await _add(tx, await tx.fetch(OF_RUNS, b=over))
        await tx.execute(FORGET_PENDING, b=over)
    return (True, page[-1][0]) if len(page) == MAX_PENDING else (False, _FIRST)


async def recount_after(tx: Tx, run_id: str) -> None:
    """Subtract runs with ids after `run_id` from the sums of usage, so that maintenance adds them again later. The
    clock was set back: new runs get ids in this range, which would never be added otherwise."""
    mark = scalar(await tx.fetch(MARK))
    if mark is None or mark <= run_id:
        return
    await _add(tx, await tx.fetch(OF_RANGE, after=run_id, upto=mark), sign=-1)
    await tx.execute(FORGET_LATER_PENDING, after=run_id)
    await tx.execute(MOVE_MARK, upto=run_id)
    await tx.execute(DROP_EMPTY)


async def _add(tx: Tx, rows: Iterable[Row], sign: int = 1) -> None:
    sums: dict[tuple[Any, ...], Counter[int]] = defaultdict(Counter)
    for *key, spec, runs, attempts, micros, size in rows:
        sums[(*key, *_resources(spec))].update(dict(enumerate((runs, attempts, micros, size))))
    batch = [(*key, *(sign * each[at] for at in range(4))) for key, each in sorted(sums.items())]
    if batch:
        await tx.execute(ADD, b=batch)


async def _fetch(tx: Tx, where: UsageFilter, begin: tuple[Any, ...], last: tuple[Any, ...]) -> list[Row]:
    """Return rows of usage in order: after the group `begin`, and after the row `last` of this request."""
    given: dict[str, Any] = dict(zip(_PLACES, last or begin, strict=False))
    given |= {name: value for name, value in (("user", where.user), ("job", where.job)) if value is not None}
    statement = _statement(tuple(where.by), len(last or begin), where.user is not None, where.job is not None)
    return await tx.fetch(
        statement, tenants=sorted(where.tenants), since=where.since, until=where.until, size=MAX_ROWS, **given
    )


@lru_cache(maxsize=64)
def _statement(by: tuple[UsageKey, ...], known: int, with_user: bool, with_job: bool) -> Query:
    keys = [_COLUMNS[key] for key in by]
    order = [*keys, *_PRICED_BY]
    conditions = ["g.user_id = :user"] * with_user + ["g.job_id = :job"] * with_job
    if known:
        columns = ", ".join(f"g.{column}" for column in order[:known])
        conditions.append(f"({columns}) > ({', '.join(f':{place}' for place in _PLACES[:known])})")
    # A column may occur twice: as a key, and among the rest.
    return query(
        "usage",
        keys=", ".join(f"g.{column}" for column in keys),
        where=" AND ".join(conditions) or "true",
        group=", ".join(f"g.{column}" for column in order),
        rows=_NOT_IN_SUMS,
    )


def _usage(where: UsageFilter, key: tuple[Any, ...], rows: Iterable[Row]) -> Usage:
    amounts: dict[tuple[str, Micros], Amounts] = defaultdict(Amounts)
    for row in rows:
        tenant, day, cpu, memory, spec, runs, attempts, micros, size = row[len(key) :]
        if spec:
            cpu, memory = _resources(spec)
        amounts[tenant, day] += Amounts.of(runs, attempts, micros, size, cpu, memory)
    cost = total(each.cost(where.tenants[tenant].on(day)) for (tenant, day), each in amounts.items())
    values: dict[UsageKey, Any] = dict(zip(where.by, key, strict=True))
    return Usage(
        tenant=values.get("tenant"),
        user=values.get("user"),
        job=values.get("job"),
        day=values.get("day"),
        amounts=_sum(amounts.values()),
        cost=cost,
    )


def _sum(amounts: Iterable[Amounts]) -> Amounts:
    found = Amounts()
    for each in amounts:
        found += each
    return found


@lru_cache(maxsize=256)
def _resources(spec: str) -> tuple[int, int]:
    return resources_asked(spec) if spec else (0, 0)


def _cursor(key: tuple[Any, ...]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(key)).decode().rstrip("=")


def _place(cursor: str, by: Sequence[UsageKey]) -> tuple[Any, ...]:
    """Return the key of the group in a cursor."""
    try:
        found = msgspec.json.decode(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)), type=list[str | int])
    except (binascii.Error, UnicodeError, ValueError):
        found = []
    if [type(value) for value in found] != [int if key == "day" else str for key in by]:
        raise Invalid(f"{cursor[:64]!r} is not a cursor of this list; use the last `nextCursor`")
    return tuple(plain(value) if isinstance(value, str) else min(max(value, 0), 1 << 62) for value in found)
