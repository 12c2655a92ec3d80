"""A job with a function that no worker has: it shows what to do, and ends with its last attempt."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.fleet import Fleet, working
from timeball.domain.job.job import JobSpec
from timeball.domain.run.status import Status
from timeball.domain.task.retry import Delivery, Retry
from timeball.domain.task.task import Python
from timeball.executors.python.executor import PythonExecutor
from timeball.tasks import Registry


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    executor = PythonExecutor(Registry(), slots=10)
    async with working(tmp_path, executor) as fleet:
        yield fleet
    executor.close()


@pytest.mark.parametrize(
    ("delivery", "status", "attempts"), [("at_least_once", Status.DEAD, 3), ("at_most_once", Status.FAILED, 1)]
)
async def test_it_ends_with_its_last_attempt(fleet: Fleet, delivery: Delivery, status: Status, attempts: int) -> None:
    retry = Retry(max_retries=2, backoff=["0s"])
    job_id = await fleet.submit(JobSpec(task=Python(function="etl"), retry=retry, delivery=delivery))
    run = await fleet.ended(job_id)
    assert (run.status, run.attempt) == (status, attempts)
    assert run.failure is not None
    assert run.failure.kind == "worker"
    assert "no task named 'etl' on this worker, which has none; start it with --tasks" in run.failure.message
