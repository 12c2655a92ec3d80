"""How late do one-shots start: 1,000 spread over 10 s, and 1,000 due at one instant."""

from __future__ import annotations

import argparse
import datetime as dt
import time

from bench import machine
from bench.figures import median, percentile
from bench.house import STORES, House, house
from bench.probe import timer_and_fsync

JOBS = 1_000
SPREAD = 10.0
LEAD = 2.0
"""Seconds between the submission and the first due moment."""


def run(repeats: int = 5, slots: int = 64) -> bool:
    """Prints the table; whether nothing was early and the spread jobs kept within the probe's p99 + 50 ms."""
    print(f"\nStart lateness of {JOBS:,} one-shots in ms, median of {repeats} runs, {slots} slots")
    print(machine.described())
    print(f"{'':34}{'p50':>9}{'p99':>9}{'max':>9}{'early':>8}")
    spread = [index * SPREAD / JOBS for index in range(JOBS)]
    good = True
    for store in STORES:
        with house(store, "in process", slots) as running:
            probes: list[list[float]] = []
            for label, offsets in (("spread over 10 s", spread), ("at one instant", [0.0] * JOBS)):
                runs: list[list[float]] = []
                for _ in range(repeats):
                    if label.startswith("spread"):
                        probes.append(timer_and_fsync(offsets))
                    runs.append(_measure(running, offsets))
                early = sum(late < 0 for values in runs for late in values)
                _row(f"{store}, {label}", runs, early)
                good &= early == 0
                if label.startswith("spread"):
                    _row("  bare timer + fsync beside it", probes, 0)
                    good &= _p99(runs) <= _p99(probes) + 50
    print("none early, spread p99 within the probe's + 50 ms" if good else "MISSED: see the rows above")
    return good


def _measure(running: House, offsets: list[float]) -> list[float]:
    """Lateness in ms of jobs due at these offsets, as the jobs themselves wrote it down."""
    running.witness.write_bytes(b"")
    base = time.time() + LEAD
    jobs = []
    for offset in offsets:
        due = int((base + offset) * 1_000_000)
        moment = dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(microseconds=due)
        jobs.append(
            {
                "task": {"kind": "python", "function": "bench.mark"},
                "parameters": {"due": due},
                "schedule": {"type": "date", "expression": moment.isoformat()},
            }
        )
    with running.client() as client:
        answer = client.post("/v1/jobs:batch", json=jobs)
        answer.raise_for_status()
        assert all("jobId" in item for item in answer.json()["items"])
    deadline = base + offsets[-1] + 60
    while len(lines := running.witness.read_bytes().splitlines()) < len(offsets):
        if time.time() > deadline:
            raise SystemExit(f"only {len(lines)} of {len(offsets)} jobs started")
        time.sleep(0.1)
    pairs = [tuple(map(int, line.split())) for line in lines]
    assert len(pairs) == len(offsets), "each job starts exactly once"
    return [(started - due) / 1_000 for due, started in pairs]


def _p99(runs: list[list[float]]) -> float:
    return median(percentile(values, 0.99) for values in runs)


def _row(label: str, runs: list[list[float]], early: int) -> None:
    p50 = median(percentile(values, 0.5) for values in runs)
    most = median(max(values) for values in runs)
    print(f"{label:34}{p50:9.1f}{_p99(runs):9.1f}{most:9.1f}{early:8}")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--repeats", type=int, default=5)
    raise SystemExit(0 if run(arguments.parse_args().repeats) else 1)
