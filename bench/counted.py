"""Runs a command of `timeball` and counts the calls that all its threads make, of functions in Python and in C.

python -m bench.counted FILE up …

The number is in the first eight bytes of FILE, which the benchmark reads while the process runs. Calls per job do not
depend on the load of the machine, as a rate or CPU time does.
"""

from __future__ import annotations

import mmap
import runpy
import sys
import threading
from types import FrameType


def main() -> None:
    path = sys.argv.pop(1)
    with open(path, "r+b") as file:
        calls = memoryview(mmap.mmap(file.fileno(), 8)).cast("Q")

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        if event in ("call", "c_call"):
            calls[0] += 1

    threading.setprofile(count)
    sys.setprofile(count)
    runpy.run_module("timeball", run_name="__main__")


if __name__ == "__main__":
    main()
