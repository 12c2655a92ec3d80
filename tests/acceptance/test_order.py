"""I16, I18: ordering keys and limits, with eight workers, some of which are killed. The runs are the witnesses.

`TIMEBALL_THOROUGH=1` makes it 10,000 runs under the limit, with a worker killed every 1,000.
"""

import contextlib
import datetime as dt
import random
import signal
import time
from collections import Counter
from itertools import accumulate, combinations, pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.attempts import Attempt, attempts, ended
from tests.support.postgres import PostgresCluster
from tests.support.processes import Api, Process, running_server, start_worker, until
from tests.support.thorough import THOROUGH

WORKERS = 8
KEYS = ("red", "green", "blue")
RUNS_PER_KEY = 100 if THOROUGH else 50
LIMIT = 5
LIMITED_RUNS, KILLED = (10_000, 10) if THOROUGH else (500, 2)
TASKS = "tests.acceptance.order_tasks"
LONG = 600.0
RETRY = {"maxRetries": 50, "backoff": "fixed", "base": "0s"}

pytestmark = pytest.mark.timeout(1_200 if THOROUGH else 240)


class Crew:
    """Workers; those that are killed are replaced."""

    def __init__(self, folder: Path, api: Api, stack: contextlib.ExitStack) -> None:
        self._folder, self._api, self._stack = folder, api, stack
        self._alive: list[Process] = []
        self.gone: dict[int, int] = {}
        """When the processes that were killed were gone."""

    def hire(self) -> None:
        number = len(self._alive) + len(self.gone)
        worker = start_worker(self._folder, self._api, name=f"worker-{number}", slots=4, tasks=TASKS)
        self._alive.append(self._stack.enter_context(worker))

    def lose_one(self, *witnesses: Path) -> None:
        """kill -9 of a worker in the midst of its work, if possible of the first kind."""
        worker = until(lambda: next(filter(None, map(self._stopped, witnesses)), None), "a worker that is busy")
        self._alive.remove(worker)
        worker.kill()
        self.gone[worker.pid] = time.monotonic_ns()

    def _stopped(self, witness: Path) -> Process | None:
        """A worker that is stopped while it has work."""
        for worker in self._alive:
            worker.signal(signal.SIGSTOP)
            if worker.pid in working(witness):
                return worker
            worker.signal(signal.SIGCONT)
        return None

    def dismiss(self) -> None:
        """All at once: one after the other they would take their time."""
        for worker in self._alive:
            worker.kill()


class Records(msgspec.Struct):
    """What is known after all runs have ended."""

    keys: list[Attempt]
    limited: list[Attempt]
    """Both in the order of their starts."""
    killed: set[int]
    """Processes of workers."""
    succeeded: Counter[str]
    """Runs of each group, by the store."""
    left: dict[str, int]
    """Rows that should not be there any more."""


def work_off(folder: Path, postgres: PostgresCluster, dsn: str) -> Records:
    """Keys and a limit at once, on one server with PostgreSQL, while workers are killed."""
    keys, limited = folder / "keys", folder / "limited"
    with contextlib.ExitStack() as stack:
        _, api = stack.enter_context(running_server(folder, dsn))
        crew = Crew(folder, api, stack)
        for _ in range(WORKERS):
            crew.hire()
        api.await_workers(WORKERS)
        submit(api, ordered_jobs(keys))
        job = new_job(limited, "limited", longest=0.02, failing=0.05, concurrency={"key": "database", "limit": LIMIT})
        for first in range(0, LIMITED_RUNS, 1_000):
            submit(api, [job] * min(1_000, LIMITED_RUNS - first))
        for kill in range(KILLED):
            reached = (kill + 1) * LIMITED_RUNS // (KILLED + 1)
            until(lambda reached=reached: limited.read_bytes().count(b"start") >= reached, f"{reached} attempts", LONG)
            crew.lose_one(keys, limited)
            crew.hire()
        until(lambda: not postgres.fetch_value("SELECT COUNT(*) FROM runs", dsn), "all runs to end", LONG)
        crew.dismiss()
        return Records(
            ended(attempts(keys), crew.gone),
            ended(attempts(limited), crew.gone),
            set(crew.gone),
            succeeded(postgres, dsn),
            {
                table: postgres.fetch_value(f"SELECT COUNT(*) FROM {table} WHERE {what}", dsn)
                for table, what in LEFTOVERS
            },
        )


LEFTOVERS = (
    ("runs", "true"),  # so no permit, and nobody who waits
    ("turns", "holder IS NOT NULL"),
    ("gates", "look_at IS NOT NULL"),
    ("history", "status <> 'succeeded'"),
)


