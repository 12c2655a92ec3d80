"""Durations in text form: `"15m"`, `"1h30m"`, `"500ms"`, or a whole number of seconds."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from timeball.domain.errors import Invalid
from timeball.domain.instant import DAY, HOUR, MILLISECOND, MINUTE, SECOND, Micros

Duration = str | int

_UNITS: Final = {"d": DAY, "h": HOUR, "m": MINUTE, "s": SECOND, "ms": MILLISECOND}
_PART = re.compile(r"(\d{1,12})(ms|d|h|m|s)", re.ASCII)
_WHOLE = re.compile(r"(?:\d{1,12}(?:ms|d|h|m|s))+", re.ASCII)
MAX_DURATION: Final = 366 * 100 * DAY
MAX_TEXT_LENGTH: Final = 100
"""Maximum number of characters of a duration. Parsed durations are cached, so their size is limited."""


@lru_cache(maxsize=4096)
def parse(value: Duration, *, shortest: Micros = 0, longest: Micros = MAX_DURATION) -> Micros:
    """Return the microseconds of a duration. Raise `Invalid` if it cannot be parsed or is out of range."""
    if isinstance(value, str) and len(value) > MAX_TEXT_LENGTH:
        raise Invalid(f"{value[:20]!r}... is not a duration; a duration has at most {MAX_TEXT_LENGTH} characters")
    if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
        length = sum(int(count) * _UNITS[unit] for count, unit in _PART.findall(value))
    elif isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
        length = int(value) * SECOND
    elif isinstance(value, int) and not isinstance(value, bool):
        length = value * SECOND
    else:
        raise Invalid(f'{value!r} is not a duration; write "90s", "15m", "1h30m" or a whole number of seconds')
    if length < shortest:
        raise Invalid(f"{value!r} is too short; the shortest allowed is {render(shortest)}")
    if length > longest:
        raise Invalid(f"{value!r} is too long; the longest allowed is {render(longest)}")
    return length


def render(length: Micros) -> str:
    """Return the text of a duration in the largest units: `1h30m`, `1m30s` for 90 seconds, `0s` for zero. Fractions of
    a millisecond are dropped."""
    parts: list[str] = []
    for unit in ("d", "h", "m", "s", "ms"):
        count, length = divmod(length, _UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
