"""Python functions by name, in the event loop, in threads, and in processes."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from tests.unit import process_tasks
from tests.unit.executing import RecordedAttempt
from timeball.domain.run.lifecycle import Failed, Failure, Outcome, Succeeded
from timeball.domain.task.task import Python
from timeball.executors.guard.guard import ProcessGuard
from timeball.executors.process.process import Processes
from timeball.executors.python import streams
from timeball.executors.python.executor import PythonExecutor
from timeball.executors.python.warm.processes import PythonProcesses
from timeball.tasks import REGISTRY, Context, Registry, load
from timeball.telemetry.logging import StandardError


@pytest.fixture
def registry() -> Registry:
    return Registry()


async def run(registry: Registry, function: str, **parameters: Any) -> tuple[Outcome, RecordedAttempt]:
    executor = PythonExecutor(registry, slots=4)
    attempt = RecordedAttempt(Python(function=function), **parameters)
    try:
        return await executor.execute(attempt), attempt
    finally:
        executor.close()


def failure(outcome: Outcome) -> Failure:
    assert isinstance(outcome, Failed), outcome
    return outcome.failure


def result(outcome: Outcome) -> Any:
    assert isinstance(outcome, Succeeded), outcome
    assert isinstance(outcome.result, msgspec.Raw)
    return msgspec.json.decode(outcome.result)


async def test_parameters_become_keyword_arguments_and_the_result_json(registry: Registry) -> None:
    async def in_loop(a: int, b: int = 2) -> dict[str, int]:
        return {"sum": a + b}

    def in_thread(a: int, b: int = 2) -> list[int]:
        return [a, b, threading.current_thread() is threading.main_thread()]

    registry.add(in_loop)
    registry.add(in_thread)
    assert result((await run(registry, "in_loop", a=1))[0]) == {"sum": 3}
    assert result((await run(registry, "in_thread", a=1, b=5))[0]) == [1, 5, False]


async def test_nothing_returned_is_no_result(registry: Registry) -> None:
    async def nothing() -> None: ...

    registry.add(nothing)
    assert (await run(registry, "nothing"))[0] == Succeeded()


@pytest.mark.parametrize("mode", ["async", "thread"])
async def test_the_context_knows_the_attempt_and_speaks_for_it(registry: Registry, mode: str) -> None:
    def body(n: int, ctx: Context) -> list[Any]:
        ctx.log("one")
        ctx.log("two\n")
        ctx.progress(0.25, "quarter")
        return [ctx.job_id, ctx.run_id, ctx.attempt, ctx.fencing_token, ctx.fire_time, ctx.parameters, ctx.cancelled]

    async def in_loop(n: int, ctx: Context) -> list[Any]:
        return body(n, ctx)

    registry.add(in_loop if mode == "async" else body, "it")
    outcome, attempt = await run(registry, "it", n=7)
    expected = [attempt.job_id, attempt.run_id, 2, 17, "2026-01-01T00:00:00Z", {"n": 7}, False]
    assert result(outcome) == expected
    assert attempt.text() == "one\ntwo\n"
    assert attempt.steps == [(0.25, "quarter")]


@pytest.mark.parametrize("mode", ["async", "thread"])
async def test_what_a_function_prints_is_the_output_of_its_attempt(
    registry: Registry, mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def body(name: str) -> None:
        print("from", name)
        sys.stdout.writelines(["one\n", "two\n"])
        print("oh", name, file=sys.stderr, flush=True)
        library.warning("careful, %s", name)

    async def in_loop(name: str) -> None:
        body(name)
        await asyncio.gather(asyncio.to_thread(print, f"thread of {name}"), printing(f"task of {name}"))

    async def printing(text: str) -> None:
        print(text)

    registry.add(in_loop if mode == "async" else body, "it")
    library = logging.Logger("library")
    library.addHandler(StandardError())
    with streams.listening():
        told = await asyncio.gather(*(run(registry, "it", name=name) for name in ("a", "b")))
        print("the worker itself")
    print("and after it")
    for name, (outcome, attempt) in zip("ab", told, strict=True):
        assert outcome == Succeeded()
        printed = attempt.text("stdout")
        assert printed.startswith(f"from {name}\none\ntwo\n")
        if mode == "async":
            assert sorted(printed.splitlines()[3:]) == [f"task of {name}", f"thread of {name}"]
        assert attempt.text("stderr") == f"oh {name}\ncareful, {name}\n"
    assert capsys.readouterr() == ("the worker itself\nand after it\n", "")


class Odd(ValueError): ...


@pytest.mark.parametrize("mode", ["async", "thread"])
@pytest.mark.parametrize("error", [Odd, SystemExit, KeyboardInterrupt, StopIteration])
async def test_whatever_a_function_raises_is_its_failure(
    registry: Registry, mode: str, error: type[BaseException]
) -> None:
    def body() -> None:
        raise error("odd")

    async def in_loop() -> None:
        body()

    registry.add(in_loop if mode == "async" else body, "it")
    outcome, attempt = await run(registry, "it")
    ended = failure(outcome)
    assert ended.kind == "exception"
    assert "in body" in attempt.text("stderr")
    assert "executors/python/executor.py" not in attempt.text("stderr")
    if error is Odd:
        assert ended.message == "Odd: odd"
        assert ended.exceptions[:4] == ("Odd", f"{__name__}.Odd", "ValueError", "builtins.ValueError")


async def test_a_result_that_is_not_json_is_replaced_by_the_reason(registry: Registry) -> None:
    async def odd() -> object:
        return object()

    async def large() -> str:
        return "x" * 2_000_000

    registry.add(odd)
    registry.add(large)
    assert "returned a value that is not JSON" in result((await run(registry, "odd"))[0])["notKept"]
    assert "2000002 bytes" in result((await run(registry, "large"))[0])["notKept"]


async def test_an_unknown_function_names_the_known_ones_and_the_cure(registry: Registry) -> None:
    async def known() -> None: ...

    registry.add(known)
    ended = failure((await run(registry, "unknown"))[0])
    assert ended.kind == "worker"
    assert ended.message == (
        "no task named 'unknown' on this worker, which has known; start it with --tasks and the module that registers"
        " 'unknown', or select workers that have it with the job's runsOn"
    )
    for number in range(20):
        registry.add(known, name=f"f{number:02}")
    assert "which has f00, f01, " in failure((await run(registry, "unknown"))[0]).message
    assert "f09 and 11 more; start" in failure((await run(registry, "unknown"))[0]).message


async def test_wrong_parameters_are_the_jobs_failure(registry: Registry) -> None:
    async def strict(a: int) -> None: ...

    registry.add(strict)
    assert failure((await run(registry, "strict", b=1))[0]).exceptions[0] == "TypeError"


async def test_threads_stop_when_they_look(registry: Registry) -> None:
    looking = threading.Event()

    def patient(ctx: Context) -> str:
        while not ctx.cancelled:
            looking.set()
            threading.Event().wait(0.005)
        return "stopped"

    registry.add(patient)
    executor = PythonExecutor(registry, slots=1)
    attempt = RecordedAttempt(Python(function="patient"))
    executing = asyncio.create_task(executor.execute(attempt))
    await asyncio.to_thread(looking.wait)
    attempt.cancel()
    assert result(await executing) == "stopped"
    executor.close()


def test_registration_is_checked() -> None:
    registry = Registry()

    def one() -> None: ...

    def two() -> None: ...

    async def three() -> None: ...

    registry.add(one, "name")
    registry.add(one, "name")
    with pytest.raises(ValueError, match="two tasks are named 'name'"):
        registry.add(two, "name")
    with pytest.raises(ValueError, match="only an async function"):
        registry.add(one, "other", "async")
    with pytest.raises(ValueError, match="runs in mode 'async' or 'process'"):
        registry.add(three, "other", "thread")
    with pytest.raises(ValueError, match="not a task name"):
        registry.add(one, "a name")
    assert registry.names == ["name"]


def test_a_module_is_loaded_from_the_current_folder(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_tasks_of_a_test.py").write_text("import timeball\n@timeball.task('of.a.test')\ndef f(): ...\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert load("my_tasks_of_a_test") == ["of.a.test"]
    with pytest.raises(ValueError, match="no module 'no_such_module'"):
        load("no_such_module")


def test_a_decorated_function_stays_callable() -> None:
    assert process_tasks.add(1, 2)["sum"] == 3


# --- processes --------------------------------------------------------------------------------------------------------


@pytest.fixture
async def executor() -> AsyncIterator[PythonExecutor]:
    guard = ProcessGuard()
    processes = PythonProcesses(Processes(guard), max_children=4)
    yield PythonExecutor(REGISTRY, slots=1, process_mode=processes)
    await processes.close()
    await guard.close()


async def test_a_process_returns_its_result_and_its_output(executor: PythonExecutor) -> None:
    attempt = RecordedAttempt(Python(function="process.add"), a=1, b=2)
    answer = result(await executor.execute(attempt))
    assert answer["sum"] == 3
    assert answer["pid"] != os.getpid()
    assert attempt.text() == "adding\n"


async def test_an_async_function_in_a_process_has_a_context(executor: PythonExecutor) -> None:
    attempt = RecordedAttempt(Python(function="process.async_add"), a=1, b=2)
    assert result(await executor.execute(attempt)) == 3
    assert attempt.text() == "adding?\n"
    assert attempt.steps == [(0.5, "half")]


async def test_an_exception_in_a_process(executor: PythonExecutor) -> None:
    attempt = RecordedAttempt(Python(function="process.fail"))
    ended = failure(await executor.execute(attempt))
    assert (ended.kind, ended.message) == ("exception", "FileNotFoundError: no such luck")
    assert "OSError" in ended.exceptions
    assert "in fail" in attempt.text("stderr")


@pytest.mark.parametrize(("code", "kind", "words"), [(0, "worker", "before it returned"), (4, "exit", "exit code 4")])
async def test_a_process_that_vanishes_has_failed(executor: PythonExecutor, code: int, kind: str, words: str) -> None:
    ended = failure(await executor.execute(RecordedAttempt(Python(function="process.vanish"), code=code)))
    assert ended.kind == kind
    assert words in ended.message


async def test_a_process_is_stopped(executor: PythonExecutor) -> None:
    attempt = RecordedAttempt(Python(function="process.sleep"))
    executing = asyncio.create_task(executor.execute(attempt))
    await _first_words(attempt)
    attempt.cancel()
    assert failure(await executing).exit_code == 143


async def test_a_process_with_a_context_may_finish(executor: PythonExecutor) -> None:
    attempt = RecordedAttempt(Python(function="process.polite"))
    executing = asyncio.create_task(executor.execute(attempt))
    await _first_words(attempt)
    attempt.cancel()
    assert result(await executing) == ["stopped", 2, 17, attempt.run_id]


async def _first_words(attempt: RecordedAttempt) -> None:
    while True:
        if attempt.text():
            return
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(("depth", "kept"), [(1, True), (128, True), (129, False), (400, False)])
async def test_a_result_is_kept_unless_it_is_nested_too_deep(registry: Registry, depth: int, kept: bool) -> None:
    async def deep() -> object:
        value: object = [1] * 200
        for _ in range(depth - 1):
            value = [value]
        return value

    registry.add(deep)
    outcome, _ = await run(registry, "deep")
    if kept:
        assert isinstance(result(outcome), list)
    else:
        assert "nested more than 128 levels deep" in result(outcome)["notKept"]
