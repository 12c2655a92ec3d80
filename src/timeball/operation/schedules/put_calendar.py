"""Create or replace a calendar. After the acknowledgement no fire follows the old version."""

from __future__ import annotations

from typing import Final

from timeball.domain.errors import Invalid
from timeball.domain.schedule import calendar_limits
from timeball.domain.schedule.calendar import Calendar, NamedCalendar
from timeball.operation.context import OperationContext
from timeball.operation.schedules.closed_times import compiled, is_never_open
from timeball.ports.wakeups import Topic
from timeball.slices import wait_for_slice

SLICE_ENTRIES: Final = 20
"""Number of entries that are checked in one slice. An entry has up to 1,000 dates, which take 2 milliseconds."""


async def put_calendar(context: OperationContext, tenant: str, name: str, calendar: Calendar) -> NamedCalendar:
    """Create or replace a calendar. Runs of future fires that were planned with the old version are deleted with it. If
    a worker already holds a run for such a fire, which is at most 250 ms away, this waits for that fire."""
    for at, _ in enumerate(calendar_limits.check(calendar)):
        if at % SLICE_ENTRIES == 0:
            await wait_for_slice()
    new = NamedCalendar(tenant=tenant, name=name, calendar=calendar, version=1, updated_at=context.store.now())
    if await is_never_open(await compiled([new])):
        raise Invalid("this calendar is never open: its windows follow each other without a break", "/entries")
    put = await context.store.put_calendar(new)
    context.wakeups.wake(Topic.PLAN)
    while put.held_until is not None and (left := put.held_until - context.store.now()) >= 0:
        await context.clock.sleep(max(1, left))
    return put.calendar
