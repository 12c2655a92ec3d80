"""English texts for numbers, lists, durations and instants, and helpers that analyse lists of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from timeball.domain.instant import DAY, HOUR, MILLISECOND, MINUTE, SECOND, Micros, render

_UNITS: Final = (
    (DAY, "day"),
    (HOUR, "hour"),
    (MINUTE, "minute"),
    (SECOND, "second"),
    (MILLISECOND, "millisecond"),
    (1, "microsecond"),
)
_SHORT: Final = ((365 * DAY, "y"), (DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s"))


def listed(words: Sequence[str], last: str = "and") -> str:
    """Return `a`, `a and b` or `a, b and c`; an empty string for an empty list."""
    limit, final = ", ".join(words[:-1]), "".join(words[-1:])
    return f"{limit} {last} {final}" if limit else final


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def ordinal(number: int) -> str:
    """Return `1st`, `2nd`, `11th`."""
    teen = number // 10 % 10 == 1
    return f"{number}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def length(time: Micros) -> str:
    """Return an exact duration, such as `2 days` or `1 hour and 30 minutes`."""
    parts = []
    for size, noun in _UNITS:
        count, time = divmod(time, size)
        if count:
            parts.append(counted(count, noun))
    return listed(parts or ["0 seconds"])


def about(time: Micros) -> str:
    """Return an approximate duration: `12 s`, `3 min`, `5 h`, `2 d`. Below ten, the next smaller unit follows."""
    for index, (unit, name) in enumerate(_SHORT):
        count, rest = divmod(time, unit)
        if not count:
            continue
        if count < 10 and index + 1 < len(_SHORT) and rest >= _SHORT[index + 1][0]:
            smaller, smaller_name = _SHORT[index + 1]
            return f"{count} {name} {rest // smaller} {smaller_name}"
        return f"{count} {name}"
    return f"{time // MILLISECOND} ms"


def when(at: Micros, now: Micros) -> str:
    """Return `in 12 s` or `3 s ago`. An instant that is more than a minute away also has its time."""
    return _apart(at, now) if abs(at - now) <= MINUTE else moment(at, now)


def moment(at: Micros, now: Micros) -> str:
    """Return `2026-03-01T02:00:00Z (in 12 s)`, for use after `since` or `until`."""
    return f"{render(at - at % SECOND)} ({_apart(at, now)})"


def _apart(at: Micros, now: Micros) -> str:
    distance = abs(at - now)
    if distance < SECOND:
        return "now"
    return f"in {about(distance)}" if at > now else f"{about(distance)} ago"


def every(time: Micros) -> str:
    """Return `every hour` or `every 5 minutes`."""
    alone = next((noun for size, noun in _UNITS if size == time), None)
    return f"every {alone or length(time)}"


def values(mask: int) -> list[int]:
    """Return the numbers of the bits that are set."""
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def step_of(numbers: Sequence[int]) -> int:
    """Return the difference between adjacent numbers if it is always the same; 0 otherwise, and for a single number."""
    steps = {after - before for before, after in pairwise(numbers)}
    return steps.pop() if len(steps) == 1 else 0


def runs(numbers: Sequence[int]) -> list[str]:
    """Return texts for ascending numbers. Three or more consecutive numbers become one text: `1`, `5 to 9`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return [text for part in parts for text in _run(part)]


def _run(part: list[int]) -> list[str]:
    return [f"{part[0]} to {part[-1]}"] if len(part) > 2 else [str(number) for number in part]


def capitalised(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
