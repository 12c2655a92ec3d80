"""Calendars: create, change and delete. A change plans the jobs that refer to the calendar again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from timeball.domain.audit_log.values import Values
from timeball.domain.errors import Conflict
from timeball.domain.schedule import calendar
from timeball.domain.schedule.calendar import NamedCalendar
from timeball.ports.store.paging import Page
from timeball.ports.store.registry import CalendarPut
from timeball.stores.sql.audit_log.recording import record
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.jobs.amend import LOCK_JOBS, withdraw
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.planning.plans import NOW, PLAN_NO_LATER
from timeball.stores.sql.registry.versions import require_version
from timeball.stores.sql.rows.unreadable import unread
from timeball.stores.sql.rows.values import plain
from timeball.stores.sql.statements import many, query

CALENDARS = query("calendars")
KEEP_CALENDAR = query("keep_calendar")
LIST_CALENDARS = query("list_calendars")
PUT_CALENDAR = query("put_calendar")
DELETE_CALENDAR = query("delete_calendar")
CALENDAR_USERS = query("calendar_users")
HELD_UNDER = query("held_under")
PLANNED_UNDER = many(query("planned_under"))
DEFERRED_UNDER = many(query("deferred_under"))
PUT_OFF_UNDER = many(query("put_off_under"))

MAX_USERS: Final = 1_000
"""Maximum number of jobs that are counted in the error when a calendar in use cannot be deleted."""
MAX_NAMED: Final = 3


class Calendars(StorePart):
    async def put_calendar(self, new: NamedCalendar, if_match: int | None = None) -> CalendarPut:
        key = {"tenant": new.tenant, "name": plain(new.name)}
        spec = calendar.encode(new.calendar).decode()

        async def work(tx: Tx) -> CalendarPut:
            known = await tx.fetch(KEEP_CALENDAR, **key)
            ((before, version, updated_at),) = known or ((None, 0, 0),)
            if before != spec:
                require_version("calendar", new.name, version, if_match)
                ((version, updated_at),) = await tx.fetch(PUT_CALENDAR, **key, spec=spec)
                await _plan_anew(tx, key)
                record(tx, "calendar", new.name, before=_values(before), after=_values(spec), size=len(spec))
            # Always read: this call may repeat one whose answer was lost.
            ((held_until,),) = await tx.fetch(HELD_UNDER, **key)
            found = _calendar((new.tenant, new.name, spec, version, updated_at))
            return CalendarPut(found, held_until=held_until)

        return await self._db.write(work)

    async def calendars(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], NamedCalendar]:
        async def work(tx: Tx) -> dict[tuple[str, str], NamedCalendar]:
            wanted = [(tenant, plain(name)) for tenant, name in dict.fromkeys(keys)]
            found = [_readable(row) for row in await tx.fetch(CALENDARS, b=wanted)]
            return {(each.tenant, each.name): each for each in found if each is not None}

        return await self._db.read(work) if keys else {}

    async def list_calendars(self, tenant: str, cursor: str | None, limit: int) -> Page[NamedCalendar]:
        async def work(tx: Tx) -> Page[NamedCalendar]:
            rows = await tx.fetch(LIST_CALENDARS, tenant=tenant, after=plain(cursor or ""), limit=limit + 1)
            found = [each for row in rows[:limit] if (each := _readable(row)) is not None]
            names = [name for _, name, *_ in rows]
            return Page(found, names[limit - 1] if len(rows) > limit else None)

        return await self._db.read(work, slow=True)

    async def delete_calendar(self, tenant: str, name: str) -> bool:
        key = {"tenant": tenant, "name": plain(name)}

        async def work(tx: Tx) -> bool:
            known = await tx.fetch(KEEP_CALENDAR, **key)
            if not known:
                return False
            if users := await tx.fetch(CALENDAR_USERS, **key, limit=MAX_USERS + 1):
                raise Conflict(f"calendar {name!r} is used by {_users(users)}; remove it from them first")
            deleted = bool(await tx.fetch(DELETE_CALENDAR, **key))
            if deleted:
                ((before, *_),) = known
                record(tx, "calendar", name, before=_values(before), size=len(before))
            return deleted

        return await self._db.write(work)


def _values(spec: str | None) -> Values | None:
    return None if spec is None else msgspec.json.decode(spec, type=dict[str, Any])


async def _plan_anew(tx: Tx, key: dict[str, str]) -> None:
    """Delete the runs that were planned with the old calendar and have not begun, and plan their jobs again. Jobs with
    a deferred fire, and jobs whose planning failed, are planned again, too. The calendar is locked, so no server plans
    with it at the same time."""
    planned = [job_id for (job_id,) in await tx.fetch(PLANNED_UNDER, **key)]
    sooner = {job_id for waiting in (DEFERRED_UNDER, PUT_OFF_UNDER) for (job_id,) in await tx.fetch(waiting, **key)}
    if concerned := sorted({*planned, *sooner}):
        await tx.fetch(LOCK_JOBS, b=concerned)
        ((now,),) = await tx.fetch(NOW)
        await withdraw(tx, planned, now)
        if sooner:
            await tx.execute(PLAN_NO_LATER, b=[(job_id, now) for job_id in sorted(sooner)])


def _users(users: Sequence[Row]) -> str:
    """Return the number of jobs and the names of some, for an error message."""
    named = [f"{job_id} ({name})" if name else str(job_id) for job_id, name in users[:MAX_NAMED]]
    count = f"more than {MAX_USERS:,}" if len(users) > MAX_USERS else f"{len(users):,}"
    some = f"{', '.join(named)}{', ...' if len(users) > MAX_NAMED else ''}"
    return f"{count} {'job' if len(users) == 1 else 'jobs'}: {some}"


def _readable(row: Row) -> NamedCalendar | None:
    """Return the calendar; None if this version cannot decode it. That is logged, and jobs with other calendars are not
    affected."""
    _, name, *_ = row
    try:
        return _calendar(row)
    except Exception as error:
        unread(f"calendar {name}", error)
        return None


def _calendar(row: Row) -> NamedCalendar:
    tenant, name, spec, version, updated_at = row
    return NamedCalendar(
        tenant=tenant, name=name, calendar=calendar.decode(spec), version=version, updated_at=updated_at
    )
