"""Functions in warm children: what runs share and what they do not, how children end, and how many there are."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import textwrap
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
import pytest_asyncio

from tests.unit import process_tasks, warm_tasks
from tests.unit.executing import RecordedAttempt
from timeball.domain.dispatch.placement import Resources
from timeball.domain.run.lifecycle import Failed, Failure, Outcome, Succeeded
from timeball.domain.task.task import Python
from timeball.executors.guard.guard import ProcessGuard
from timeball.executors.process.process import Processes
from timeball.executors.python.child_protocol import ChildMessage
from timeball.executors.python.warm import child as child_module
from timeball.executors.python.warm import group as group_module
from timeball.executors.python.warm import processes as processes_module
from timeball.executors.python.warm.child import ChildState
from timeball.executors.python.warm.processes import PythonProcesses
from timeball.executors.python.warm.run import WarmRun
from timeball.system import monotonic
from timeball.tasks import REGISTRY

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a subreaper"),
    pytest.mark.timeout(300),
]


assert process_tasks, "registered"


class Scene:
    """A worker's processes."""

    def __init__(self, max_children: int = 4, cpus: int = 2) -> None:
        self.guard = ProcessGuard()
        self.processes = PythonProcesses(Processes(self.guard), max_children=max_children, cpus=cpus)
        self._tokens = 0

    def attempt(self, function: str, **parameters: Any) -> RecordedAttempt:
        self._tokens += 1
        return RecordedAttempt(Python(function=function), token=self._tokens, **parameters)

    def execute(self, attempt: RecordedAttempt) -> asyncio.Task[Outcome]:
        assert isinstance(attempt.task, Python)
        function = REGISTRY.get(attempt.task.function)
        assert function is not None
        return asyncio.create_task(self.processes.execute(attempt, function))

    async def run(self, function: str, **parameters: Any) -> Any:
        """The result of a run that has to succeed."""
        return result(await self.execute(self.attempt(function, **parameters)))

    @property
    def pids(self) -> set[int]:
        assert self.guard.pid is not None
        return {each.pid for each in psutil.Process(self.guard.pid).children(recursive=True)}

    async def close(self) -> None:
        await self.processes.close()
        await self.guard.close()


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    yield scene
    await scene.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_scene() -> AsyncIterator[Scene]:
    """For tests whose child ends: to start a guard and its fork server costs more than such a test."""
    scene = Scene()
    yield scene
    await scene.close()


def result(outcome: Outcome) -> Any:
    assert isinstance(outcome, Succeeded), outcome
    return None if outcome.result is None else msgspec.json.decode(outcome.result)


def failure(outcome: Outcome) -> Failure:
    assert isinstance(outcome, Failed), outcome
    return outcome.failure


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


async def printed_pid(attempt: RecordedAttempt) -> int:
    await until(lambda: attempt.text().endswith("\n"))
    return int(attempt.text())


def runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


# --- what runs share --------------------------------------------------------------------------------------------------


async def test_runs_share_a_process_and_the_globals_of_its_module(scene: Scene) -> None:
    seen = [await scene.run("warm.call") for _ in range(3)]
    assert [each["calls"] for each in seen] == [1, 2, 3]
    assert len({each["pid"] for each in seen}) == 1
    assert seen[0]["pid"] != os.getpid()


async def test_tenants_share_no_process(scene: Scene) -> None:
    seen = {tenant: [await scene.run("warm.call", tenant=tenant) for _ in range(2)] for tenant in ("one", "two")}
    assert [each["calls"] for tenant in seen for each in seen[tenant]] == [1, 2, 1, 2]
    assert seen["one"][0]["pid"] != seen["two"][0]["pid"]


async def test_a_fresh_function_and_a_job_with_a_memory_limit_have_an_interpreter_per_run(scene: Scene) -> None:
    assert [await scene.run("warm.fresh") for _ in range(2)] == [1, 1]
    warm = await scene.run("warm.pid")
    attempt = scene.attempt("warm.pid")
    attempt.spec = msgspec.structs.replace(attempt.spec, resources=Resources(memory_mb=500))
    assert result(await scene.execute(attempt)) != warm
    assert await scene.run("warm.pid") == warm


