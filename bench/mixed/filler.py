"""Programs that use a part of the CPU, in the place of processes that are left out of a load.

python -m bench.mixed.filler 0.25

Uses a quarter of one core: it calculates for a part of each 10 ms, and sleeps for the rest.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Final

from bench.kinds.catalogue import CORES

PERIOD: Final = 0.010
"""Seconds."""
MIN_SHARE: Final = 0.005
"""A smaller part of a core is not worth a program."""


@contextlib.contextmanager
def filling(cores: float) -> Iterator[list[int]]:
    """Start one program for each core, which together use so much CPU. Yield their process ids."""
    share = min(cores / CORES, 1.0)
    command = [sys.executable, "-m", "bench.mixed.filler", f"{share:.4f}"]
    processes = [subprocess.Popen(command) for _ in range(CORES if share >= MIN_SHARE else 0)]
    try:
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


def fill(share: float) -> None:
    """Calculate for this share of the time, which is made up for where the program had to wait for a core."""
    began, spent = time.monotonic(), time.process_time()
    while True:
        while time.process_time() - spent < share * (time.monotonic() - began):
            pass
        time.sleep(PERIOD * (1 - share))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        fill(float(sys.argv[1]))
