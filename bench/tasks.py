"""What the benchmarks' workers execute."""

import mmap
import os
import time

import timeball

_witness = os.open(os.environ.get("TIMEBALL_BENCH_WITNESS", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def _counter() -> memoryview:
    """One number that the benchmark reads while the worker counts: a look at it costs neither of them anything."""
    if (path := os.environ.get("TIMEBALL_BENCH_EXECUTED")) is None:
        return memoryview(bytearray(8)).cast("Q")
    with open(path, "r+b") as file:
        return memoryview(mmap.mmap(file.fileno(), 8)).cast("Q")


_executed = _counter()


@timeball.task("bench.noop")
async def noop() -> None:
    """Nothing but being counted: what is measured is everything around it."""
    _executed[0] += 1


@timeball.task("bench.fail")
async def fail() -> None:
    _executed[0] += 1
    raise RuntimeError("this job always fails")


@timeball.task("bench.mark")
async def mark(due: int, priority: int, ctx: timeball.Context) -> None:
    """Write down when it was due and when it started, in microseconds, and who it is."""
    started = time.time_ns() // 1_000
    os.write(_witness, b"%d %d %d %s\n" % (due, started, priority, ctx.run_id.encode()))
    _executed[0] += 1
