"""Put a calendar: from the acknowledgement on no fire follows the old one."""

from __future__ import annotations

from timeball.domain.calendar import Calendar, Closures, NamedCalendar
from timeball.domain.errors import Invalid
from timeball.operation.context import Context
from timeball.ports.hints import Topic


async def put_calendar(context: Context, tenant: str, name: str, calendar: Calendar) -> NamedCalendar:
    """Create or replace it. What the old one let become a run for an instant that has not come is withdrawn with it;
    what a worker already holds for such an instant, at most 250 ms away, is waited for."""
    new = NamedCalendar(tenant=tenant, name=name, calendar=calendar, version=1, updated_at=context.store.now())
    if Closures([new]).never_open:
        raise Invalid("this calendar is never open: its windows follow each other without a break", "/entries")
    put = await context.store.put_calendar(new)
    context.hints.give(Topic.PLAN)
    while put.held_until is not None and (left := put.held_until - context.store.now()) >= 0:
        await context.clock.sleep(max(1, left))
    return put.calendar
