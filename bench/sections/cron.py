"""Measures the speed of the cron engine: fires per second in a stream, and the time of a single `next_fire`."""

from __future__ import annotations

import itertools
import time

from bench.measurements import Figure, Findings
from bench.recorder import Recorder, Scale
from timeball.domain.schedule import cron, zone
from timeball.domain.schedule.fires import DstGap

AFTER = 1_750_000_000_000_000  # 15 June 2025
MINUTE = 60_000_000

# Expression, time zone, number of fires, and the promised rate (0: no promise).
STREAMS = [
    ("*/5 * * * *", "UTC", 1_000_000, 50_000),
    ("*/5 * * * *", "America/New_York", 1_000_000, 0),
    ("* * * * * *", "Europe/Berlin", 1_000_000, 0),
    ("30 2 * * *", "America/New_York", 100_000, 20_000),
    ("0 9 LW * *", "Europe/Berlin", 20_000, 0),
]
SINGLES: list[tuple[str, str, DstGap]] = [
    ("*/5 * * * *", "UTC", "run"),
    ("30 2 * * *", "America/New_York", "run"),
    ("0 9 ? * MON#2", "Europe/Berlin", "run"),
    ("0 0 29 2 *", "UTC", "run"),
    ("0 0 29 2 */7", "America/New_York", "run"),
    # In the gap of every year, and skipped: the engine must search 400 years to know that it never fires.
    ("30 2 8-14 3 */7", "America/New_York", "skip"),
]
SINGLE_PROMISE = 10_000


def stream_rate(expression: str, name: str, count: int) -> float:
    stream = itertools.islice(cron.fires(cron.parse(expression), zone.get(name), AFTER), count)
    started = time.perf_counter()
    found = sum(1 for _ in stream)
    return found / (time.perf_counter() - started)


def single_micros(expression: str, name: str, dst_gap: DstGap, calls: int = 50) -> float:
    parsed, there = cron.parse(expression), zone.get(name)
    started = time.perf_counter()
    for call in range(calls):
        cron.next_fire(parsed, there, AFTER + call * 7 * MINUTE, dst_gap=dst_gap)
    return (time.perf_counter() - started) / calls * 1e6


def run(scale: Scale) -> Findings:
    notebook = Recorder("cron", "The cron engine")
    repeats, part = scale.times(5), scale.pick(1, 10)
    configuration = {"tzdata": zone.version(), "threads": 1, "repeats": repeats}
    with notebook.table("A stream of fires: fires/s", **configuration) as streams:
        for expression, name, count, promise in STREAMS:
            rates = [stream_rate(expression, name, count // part) for _ in notebook.takes(repeats)]
            labels = {"expression": expression, "zone": name, "fires": f"{count // part:,}"}
            streams.row(labels, {"fires/s": Figure(values=rates, least=promise or None)})
    with notebook.table("One next fire: µs", **configuration) as singles:
        for expression, name, dst_gap in SINGLES:
            times = [single_micros(expression, name, dst_gap) for _ in notebook.takes(repeats)]
            labels = {"expression": expression, "zone": name, "dstGap": dst_gap}
            singles.row(labels, {"µs": Figure(values=times, most=SINGLE_PROMISE)})
    return notebook.findings()
