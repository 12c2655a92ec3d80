"""`timeball …` with a wall clock that a test sets: `python -m tests.support.clocked FILE …`.

The file holds how far the wall clock is off, in microseconds, as eight bytes. Timeball itself has no such switch: only
this program, which is not part of it, replaces the one function that reads the wall clock. The steady clock stays real.
"""

from __future__ import annotations

import mmap
import struct
import sys
from pathlib import Path

from timeball import system

_OFFSET = struct.Struct("<q")


class WallClock:
    """What a test holds in its hands."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.set(0)

    def set(self, offset: int) -> None:
        """Microseconds ahead of the machine's clock."""
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
