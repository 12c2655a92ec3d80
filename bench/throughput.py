"""Jobs per second for a burst, from the first request to the last durable result.

python -m bench.throughput [--jobs 20000] [--repeats 3]
"""

from __future__ import annotations

import argparse
import time

from bench import accounts, machine
from bench.feeding import BATCH, CONNECTIONS, submit
from bench.figures import median
from bench.house import STORES, WORKERS, House, house

JOBS = 20_000
SLOTS = 500


def run(jobs: int = JOBS, repeats: int = 3) -> bool:
    print(
        f"\nLife cycle of {jobs:,} no-op Python jobs, median of {repeats} runs ({machine.described()};"
        f" batches of {BATCH:,} over {CONNECTIONS} connections, {SLOTS} slots)"
    )
    print(f"{'store':14}{'worker':24}{'jobs/s':>10}   all runs")
    wrong: list[str] = []
    for store in STORES:
        for worker in WORKERS:
            with house(store, worker, SLOTS) as running:
                rates = [_measure(running, jobs) for _ in range(repeats)]
                wrong += accounts.differences(running)
            print(f"{store:14}{worker:24}{median(rates):10,.0f}   {' '.join(f'{rate:,.0f}' for rate in rates)}")
    print(f"MISSED: {'; '.join(wrong)}" if wrong else "history and ledger equal the submissions")
    return not wrong


def _measure(running: House, jobs: int) -> float:
    start = time.monotonic()
    submit(running, jobs)
    running.await_rest()
    return jobs / (time.monotonic() - start)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--jobs", type=int, default=JOBS)
    arguments.add_argument("--repeats", type=int, default=3)
    chosen = arguments.parse_args()
    raise SystemExit(0 if run(chosen.jobs, chosen.repeats) else 1)
