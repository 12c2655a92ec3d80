"""The parts of a lateness: each part is correct, and they add up."""

import random
from typing import Any

import pytest

from timeball.domain.run.lateness import Lateness, split
from timeball.domain.run.ledger import Origin, Verdict
from timeball.domain.run.run import Attempt, Run
from timeball.domain.run.status import Status


def run(**fields: Any) -> Run:
    values: dict[str, Any] = {
        "id": "r", "job_id": "j", "tenant": "t", "job_name": "", "version": 1, "fire_time": 1_000, "fire_until": 1_000,
        "fires": 1, "origin": Origin.SCHEDULE, "status": Status.SUCCEEDED, "verdict": Verdict.ON_TIME, "reason": "",
        "attempt": 1, "token": 1, "worker": "w", "eligible_at": 1_000, "created_at": 500, "claimed_at": 1_000,
        "started_at": 1_000, "attempt_started_at": None, "finished_at": 2_000, "cancel_requested_at": None,
        "progress": None, "progress_note": "", "failure": None, "result": None, "retry_of": None, "retried_as": None,
    }  # fmt: skip
    return Run(**{**values, **fields})


def attempt(**fields: Any) -> Attempt:
    values: dict[str, Any] = {
        "attempt": 1, "token": 1, "worker": "w", "started_at": None, "finished_at": 1_500, "failure": None
    }  # fmt: skip
    return Attempt(**{**values, **fields})


@pytest.mark.parametrize(
    ("fields", "first", "parts"),
    [
        ({}, None, (0, 0, 0, 0)),
        ({"started_at": 1_007}, None, (0, 0, 0, 7)),
        ({"claimed_at": 900, "started_at": 1_003}, None, (0, 0, 0, 3)),
        ({"created_at": 1_100, "eligible_at": 1_100, "claimed_at": 1_110, "started_at": 1_111}, None, (100, 0, 10, 1)),
        ({"eligible_at": 1_400, "claimed_at": 1_450, "started_at": 1_460}, None, (0, 400, 50, 10)),
        ({"due_at": 1_200, "eligible_at": 1_200, "claimed_at": 1_200, "started_at": 1_205}, None, (0, 0, 0, 5)),
        (
            {"attempt": 2, "eligible_at": 9_000, "claimed_at": 9_100, "started_at": 1_340},
            {"eligible_at": 1_300, "claimed_at": 1_330},
            (0, 300, 30, 10),
        ),
        ({"attempt": 2, "eligible_at": 9_000, "claimed_at": 9_100, "started_at": 1_040}, {}, (0, 0, 40, 0)),
    ],
)
def test_every_part_is_what_it_says(fields: Any, first: Any, parts: tuple[int, ...]) -> None:
    assert split(run(**fields), None if first is None else attempt(**first)) == Lateness(*parts)


def test_a_run_that_has_not_started_has_none() -> None:
    assert split(run(started_at=None)) is None


def test_the_parts_add_up_whatever_the_clocks_said() -> None:
    rng = random.Random(7)
    for _ in range(2_000):
        at = {name: rng.randrange(3_000) for name in ("created_at", "eligible_at", "claimed_at", "started_at")}
        found = run(**at, fire_time=rng.randrange(1_500))
        parts = split(found)
        assert parts is not None
        assert parts.total == max(0, at["started_at"] - found.fire_time)
        assert min(parts.scheduler, parts.blocked, parts.queue, parts.worker) >= 0