async def test_each_run_has_its_own_environment(scene: Scene) -> None:
    large = await scene.run("warm.say", text="", tenant="other")  # another process, with a variable too many
    assert large
    first, second = scene.attempt("warm.call"), scene.attempt("warm.call")
    seen = [result(await scene.execute(each)) for each in (first, second)]
    for attempt, each in zip((first, second), seen, strict=True):
        environment = each["environment"]
        assert environment["TIMEBALL_RUN_ID"] == attempt.run_id
        assert environment["TIMEBALL_FENCING_TOKEN"] == str(attempt.token)
        assert environment["TIMEBALL_PARAMETERS"] == "{}"
        assert "PYTHONPATH" not in environment
        assert sorted(entry for entry in each["printenv"] if entry) == sorted(
            f"{name}={value}" for name, value in environment.items()
        )
    same = ("folder", "umask", "word", "descriptors", "threads", "usr1", "files_limit", "stdin", "files")
    assert {name: seen[0][name] for name in same} == {name: seen[1][name] for name in same}
    assert (seen[0]["files"], seen[0]["stdin"], seen[0]["umask"]) == ([], "", 0o077)


async def test_parameters_that_do_not_fit_leave_no_others_in_the_environment(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.run("warm.pid", seconds=0)
    monkeypatch.setattr("timeball.executors.environment.MAX_PARAMETERS", 1)
    attempt = scene.attempt("warm.call")
    seen = result(await scene.execute(attempt))
    assert "TIMEBALL_PARAMETERS" not in seen["environment"]
    assert not any(entry.startswith("TIMEBALL_PARAMETERS=") for entry in seen["printenv"])
    assert "TIMEBALL_PARAMETERS is not set" in attempt.text("system")


@pytest.mark.xdist_group("shared scene")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("what", list(warm_tasks.LEAVING))
async def test_a_process_in_which_a_run_left_something_executes_no_other_run(shared_scene: Scene, what: str) -> None:
    scene = shared_scene
    before = await scene.run("warm.call")
    attempt = scene.attempt("warm.leave", what=what)
    assert result(await scene.execute(attempt)) == before["pid"]
    assert not runs(before["pid"]), "the run ends with its process"
    if what == "detached process":
        assert not runs(int(attempt.text()))
    after = await scene.run("warm.call")
    assert after["pid"] != before["pid"]
    assert after["calls"] == 1
    same = ("umask", "descriptors", "threads", "usr1", "files_limit", "stdin", "files")
    assert {name: after[name] for name in same} == {name: before[name] for name in same}
    assert set(after["environment"]) == set(before["environment"])


@pytest.mark.parametrize("function", ["warm.tidy", "warm.async_tidy"])
async def test_a_run_that_leaves_nothing_keeps_its_process(scene: Scene, function: str) -> None:
    first = await scene.run("warm.pid")
    assert [await scene.run(function) for _ in range(3)] == [first] * 3


async def test_files_in_the_working_folder_are_removed_with_their_run(scene: Scene) -> None:
    first, folder = await scene.run("warm.write_files")
    assert os.listdir(folder) == []
    assert await scene.run("warm.write_files") == [first, folder]
    await scene.close()
    assert os.path.basename(folder) not in os.listdir(tempfile.gettempdir())


async def test_folders_that_cannot_be_removed_do_not_fail_the_run_that_left_them(scene: Scene) -> None:
    """I30: the function has returned."""
    attempt = scene.attempt("warm.deep_folders")
    folder = result(await scene.execute(attempt))
    assert await scene.run("warm.pid")
    await scene.close()
    await (await asyncio.create_subprocess_exec("rm", "-rf", folder)).wait()


async def test_memory_that_runs_leave_behind_is_bounded(scene: Scene) -> None:
    pids = [await scene.run("warm.leak", megabytes=50) for _ in range(5)]
    assert max(map(pids.count, pids)) == 2
    assert all(not runs(pid) for pid in pids[:-1])
    pids = [await scene.run("warm.garbage", megabytes=50, tenant="other") for _ in range(5)]
    assert len(set(pids)) == 1, "garbage is collected"


async def test_output_belongs_to_its_run(scene: Scene) -> None:
    first, second = (scene.attempt("warm.say", text=text) for text in ("c3a9e282", "ac21"))
    pids = [result(await scene.execute(each)) for each in (first, second)]
    assert pids[0] == pids[1]
    assert [each.text() for each in (first, second)] == [
        "é\N{REPLACEMENT CHARACTER}::progress 50 half\n",
        "\N{REPLACEMENT CHARACTER}!::progress 50 half\n",
    ]
    assert [each.text("stderr") for each in (first, second)] == ["to stderr\n"] * 2


async def test_progress_is_reported(scene: Scene) -> None:
    attempt = scene.attempt("warm.say", text="0a")
    await scene.execute(attempt)
    assert attempt.steps == [(0.5, "half")]


@pytest.mark.parametrize("dies", [False, True])
async def test_a_child_that_floods_its_worker_does_not_occupy_the_event_loop(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    """I28: each line is decoded, so a turn of the event loop takes few of them."""
    decoded, turns = 0, [0]
    decode = child_module._decode

    def count(line: bytes) -> ChildMessage:
        nonlocal decoded
        decoded += 1
        return decode(line)

    monkeypatch.setattr(child_module, "_decode", count)
    executing = scene.execute(scene.attempt("warm.flood", lines=100_000, dies=dies))
    while not executing.done():
        await asyncio.sleep(0)
        turns.append(decoded)
    assert decoded == 100_001 + (not dies), "with those that the child is ready, and the outcome"
    assert max(after - before for before, after in pairwise(turns)) <= 20_000


async def test_a_context_is_of_one_run(scene: Scene) -> None:
    pid = await scene.run("warm.keep_context")
    attempt = scene.attempt("warm.use_kept_context")
    assert result(await scene.execute(attempt)) == [pid, 1]
    assert (attempt.chunks, attempt.steps) == ([], [])
    assert (await scene.run("warm.call"))["word"] == "unset"


# --- crashes, cancellation and deadlines ------------------------------------------------------------------------------


async def test_a_killed_child_costs_only_its_run(scene: Scene) -> None:
    doomed, other = scene.attempt("warm.sleep"), scene.attempt("warm.pid", seconds=1)
    dying, living = scene.execute(doomed), scene.execute(other)
    os.kill(await printed_pid(doomed), signal.SIGKILL)
    ended = failure(await dying)
    assert (ended.kind, ended.exit_code, ended.message) == ("exit", 137, "killed by SIGKILL (exit code 137)")
    survivor = result(await living)
    assert await scene.run("warm.pid") == survivor


async def test_a_killed_idle_child_costs_nothing(scene: Scene) -> None:
    first = await scene.run("warm.pid")
    os.kill(first, signal.SIGKILL)
    assert await scene.run("warm.pid") != first


async def test_no_run_is_given_to_an_idle_child_that_has_died(scene: Scene) -> None:
    """The worker notices the end of the connection before the guard reports the end of the process."""
    first = await scene.run("warm.pid")
    (group,) = scene.processes._groups.values()
    (child,) = group.children
    os.kill(first, signal.SIGKILL)
    while child.state is ChildState.IDLE:
        await asyncio.sleep(0)
    assert await scene.run("warm.pid") != first


async def test_an_order_that_was_not_read_is_given_to_another_child(scene: Scene, tmp_path: Path) -> None:
    first = await scene.run("warm.pid")
    os.kill(first, signal.SIGSTOP)
    executing = scene.execute(scene.attempt("warm.witness", path=str(tmp_path / "calls")))
    await asyncio.sleep(0.1)
    os.kill(first, signal.SIGKILL)
    assert result(await executing) != first
    assert (tmp_path / "calls").read_text() == "called\n"


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_run_that_is_cancelled_while_it_waits_for_another_child_is_not_executed(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Its first child died before it began the run, which was cancelled before or after the worker noticed that."""
    first = await scene.run("warm.pid")
    (group,) = scene.processes._groups.values()
    attempt = scene.attempt("warm.witness", path=str(tmp_path / "calls"))
    refused = group.child_refused

    def child_refused(run: WarmRun, *, changed: bool) -> None:
        if when == "before":
            attempt.cancelled = True  # the signal is on its way
        refused(run, changed=changed)
        if when == "after":
            attempt.cancel()

    monkeypatch.setattr(group, "child_refused", child_refused)
    os.kill(first, signal.SIGSTOP)
    executing = scene.execute(attempt)
    await asyncio.sleep(0.1)
    os.kill(first, signal.SIGKILL)
    with pytest.raises(asyncio.CancelledError):
        await executing
    assert not group.waiting
    assert await scene.run("warm.pid") != first
    assert not (tmp_path / "calls").exists()


@pytest.mark.parametrize("function", ["warm.sleep", "warm.stubborn"])
async def test_a_cancelled_run_ends_and_its_process_is_not_used_again(scene: Scene, function: str) -> None:
    attempt = scene.attempt(function, grace="1s")
    executing = scene.execute(attempt)
    pid = await printed_pid(attempt)
    attempt.cancel()
    ended = failure(await executing)
    assert ended.exit_code == (143 if function == "warm.sleep" else 137)
    assert not runs(pid)
    assert await scene.run("warm.pid") != pid


async def test_a_run_that_is_cancelled_while_it_waits_is_not_executed(tmp_path: Path) -> None:
    scene = Scene(max_children=1)
    blocking = scene.attempt("warm.sleep")
    busy = scene.execute(blocking)
    await printed_pid(blocking)
    waiting = scene.execute(scene.attempt("warm.witness", path=str(tmp_path / "calls")))
    await asyncio.sleep(0.05)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    blocking.cancel(force=True)
    await busy
    assert await scene.run("warm.pid")
    assert not (tmp_path / "calls").exists()
    await scene.close()


async def test_an_interrupted_run_takes_its_process_with_it(scene: Scene) -> None:
    attempt = scene.attempt("warm.sleep")
    executing = scene.execute(attempt)
    pid = await printed_pid(attempt)
    executing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await executing
    await until(lambda: not runs(pid))


async def test_a_suspended_run_continues(scene: Scene) -> None:
    attempt = scene.attempt("warm.pid", seconds=0.5)
    executing = scene.execute(attempt)
    await until(lambda: hasattr(attempt, "suspend"))
    attempt.suspend()
    (pid,) = scene.pids
    await until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    attempt.resume()
    assert result(await executing) == pid
    assert await scene.run("warm.pid") != pid, "a late signal would suspend another run"


async def test_a_suspended_run_leaves_its_place_to_another_one() -> None:
    """The slots of a preempted run are free, so the run that got them must not wait for its child."""
    scene = Scene(max_children=1)
    low = scene.attempt("warm.pid", seconds=0.3)
    executing = scene.execute(low)
    await until(lambda: hasattr(low, "suspend"))
    low.suspend()
    for tenant in ("default", "other"):
        assert await scene.run("warm.pid", tenant=tenant)
    assert not executing.done()
    low.resume()
    assert result(await executing)
    await scene.close()


async def test_children_die_with_their_guard_and_new_ones_replace_them(scene: Scene) -> None:
    idle = await scene.run("warm.pid", tenant="other")
    attempt = scene.attempt("warm.sleep")
    executing = scene.execute(attempt)
    busy = await printed_pid(attempt)
    assert scene.guard.pid is not None
    os.kill(scene.guard.pid, signal.SIGKILL)
    assert "guard process died" in failure(await executing).message
    await until(lambda: not runs(idle) and not runs(busy))
    assert await scene.run("warm.pid", tenant="other") != idle


async def test_nothing_starts_after_the_deadline_of_the_guard(scene: Scene, tmp_path: Path) -> None:
    idle = await scene.run("warm.pid")
    calls = tmp_path / "calls"
    scene.guard.renew(monotonic() - 1)
    await until(lambda: not runs(idle))  # a run that it has read when it is killed ends like every killed run
    ended = failure(await scene.execute(scene.attempt("warm.witness", path=str(calls))))
    assert ended.message == "not started: the worker's lease had lapsed"
    scene.guard.renew(monotonic() + 60_000_000)
    await scene.run("warm.witness", path=str(calls))
    assert calls.read_text() == "called\n"


async def test_a_child_looks_at_the_deadline_itself(scene: Scene, tmp_path: Path) -> None:
    """The guard may be stopped while the deadline passes."""
    await scene.run("warm.pid")
    pid = scene.guard.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    scene.guard.renew(monotonic() - 1)
    executing = scene.execute(scene.attempt("warm.witness", path=str(tmp_path / "calls")))
    assert failure(await executing).message == "not started: the worker's lease had lapsed"
    os.kill(pid, signal.SIGCONT)
    assert not (tmp_path / "calls").exists()


# --- source files -----------------------------------------------------------------------------------------------------


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Writes a module with a task, and another one that it imports."""
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"changing_{os.getpid()}"

    def write(answer: int, imported: int) -> None:
        (tmp_path / f"{name}_library.py").write_text(f"VALUE = {imported}\n")
        (tmp_path / f"{name}.py").write_text(
            textwrap.dedent(
                f"""
                import timeball, {name}_library
                @timeball.task("changing.value", mode="process")
                def value():
                    return [{answer}, {name}_library.VALUE]
                """
            )
        )

    write(1, 1)
    __import__(name)
    return write


async def test_a_changed_source_file_holds_for_the_next_run(scene: Scene, module: Callable[..., None]) -> None:
    assert await scene.run("changing.value") == [1, 1]
    module(22, 1)
    assert await scene.run("changing.value") == [22, 1]
    module(22, 333)
    await asyncio.sleep(1.1)
    assert await scene.run("changing.value") == [22, 333]


# --- how many children there are --------------------------------------------------------------------------------------


async def test_a_child_ends_after_many_runs(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_module, "MAX_RUNS", 3)
    pids = [await scene.run("warm.pid") for _ in range(7)]
    assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [3, 3, 1]


async def test_children_are_added_while_calls_are_long_up_to_the_maximum() -> None:
    scene = Scene(max_children=4, cpus=1)
    running = [scene.execute(scene.attempt("warm.pid", seconds=1)) for _ in range(8)]
    most = 0
    while not all(each.done() for each in running):
        most = max(most, len(scene.pids) if scene.guard.pid else 0)
        await asyncio.sleep(0.01)
    assert len({result(await each) for each in running}) == most == 4
    await scene.close()


async def test_short_calls_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes_module, "MAX_WAIT", 60.0)
    monkeypatch.setattr(processes_module, "LOOK_INTERVAL", 1.0)
    scene = Scene(max_children=30, cpus=2)
    pids = await asyncio.gather(*(scene.run("warm.pid") for _ in range(100)))
    assert len(set(pids)) <= 2
    await scene.close()


async def test_a_module_without_a_child_gets_the_place_of_another() -> None:
    scene = Scene(max_children=1)
    first = await scene.run("warm.pid")
    assert await scene.run("process.add", a=1, b=2), "an idle child makes room"
    assert not runs(first)
    stopped = False

    async def keep_busy() -> None:
        while not stopped:
            await scene.run("warm.pid", seconds=0.01)

    load = [asyncio.create_task(keep_busy()) for _ in range(3)]
    await asyncio.sleep(0.2)
    assert await scene.run("process.add", a=1, b=2), "a busy child makes room after its run"
    stopped = True
    await asyncio.gather(*load)
    await scene.close()


async def test_idle_children_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes_module, "SURPLUS_TIMEOUT", 0.1)
    scene = Scene(max_children=4, cpus=1)
    await asyncio.gather(*(scene.run("warm.pid", seconds=1) for _ in range(3)))
    await until(lambda: len(scene.pids) == 1)
    monkeypatch.setattr(processes_module, "IDLE_TIMEOUT", 0.2)
    await until(lambda: not scene.pids)
    await until(lambda: not scene.processes._groups)
    await scene.close()


async def test_a_warm_run_costs_the_guard_nothing(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    await scene.run("warm.pid")
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(scene.guard, "_send", lambda message, descriptors: sent.append(message))
    for _ in range(20):
        await scene.run("warm.pid")
    assert sent == []
