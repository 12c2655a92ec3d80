"""The next fires of a cron expression, computed without a server."""

from __future__ import annotations

from datetime import datetime, timedelta
from datetime import timezone as fixed_offset
from functools import cache
from itertools import islice

from timeball.domain import instant
from timeball.domain.errors import Invalid
from timeball.domain.instant import SECOND
from timeball.domain.schedule import cron, zone
from timeball.system import wall


def next_fires(expression: str, timezone: str = "UTC", after: datetime | None = None, count: int = 5) -> list[datetime]:
    """Return the next `count` fires of a cron expression after an instant (default: now), as aware datetimes.

    Each datetime has the offset of `timezone` at that instant, so that clock changes are visible. The list has fewer
    than `count` fires if the schedule ends before the year 9999. An invalid expression or an unknown time zone raises
    `Invalid` with the reason.

    >>> [str(fire) for fire in next_fires("0 2 * * *", "Europe/Berlin", datetime.fromisoformat("2026-10-24T12:00Z"), 2)]
    ['2026-10-25 02:00:00+02:00', '2026-10-26 02:00:00+01:00']
    """
    if after is not None and after.utcoffset() is None:
        raise Invalid(f"after={after.isoformat()} has no time zone; give an aware datetime, with tzinfo")
    if count < 0:
        raise Invalid(f"count={count} is negative; give 0 or more")
    where = zone.get(timezone)
    start = wall() if after is None else instant.of(after)
    fires = islice(cron.fires(cron.parse(expression), where, start), count)
    # The offset comes from the scheduler's own time zone data: the machine may have another release of it.
    return [datetime.fromtimestamp(fire // SECOND, _offset(where.offset_at(fire))) for fire in fires]


@cache
def _offset(seconds: int) -> fixed_offset:
    return fixed_offset(timedelta(seconds=seconds))
