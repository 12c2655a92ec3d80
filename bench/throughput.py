"""Jobs per second for the whole way: submitted in batches → durable → executed → result durable."""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import time

from bench.figures import machine, median
from bench.house import KEY, STORES, WORKERS, House, house

JOBS = 20_000
BATCH = 1_000
CONNECTIONS = 2
SLOTS = 500

NOOP = {"task": {"kind": "python", "function": "bench.noop"}}
BODY = json.dumps([NOOP] * BATCH).encode()
HEADERS = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}


def run(jobs: int = JOBS, repeats: int = 3) -> bool:
    print(
        f"\nLife cycle of {jobs:,} no-op Python jobs, median of {repeats} runs ({machine()};"
        f" batches of {BATCH:,} over {CONNECTIONS} connections, {SLOTS} slots)"
    )
    print(f"{'store':14}{'worker':24}{'jobs/s':>10}   all runs")
    good = True
    for store in STORES:
        for worker in WORKERS:
            with house(store, worker, SLOTS) as running:
                rates = [_measure(running, jobs) for _ in range(repeats)]
                good &= _adds_up(running, jobs * repeats)
            print(f"{store:14}{worker:24}{median(rates):10,.0f}   {' '.join(f'{rate:,.0f}' for rate in rates)}")
    print("history and ledger equal the submissions" if good else "MISSED: history does not equal the submissions")
    return good


def _measure(running: House, jobs: int) -> float:
    before = running.count("SELECT count(*) FROM history")
    with concurrent.futures.ThreadPoolExecutor(CONNECTIONS) as pool, running.client() as client:
        start = time.monotonic()
        answers = [
            pool.submit(client.post, "/v1/jobs:batch", content=BODY, headers=HEADERS) for _ in range(jobs // BATCH)
        ]
        for answer in answers:
            answer.result().raise_for_status()
        deadline = start + 300
        while running.count("SELECT count(*) FROM history") < before + jobs:
            if time.monotonic() > deadline:
                raise SystemExit("the jobs did not end within 5 minutes")
            time.sleep(0.02)
        return jobs / (time.monotonic() - start)


def _adds_up(running: House, submitted: int) -> bool:
    """Counted in the database: nothing lost, nothing twice, nothing left."""
    return (
        running.count("SELECT count(*) FROM jobs") == submitted
        and running.count("SELECT count(*) FROM history WHERE status = 'succeeded'") == submitted
        and running.count("SELECT count(DISTINCT job_id) FROM history") == submitted
        and running.count("SELECT count(*) FROM history WHERE verdict IN ('on_time', 'late')") == submitted
        and running.count("SELECT count(*) FROM runs") == 0
    )


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--jobs", type=int, default=JOBS)
    arguments.add_argument("--repeats", type=int, default=3)
    chosen = arguments.parse_args()
    raise SystemExit(0 if run(chosen.jobs, chosen.repeats) else 1)
