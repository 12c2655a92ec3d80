"""Check a calendar before it is stored or previewed."""

from __future__ import annotations

from typing import Final

from timeball.domain.errors import Invalid
from timeball.domain.schedule import calendar_limits
from timeball.domain.schedule.calendar import Calendar, NamedCalendar
from timeball.operation.context import OperationContext
from timeball.operation.schedules.closed_times import compiled, is_never_open
from timeball.slices import wait_for_slice

SLICE_ENTRIES: Final = 20
"""Number of entries that are checked in one slice. An entry has up to 1,000 dates, which take 2 milliseconds."""


async def check_calendar(context: OperationContext, tenant: str, name: str, calendar: Calendar) -> NamedCalendar:
    """Return the calendar as it would be stored. Raise `Invalid` if an entry cannot be parsed, if the calendar exceeds
    a limit, or if it is never open."""
    for at, _ in enumerate(calendar_limits.check(calendar)):
        if at % SLICE_ENTRIES == 0:
            await wait_for_slice()
    new = NamedCalendar(tenant=tenant, name=name, calendar=calendar, version=1, updated_at=context.store.now())
    if await is_never_open(await compiled([new])):
        raise Invalid("this calendar is never open: its windows follow each other without a break", "/entries")
    return new