def ordered_jobs(file: Path) -> list[dict[str, Any]]:
    """In any order but that of their fire times, which passed long ago."""
    last_hour = dt.datetime.now(dt.UTC) - dt.timedelta(hours=1)
    dates = [(last_hour + dt.timedelta(seconds=at)).isoformat() for at in range(RUNS_PER_KEY)]
    jobs = [
        new_job(file, key, 0.01, failing=0.2, orderingKey=key, schedule={"type": "date", "expression": date})
        for key in KEYS
        for date in dates
    ]
    random.Random(3).shuffle(jobs)
    return jobs


def new_job(file: Path, group: str, longest: float, failing: float, **more: Any) -> dict[str, Any]:
    return {
        "task": {"kind": "python", "function": "order.step"},
        "parameters": {"witness": str(file), "group": group, "longest": longest, "failing": failing},
        "retry": RETRY,
        **more,
    }


def submit(api: Api, jobs: list[dict[str, Any]]) -> None:
    answer = api.call("POST", "/v1/jobs:batch", json=jobs)
    assert all("jobId" in item for item in answer["items"])


def working(file: Path) -> set[int]:
    """The processes of attempts that started lately and have not ended."""
    running = {}
    for line in file.read_bytes()[-20_000:].splitlines()[1:]:
        what, _, run, number, _, pid, _ = line.split()
        if what == b"start":
            running[run, number] = int(pid)
        else:
            running.pop((run, number), None)
    return set(running.values())


def succeeded(postgres: PostgresCluster, dsn: str) -> Counter[str]:
    query = "SELECT string_agg(j.spec::json->'parameters'->>'group', ' ') FROM history h JOIN jobs j ON j.id = h.job_id"
    return Counter(postgres.fetch_value(f"{query} WHERE h.status = 'succeeded'", dsn).split())


def most_at_once(seen: list[Attempt]) -> int:
    changes = sorted([(each.until, -1) for each in seen] + [(each.start, 1) for each in seen])
    return max(accumulate(change for _, change in changes))


def test_order_and_limits_hold_while_workers_are_killed(
    tmp_path: Path, postgres: PostgresCluster, postgres_dsn: str
) -> None:
    records = work_off(tmp_path, postgres, postgres_dsn)
    for key in KEYS:
        runs_of_a_key_went_one_by_one_in_the_order_of_their_fires(records, key)
    for pair in combinations(KEYS, 2):
        assert most_at_once([each for each in records.keys if each.group in pair]) == 2, "keys do not wait for others"
    no_more_than_the_limit_ran_at_once(records)
    each_run_succeeded_once(records)
    assert records.left == {table: 0 for table, _ in LEFTOVERS}, "no run, no permit and no turn is left"


def runs_of_a_key_went_one_by_one_in_the_order_of_their_fires(records: Records, key: str) -> None:
    mine = [each for each in records.keys if each.group == key]
    order = [(each.fire, each.number) for each in mine]
    assert order == sorted(order), "no retry is overtaken"
    assert all(earlier.until < later.start for earlier, later in pairwise(mine))
    assert records.succeeded[key] == len({each.run for each in mine}) == RUNS_PER_KEY
    how = Counter(each.how for each in mine)
    print(f"{key}: {len(mine)} attempts by {len({each.pid for each in mine})} workers: {dict(how)}")
    assert how["failed"]


def no_more_than_the_limit_ran_at_once(records: Records) -> None:
    how = Counter(each.how for each in records.limited)
    workers = {each.pid for each in records.limited}
    print(f"{len(records.limited)} attempts of {LIMITED_RUNS} runs by {len(workers)} workers: {dict(how)}")
    assert most_at_once(records.limited) == LIMIT


def each_run_succeeded_once(records: Records) -> None:
    """Whatever ended well did so once, unless its worker was killed before it could say so."""
    assert records.succeeded == Counter(dict.fromkeys(KEYS, RUNS_PER_KEY) | {"limited": LIMITED_RUNS})
    seen = [*records.keys, *records.limited]
    well: dict[str, list[Attempt]] = {}
    for each in seen:
        if each.how == "end":
            well.setdefault(each.run, []).append(each)
    assert len(well) == len(KEYS) * RUNS_PER_KEY + LIMITED_RUNS
    assert {each.pid for each in seen if each.how == "interrupted"} == records.killed
    for *unsaid, _ in well.values():
        assert all(each.pid in records.killed for each in unsaid)
