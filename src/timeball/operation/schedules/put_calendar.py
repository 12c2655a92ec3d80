"""Create or replace a calendar. When this operation has returned, no fire uses the old version."""

from __future__ import annotations

from timeball.domain.schedule.calendar import Calendar, NamedCalendar
from timeball.operation.context import OperationContext
from timeball.operation.schedules.check_calendar import check_calendar
from timeball.ports.wakeups import Topic


async def put_calendar(
    context: OperationContext, tenant: str, name: str, calendar: Calendar, *, if_match: int | None = None
) -> NamedCalendar:
    """Create or replace a calendar. Runs of future fires that were planned with the old version are deleted, too. If a
    worker already holds a run for such a fire, which is at most 250 ms away, this waits for that fire. Raises
    `PreconditionFailed` if the calendar has another version than `if_match`."""
    put = await context.store.put_calendar(await check_calendar(context, tenant, name, calendar), if_match)
    context.wakeups.wake(Topic.PLAN)
    while put.held_until is not None and (left := put.held_until - context.store.now()) >= 0:
        await context.clock.sleep(max(1, left))
    return put.calendar
