"""What the benchmarks' workers execute."""

import os
import time

import timeball

_witness = os.open(os.environ.get("TIMEBALL_BENCH_WITNESS", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


@timeball.task("bench.noop")
async def noop() -> None:
    """Nothing: what is measured is everything around it."""


@timeball.task("bench.mark")
async def mark(due: int) -> None:
    """Write down when it was due and when it started, in microseconds."""
    started = time.time_ns() // 1_000
    os.write(_witness, b"%d %d\n" % (due, started))
