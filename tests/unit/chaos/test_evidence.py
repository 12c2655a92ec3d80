"""The data that `timeball chaos` reads about each run before it judges."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.chaos.test_checker import JOB, T, seen
from tests.unit.chaos.test_checker import row as run_that_ended
from timeball.chaos.evidence import rows
from timeball.chaos.history import Promise
from timeball.client.async_client import AsyncClient

WORKERS = ("worker-1", "worker-2", "worker-3")


class Fleet:
    """One run that took three attempts, of which the last succeeded."""

    async def ask(self, request: object) -> Any:
        fields = {"fire_time": None, "end_time": None, "late_ms": None, "verdict": "late", "reason": None}
        run = SimpleNamespace(
            run_id="r_0", job_id=JOB, status="succeeded", succeeded=True, attempt=3, fencing_token=102, **fields
        )
        return SimpleNamespace(items=[run], next_cursor=None)

    async def run(self, run_id: str) -> Any:
        return SimpleNamespace(attempts=[SimpleNamespace(executor_id=name) for name in WORKERS])

    async def result(self, run_id: str) -> int:
        return 102


@pytest.mark.parametrize(
    ("started", "workers", "effective"),
    [
        ((1, 2, 3), (), 102),
        ((2, 3), WORKERS, 102),
        ((3,), WORKERS, None),
        ((), (), None),
    ],
)
async def test_of_attempts_before_the_first_that_was_seen_it_matters_who_had_them(
    started: tuple[int, ...], workers: tuple[str, ...], effective: int | None
) -> None:
    sightings = [seen(run_that_ended(), attempt=attempt, token=99 + attempt) for attempt in started]
    [found] = await rows(cast("AsyncClient", Fleet()), [Promise(JOB, (T,))], T, T, sightings)
    assert found.workers == workers
    assert found.effective == effective
