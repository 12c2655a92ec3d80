"""Attempts from a witness file. The tasks of `tests.acceptance.order_tasks` write a line at each start and end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec


class Attempt(msgspec.Struct):
    """One attempt as the witness recorded it. Times are in nanoseconds of the monotonic clock, which all processes
    share.
    """

    group: str
    run: str
    number: int
    fire: str
    pid: int
    start: int
    end: int | None = None
    how: str = "interrupted"

    @property
    def until(self) -> int:
        assert self.end is not None
        return self.end


def attempts(file: Path) -> list[Attempt]:
    """Return the attempts in the order of their starts."""
    seen: dict[tuple[str, str], Attempt] = {}
    for line in file.read_text().splitlines() if file.exists() else []:
        what, group, run, number, fire, pid, at = line.split()
        if what == "start":
            assert (run, number) not in seen, "an attempt starts once"
            seen[run, number] = Attempt(group, run, int(number), fire, int(pid), int(at))
        else:
            seen[run, number].end, seen[run, number].how = int(at), what
    return list(seen.values())


def ended(seen: list[Attempt], gone: Mapping[int, int]) -> list[Attempt]:
    """Set the end of interrupted attempts to the moment at which their process ended. `gone` has that moment by process
    id.
    """
    for each in seen:
        if each.end is None:
            each.end = gone[each.pid]
    return seen
