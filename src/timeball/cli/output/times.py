"""Times in the formats that users write and read."""

from __future__ import annotations

from datetime import datetime

from timeball.domain import duration, instant
from timeball.domain.errors import Invalid
from timeball.domain.instant import SECOND, Micros
from timeball.domain.text import english


def when(text: str, now: Micros, *, past: bool = False) -> str:
    """Convert `2026-03-01T02:00:00Z`, `2026-03-01` (midnight UTC), `now`, or a length of time such as `15m` to RFC
    3339.

    A length of time is added to now. With `past` or a minus sign, it is subtracted from now.
    """
    text = text.strip()
    if text == "now":
        return instant.render(now)
    if len(text) == 10 and text[4:8:3] == "--":
        return instant.render(instant.parse(f"{text}T00:00:00Z"))
    try:
        distance = duration.parse(text.lstrip("+-"))
    except Invalid:
        return instant.render(instant.parse(text))
    back = text.startswith("-") or (past and not text.startswith("+"))
    return instant.render(now - distance if back else now + distance)


def relative(moment: datetime, now: Micros) -> str:
    """Return the distance of a time from now: `in 12 s`, `3 min ago`, `now`."""
    ahead = instant.of(moment) - now
    size = abs(ahead)
    if size < SECOND:
        return "now"
    length = english.about(size)
    return f"in {length}" if ahead > 0 else f"{length} ago"


def milliseconds(length: float) -> str:
    """Return a duration: `3.574 ms`, `12.8 s`."""
    return f"{length:g} ms" if length < 1_000 else f"{length / 1_000:,.1f} s"


def exact(moment: datetime) -> str:
    return instant.render(instant.of(moment))
