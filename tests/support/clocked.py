"""`timeball …` with a wall clock that a test sets: `python -m tests.support.clocked FILE …`.

The file has the offset of the wall clock in microseconds, as eight bytes. Timeball itself has no such switch: only this
program, which is not part of it, replaces the one function that reads the wall clock. The monotonic clock stays real.
"""

from __future__ import annotations

import mmap
import struct
import sys
from pathlib import Path

from timeball import system

_OFFSET = struct.Struct("<q")


class WallClock:
    """The test's side of the clock: writes the offset into the file."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.set(0)

    def set(self, offset: int) -> None:
        """Set the wall clock this many microseconds ahead of the clock of the machine."""
        if not self.file.exists():
            self.file.write_bytes(bytes(_OFFSET.size))
        with self.file.open("r+b") as file:
            file.write(_OFFSET.pack(offset))


def _install(file: str) -> None:
    with open(file, "rb") as opened:
        offset = mmap.mmap(opened.fileno(), _OFFSET.size, access=mmap.ACCESS_READ)
    wall = system.wall
    system.wall = lambda: wall() + _OFFSET.unpack(offset[:])[0]


if __name__ == "__main__":
    _install(sys.argv.pop(1))
    from timeball.cli import main

    main()
