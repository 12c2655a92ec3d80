"""Instants: the whole system represents time as an int, in microseconds since the epoch, UTC.

Every database compares, adds and stores integers in the same way. A microsecond is the finest unit: a time with finer
digits is rounded up, so that no run starts before the time that was given.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from timeball.domain.errors import Invalid

Micros = int

MILLISECOND: Final = 1_000
SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_IN_UTC = _EPOCH.replace(tzinfo=None)
_TICK = timedelta(microseconds=1)
# RFC 3339 with a mandatory offset. datetime.fromisoformat alone would also accept "2026-01-01" and naive times.
_RFC3339 = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d{1,6}(?P<finer>\d{1,3})?)?)?([Zz]|[+-]\d\d:?\d\d)", re.ASCII
)
MAX: Final = (datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH) // _TICK
_FIRST_SECOND: Final = (datetime(1, 1, 2, tzinfo=UTC) - _EPOCH) // timedelta(seconds=1)
_LAST_SECOND: Final = MAX // SECOND + 86_399
"""The first and the last second that `render` shows, in UTC. `_FIRST_SECOND` and `MAX`, the limits of `to_datetime`,
are one day inside the range of `datetime`, so that its results can be shown in every zone."""


def of(moment: datetime) -> Micros:
    """Return the instant of an aware datetime."""
    return (moment - _EPOCH) // _TICK


def to_datetime(instant: Micros) -> datetime:
    """Return the datetime of an instant, in UTC. Instants before `_FIRST_SECOND` or after `MAX` become that limit."""
    return _EPOCH + timedelta(microseconds=max(_FIRST_SECOND * SECOND, min(MAX, instant)))


def parse(text: str, pointer: str = "") -> Micros:
    """Parse an RFC 3339 time. The offset is mandatory, because a time without one does not define an instant."""
    written = _RFC3339.fullmatch(text)
    if written is None:
        raise Invalid(
            f"{text!r} is not a time; write it like 2026-03-01T02:00:00Z or 2026-03-01T02:00:00+01:00", pointer
        )
    try:
        moment = of(datetime.fromisoformat(text.upper()))
    except (ValueError, OverflowError) as error:
        raise Invalid(f"{text!r} is not a time: {error}", pointer) from None
    if (written["finer"] or "").strip("0"):  # `fromisoformat` cuts these digits off
        moment += 1
    if not 0 <= moment <= MAX:
        raise Invalid(f"{text!r} is outside the years 1970 to 9999", pointer)
    return moment


def render(instant: Micros) -> str:
    """Return the instant as RFC 3339 in UTC, with no fraction, milliseconds or microseconds, whichever is the shortest
    exact form. An instant before `_FIRST_SECOND` or after `_LAST_SECOND` is shown in that second, so that rendering
    never fails."""
    second, fraction = divmod(instant, SECOND)
    if fraction == 0:
        return f"{_rendered(second)}Z"
    if fraction % MILLISECOND == 0:
        return f"{_rendered(second)}.{fraction // MILLISECOND:03d}Z"
    return f"{_rendered(second)}.{fraction:06d}Z"


@lru_cache(maxsize=1_024)
def _rendered(second: int) -> str:
    """Return a second as RFC 3339 without `Z`. The results are cached, because many fields have the same instant: a job
    that is submitted now was created now and fires now."""
    second = max(_FIRST_SECOND, min(_LAST_SECOND, second))
    return (_EPOCH_IN_UTC + timedelta(seconds=second)).isoformat()
