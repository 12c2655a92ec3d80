"""Decoding of assignments: equal ones are decoded once, and no attempt changes the values of another."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.support.fake_worker_protocol import assignment, python
from timeball.domain.instant import SECOND
from timeball.domain.run.lifecycle import Failed, Released
from timeball.executors.python.executor import PythonExecutor
from timeball.ports.executor import Executor
from timeball.tasks import Context, Registry
from timeball.worker import assignment as worker_assignment
from timeball.worker.assignment import REFUSED_KIND_DELAY, Reader
from timeball.worker.attempt import HeldAttempt

EXECUTOR = cast(Executor, object())


@pytest.fixture
def reader() -> Reader:
    return Reader({"python": EXECUTOR, "http": EXECUTOR})


def test_jobs_that_are_alike_are_read_once(reader: Reader) -> None:
    first, second = (reader.read(python(token, "noop", parameters={"days": 30})) for token in (1, 2))
    assert first is second
    assert reader.read(python(3, "noop", parameters={"days": 31})) is not first


def test_it_says_all_that_an_attempt_takes(reader: Reader) -> None:
    asked = {"kind": "http", "url": "https://api.example.com/x"}
    work = reader.read(assignment(1, asked, timeout="2m", resources={"slots": 3}))
    assert (work.slots, work.timeout, work.host) == (3, 120 * SECOND, "api.example.com:443")
    assert (work.executor, work.unfit) == (EXECUTOR, None)


def test_values_that_a_function_could_change_are_read_anew_for_each_attempt(reader: Reader) -> None:
    first, second = (reader.read(python(token, "noop", parameters={"days": [1]})) for token in (1, 2))
    assert first.spec == second.spec
    assert first.spec.parameters["days"] is not second.spec.parameters["days"]


async def test_a_function_that_changes_its_parameters_changes_them_for_itself(reader: Reader) -> None:
    seen: list[dict[str, Any]] = []

    async def greedy(ctx: Context, **parameters: Any) -> None:
        seen.append(dict(ctx.parameters))
        ctx.parameters.clear()
        parameters.clear()

    registry = Registry()
    registry.add(greedy)
    executor = PythonExecutor(registry, slots=1)
    for token in (1, 2):
        asked = python(token, "greedy", parameters={"days": 30})
        await executor.execute(HeldAttempt.of(asked, reader.read(asked), cast(Any, None)))
    assert seen == [{"days": 30}, {"days": 30}]


def test_what_it_remembers_is_bounded(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_assignment, "REMEMBERED", 10)
    for token in range(100):
        reader.read(python(token, "noop", parameters={"number": token}))
        assert len(reader._known) <= 10
    large = python(1, "noop", parameters={"text": "x" * 10_000})
    assert reader.read(large) is not reader.read(large)


@pytest.mark.parametrize(
    ("task", "why"),
    [
        ({"kind": "shell", "command": "true"}, "this worker has no executor for 'shell' tasks; it has: python, http"),
        ({"kind": "quantum"}, "this worker cannot read the job, its version may be too old: "),
    ],
)
def test_what_it_cannot_do_is_said(reader: Reader, task: dict[str, Any], why: str) -> None:
    work = reader.read(assignment(1, task))
    assert work.executor is None
    assert isinstance(work.unfit, Failed)
    assert work.unfit.failure.message.startswith(why)


def test_a_kind_that_the_worker_does_not_take_is_handed_back_without_an_attempt() -> None:
    """Whatever server assigned it: one that is hostile, or older than this rule."""
    asked = assignment(1, {"kind": "http", "url": "https://api.example.com/x"})
    executors = {"python": EXECUTOR, "http": EXECUTOR}
    refused = Reader(executors, kinds=["python"]).read(asked)
    assert (refused.executor, refused.unfit) == (None, Released(REFUSED_KIND_DELAY))
    assert Reader(executors, kinds=["python", "http"]).read(asked).executor is EXECUTOR
