"""The measurements of `timeball bench`, made through the API of an installation.

The completion rate and the lateness use the times of the server, so that neither the network nor the clock of this
machine affects them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from timeball.client.models.runs import Run
from timeball.client.models.workers import Worker
from timeball.client.requests import runs as requests
from timeball.domain.errors import Conflict, TimeballError
from timeball.domain.ids import made_at
from timeball.domain.instant import SECOND, of, to_datetime
from timeball.domain.run.status import TERMINAL
from timeball.system import monotonic
from timeball.tasks import NOOP

if TYPE_CHECKING:
    from timeball.client.client import Client
    from timeball.client.models.job import JobOptions

BATCH: Final = 500
ONE_BY_ONE: Final = 50
SPREAD: Final = 200
SPREAD_SECONDS: Final = 5
LEAD: Final = 2
"""Seconds from the submission of the jobs that are due one after the other until the first of them is due."""
PROGRESS_TIMEOUT: Final = 60.0
"""Maximum number of seconds that the benchmark waits for the end of the next job."""
PAGE: Final = 1_000

NAME: Final = "timeball-bench"
_TASK: Final[JobOptions] = {"python": NOOP, "max_retries": 0}
_JOB: Final[JobOptions] = {"name": NAME, **_TASK}


@dataclass(frozen=True, slots=True)
class Figures:
    """The results. Times are in milliseconds, rates in jobs per second."""

    accepted_after: list[float]
    """Time until a job that was submitted alone was durable and acknowledged."""
    picked_up_after: list[float]
    """Time until a job that was submitted alone started. No other job of the benchmark ran at that time."""
    ingest: float
    life_cycle: float
    """Completed jobs per second, from the first fire to the last end."""
    lateness: list[float]
    """Lateness of the jobs that were due one after the other."""
    unwell: list[Run]
    """The runs that did not succeed."""


def able_workers(client: Client) -> list[Worker]:
    """Return the workers that will execute the jobs. Raise `Conflict` if there are none, or if one of them would accept
    jobs that it cannot execute."""
    open_to_all = [worker for worker in client.workers() if not worker.dedicated]
    if not open_to_all:
        raise Conflict("there is no worker that accepts jobs without a label; start one with `timeball worker`")
    for worker in open_to_all:
        if NOOP not in worker.tasks:
            raise Conflict(
                f"worker {worker.name} (version {worker.version or 'unknown'}) does not have {NOOP}, which every worker"
                " of this version has; update the worker first"
            )
    return open_to_all


def measure(client: Client, jobs: int, say: Callable[[str], None]) -> Figures:
    """Run the three measurements. `say` gets a description of the current one."""
    say(f"{ONE_BY_ONE} jobs, one by one")
    accepted_after, alone, clock = _one_by_one(client)
    say(f"{jobs:,} jobs in batches")
    began = monotonic()
    at_once = _submit(client, [_JOB] * jobs)
    ingest = jobs / (monotonic() - began) * SECOND
    burst = _ended(client, at_once)
    say(f"{SPREAD} jobs spread over {SPREAD_SECONDS} s")
    first = clock() + LEAD * SECOND
    moments = [to_datetime(first + number * SPREAD_SECONDS * SECOND // SPREAD) for number in range(SPREAD)]
    spread = _ended(client, _submit(client, [{**_JOB, "at": moment} for moment in moments]))
    runs = [*alone, *burst, *spread]
    return Figures(
        accepted_after=accepted_after,
        picked_up_after=_late(alone),
        ingest=ingest,
        life_cycle=_rate(burst),
        lateness=_late(spread),
        unwell=[run for run in runs if not run.succeeded],
    )


def _one_by_one(client: Client) -> tuple[list[float], list[Run], Callable[[], int]]:
    """Return the milliseconds until each job was accepted, the runs of the jobs, and a function that returns the time
    of the server."""
    took, runs, ahead = [], [], 0
    for _ in range(ONE_BY_ONE):
        began = monotonic()
        job = client.create_job(NAME, **_TASK)
        answered = monotonic()
        took.append((answered - began) / 1_000)
        if job.created_at is not None:
            ahead = of(job.created_at) - began
        runs += _ended(client, [job.job_id])
    return took, runs, lambda: monotonic() + ahead


def _submit(client: Client, jobs: Sequence[JobOptions]) -> list[str]:
    job_ids: list[str] = []
    for start in range(0, len(jobs), BATCH):
        for item in client.batch(jobs[start : start + BATCH]):
            if item.job_id is None:
                raise TimeballError(f"a job was refused: {item.error.detail if item.error else 'without a reason'}")
            job_ids.append(item.job_id)
    return job_ids


def _ended(client: Client, job_ids: Sequence[str]) -> list[Run]:
    """Wait until all runs of these jobs have ended, and return them. Raise `TimeoutError` if none ends for 60 s."""
    wanted, seen, patient_until = frozenset(job_ids), 0, monotonic() + PROGRESS_TIMEOUT * SECOND
    pause = 0.005
    while True:
        runs = _runs(client, wanted) if _is_over(client, job_ids[-1]) else []
        done = [run for run in runs if run.done]
        if len(done) == len(wanted):
            return done
        if len(done) > seen:
            seen, patient_until = len(done), monotonic() + PROGRESS_TIMEOUT * SECOND
        if monotonic() > patient_until:
            raise TimeoutError(
                f"{len(done):,} of {len(wanted):,} jobs have ended, and no other one for {PROGRESS_TIMEOUT:g} s;"
                f" `timeball why {job_ids[-1]}` may show the reason"
            )
        time.sleep(pause)
        pause = min(0.2, pause * 1.5)


def _is_over(client: Client, job_id: str) -> bool:
    """True if the run of this job has ended. It was submitted last, so all others have then ended, or are about to."""
    return client.status(job_id).status in TERMINAL


def _runs(client: Client, job_ids: frozenset[str]) -> list[Run]:
    """Return the runs of these jobs. The list is read from the newest run back to the creation time of the first job:
    no run of these jobs was due before."""
    oldest = made_at(min(job_ids))
    found: list[Run] = []
    cursor: str | None = None
    while True:
        page = client.ask(requests.runs(limit=min(PAGE, len(job_ids) + 10), cursor=cursor))
        found += [run for run in page.items if run.job_id in job_ids]
        cursor = page.next_cursor
        last = page.items[-1].fire_time if page.items else None
        if cursor is None or len(found) >= len(job_ids) or (last is not None and of(last) < oldest):
            return found


def _late(runs: Sequence[Run]) -> list[float]:
    return [run.late_ms for run in runs if run.late_ms is not None]


def _rate(runs: Sequence[Run]) -> float:
    fired = [run.fire_time for run in runs if run.fire_time is not None]
    ended = [run.end_time for run in runs if run.end_time is not None]
    took = max(ended) - min(fired) if fired and ended else timedelta()
    return len(runs) / max(took.total_seconds(), 1e-6)
