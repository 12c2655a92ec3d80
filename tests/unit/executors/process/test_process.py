"""Shell and script jobs as real processes: their environment and output, how they end, and that no process remains."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
import tempfile
import textwrap
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil
import pytest
from msgspec import Raw

from tests.unit.executing import RecordedAttempt
from timeball.domain.run.lifecycle import Failed, Failure, Outcome, Succeeded
from timeball.domain.task.task import Script, Shell
from timeball.executors.guard.guard import ProcessGuard
from timeball.executors.process.process import Processes
from timeball.executors.script import ScriptExecutor
from timeball.executors.shell import ShellExecutor

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a subreaper")


@pytest.fixture
async def guard() -> AsyncIterator[ProcessGuard]:
    guard = ProcessGuard()
    yield guard
    pid = guard.pid
    await guard.close()
    assert pid is None or not psutil.pid_exists(pid)


@pytest.fixture
def shell(guard: ProcessGuard) -> ShellExecutor:
    return ShellExecutor(Processes(guard))


def failure(outcome: Outcome) -> Failure:
    assert isinstance(outcome, Failed), outcome
    return outcome.failure


async def until(condition: Callable[[], object]) -> None:
    while True:
        if condition():
            return
        await asyncio.sleep(0.01)


async def gone(pid: int) -> None:
    await until(lambda: not runs(pid))


def runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def written(path: Path) -> int:
    """The number somebody writes into the file."""
    await until(lambda: path.exists() and path.read_text().endswith("\n"))
    return number_in(path)


def number_in(path: Path) -> int:
    return int(path.read_text())


async def test_output_is_captured_and_exit_code_0_succeeds(shell: ShellExecutor) -> None:
    attempt = RecordedAttempt(Shell(command="echo out; echo err >&2"))
    assert await shell.execute(attempt) == Succeeded()
    assert (attempt.text("stdout"), attempt.text("stderr")) == ("out\n", "err\n")


async def test_an_argv_list_is_not_interpreted(shell: ShellExecutor) -> None:
    attempt = RecordedAttempt(Shell(command=["echo", "$HOME", "; ls", "é"]))
    assert await shell.execute(attempt) == Succeeded()
    assert attempt.text() == "$HOME ; ls é\n"


async def test_the_environment_is_clean_and_says_what_it_is_for(
    shell: ShellExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_WORKER", "x")
    attempt = RecordedAttempt(Shell(command="env -0; umask", env={"MINE": "a\nb"}), days=30)
    assert await shell.execute(attempt) == Succeeded()
    *entries, umask = attempt.text().split("\0" if "\0" in attempt.text() else "\ufffd")
    env = dict(entry.split("=", 1) for entry in entries)
    assert umask.strip() == "0077"
    assert "SECRET_OF_THE_WORKER" not in env
    assert env["MINE"] == "a\nb"
    assert env["PATH"] == os.environ["PATH"]
    assert env["TIMEBALL_JOB_ID"] == attempt.job_id
    assert env["TIMEBALL_RUN_ID"] == attempt.run_id
    assert (env["TIMEBALL_ATTEMPT"], env["TIMEBALL_FENCING_TOKEN"]) == ("2", "17")
    assert env["TIMEBALL_FIRE_TIME"] == "2026-01-01T00:00:00Z"
    assert json.loads(env["TIMEBALL_PARAMETERS"]) == {"days": 30}
    version, trace, span, flags = env["TRACEPARENT"].split("-")
    assert (version, len(trace), len(span), flags) == ("00", 32, 16, "01")


async def test_it_is_alone_with_its_descriptors_in_an_empty_folder_that_goes_away(shell: ShellExecutor) -> None:
    alone = "os.getpgid(0) == os.getpid() == os.getsid(0)"
    code = f"import os; print(os.getcwd(), os.listdir(), {alone}, os.listdir('/dev/fd')); open('left', 'w')"
    attempt = RecordedAttempt(Shell(command=[sys.executable, "-c", code]))
    assert await shell.execute(attempt) == Succeeded()
    folder, rest = attempt.text().split(" ", 1)
    # 3 is the descriptor of the listing itself.
    assert rest == "[] True ['0', '1', '2', '3']\n"
    assert os.path.basename(folder) not in os.listdir(tempfile.gettempdir())


async def test_a_folder_of_its_own_choice(shell: ShellExecutor, tmp_path: Path) -> None:
    attempt = RecordedAttempt(Shell(command="pwd; cat", cwd=str(tmp_path)))
    assert await shell.execute(attempt) == Succeeded()
    assert attempt.text() == f"{tmp_path}\n"
    missing = failure(await shell.execute(RecordedAttempt(Shell(command="pwd", cwd=str(tmp_path / "no")))))
    assert missing.kind == "worker"
    assert "no such file" in missing.message
    assert str(tmp_path / "no") in missing.message


async def test_a_failure_carries_its_exit_code_and_last_words(shell: ShellExecutor) -> None:
    ended = failure(await shell.execute(RecordedAttempt(Shell(command="echo why >&2; exit 3"))))
    assert (ended.kind, ended.exit_code, ended.message) == ("exit", 3, "exit code 3: why")
    ended = failure(await shell.execute(RecordedAttempt(Shell(command="kill -SEGV $$"))))
    assert (ended.kind, ended.exit_code, ended.message) == ("exit", 139, "killed by SIGSEGV (exit code 139)")


async def test_what_cannot_be_started_says_which_program(shell: ShellExecutor, tmp_path: Path) -> None:
    ended = failure(await shell.execute(RecordedAttempt(Shell(command=["no-such-program"]))))
    assert (ended.kind, ended.message) == (
        "worker",
        "cannot run 'no-such-program' on this worker: no such file or directory",
    )
    (tmp_path / "data").write_text("x")
    ended = failure(await shell.execute(RecordedAttempt(Shell(command=[str(tmp_path / "data")]))))
    assert "permission denied" in ended.message
    ended = failure(await shell.execute(RecordedAttempt(Shell(command=["echo", "a\0b"]))))
    assert "NUL" in ended.message
    ended = failure(await shell.execute(RecordedAttempt(Shell(command=["echo", *["x" * 65_000] * 40]))))
    assert "argument list too long" in ended.message


async def test_progress_lines_are_understood_and_kept(shell: ShellExecutor) -> None:
    command = (
        "echo ::progress 10; printf '::prog'; sleep 0.1; printf 'ress 50.5%% half way\\n';"
        "printf 'x ::progress 60\\n::progress no\\n::progress 100'"
    )
    attempt = RecordedAttempt(Shell(command=command))
    assert await shell.execute(attempt) == Succeeded()
    assert attempt.steps == [(0.1, ""), (0.505, "half way"), (1.0, "")]
    assert "::progress 10\n" in attempt.text()


@pytest.mark.parametrize(
    ("command", "result"),
    [
        ("""echo '::result {"rows": [1, 2]}'""", b'{"rows": [1, 2]}'),
        ("echo ::result 1; echo ::progress 10; echo ' ::result 3'; echo ::results 4; printf '::result  2  '", b"2"),
        ("""printf '::res'; sleep 0.1; printf 'ult "a'; sleep 0.1; printf 'b"\\n'; echo bye""", b'"ab"'),
        ("""printf '::result "'; head -c 200000 /dev/zero | tr '\\0' x; echo '"'""", b'"' + b"x" * 200_000 + b'"'),
    ],
)
async def test_the_result_is_what_the_last_such_line_says(shell: ShellExecutor, command: str, result: bytes) -> None:
    assert await shell.execute(RecordedAttempt(Shell(command=command))) == Succeeded(Raw(result))


async def test_a_result_that_says_nothing_is_none(shell: ShellExecutor) -> None:
    assert await shell.execute(RecordedAttempt(Shell(command="echo ::result null"))) == Succeeded()


async def test_a_result_does_not_save_a_process_that_failed(shell: ShellExecutor) -> None:
    assert (
        "exit code 3" in failure(await shell.execute(RecordedAttempt(Shell(command="echo ::result 1; exit 3")))).message
    )


async def test_output_that_is_not_utf_8(shell: ShellExecutor) -> None:
    attempt = RecordedAttempt(Shell(command=r"printf '\303'; sleep 0.1; printf '\251\377'"))
    assert await shell.execute(attempt) == Succeeded()
    assert attempt.text() == "é\ufffd"


STUBBORN = (
    "import signal, os, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "print(os.getpid(), flush=True); time.sleep(600)"
)


async def test_a_process_that_ignores_sigterm_dies_with_its_children_after_the_grace(
    shell: ShellExecutor, tmp_path: Path
) -> None:
    child = f"{sys.executable} -c {shlex.quote(STUBBORN)}"
    attempt = RecordedAttempt(Shell(command=f"trap '' TERM; {child} > {tmp_path}/child & {child}; wait"), grace="200ms")
    executing = asyncio.create_task(shell.execute(attempt))
    pid = await written(tmp_path / "child")
    await until(attempt.text)
    attempt.cancel()
    began = time.monotonic()
    assert failure(await executing).exit_code == 137
    assert time.monotonic() - began < 60, "and not after the 600 s of the process"
    await gone(pid)
    await gone(int(attempt.text()))


async def test_a_process_may_end_by_itself_within_the_grace(shell: ShellExecutor) -> None:
    attempt = RecordedAttempt(Shell(command="trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.05; done"))
    executing = asyncio.create_task(shell.execute(attempt))
    await until(attempt.text)
    attempt.cancel()
    assert failure(await executing).exit_code == 7
    assert attempt.text() == "up\nbye\n"


async def test_a_process_stands_still_goes_on_and_can_be_stopped_for_good_meanwhile(
    shell: ShellExecutor, tmp_path: Path
) -> None:
    file = tmp_path / "count"
    command = f"(while :; do echo x >> {shlex.quote(str(file))}; sleep 0.01; done) & wait"
    attempt = RecordedAttempt(Shell(command=command))
    executing = asyncio.create_task(shell.execute(attempt))
    await until(lambda: file.exists() and file.read_text())
    attempt.suspend()
    group = psutil.Process(os.getpid()).children(recursive=True)
    await until(lambda: any(each.status() == psutil.STATUS_STOPPED for each in group))
    size = file.stat().st_size
    attempt.resume()
    await until(lambda: file.stat().st_size > size + 2)
    attempt.suspend()
    attempt.cancel()
    assert isinstance(await executing, Failed), "it saw the signal although it stood still"


async def test_cancelled_before_its_process_exists(shell: ShellExecutor) -> None:
    attempt = RecordedAttempt(Shell(command="sleep 600"))
    attempt.cancel(force=True)
    assert failure(await shell.execute(attempt)).exit_code == 137


async def test_the_end_of_a_job_ends_its_group(shell: ShellExecutor) -> None:
    attempt = RecordedAttempt(Shell(command="sleep 600 & echo $!"))
    assert await shell.execute(attempt) == Succeeded()
    await gone(int(attempt.text()))


DAEMON = """
    import os, sys, time
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            with open(sys.argv[1], "w") as file:
                print(os.getpid(), file=file)
            time.sleep(600)
        os._exit(0)
    os.wait()
    while not os.path.exists(sys.argv[1]) or not os.path.getsize(sys.argv[1]):
        time.sleep(0.01)
    time.sleep(float(sys.argv[2]))
"""


@linux_only
@pytest.mark.parametrize("how", ["ends", "is cancelled"])
async def test_a_daemon_that_escaped_its_group_dies_with_its_job(
    shell: ShellExecutor, tmp_path: Path, how: str
) -> None:
    code = textwrap.dedent(DAEMON)
    bystander = RecordedAttempt(
        Shell(command=f"{sys.executable} -c {shlex.quote(code)} {tmp_path}/other 600"), token=18
    )
    other = asyncio.create_task(shell.execute(bystander))
    await written(tmp_path / "other")
    lasts = "0" if how == "ends" else "600"
    attempt = RecordedAttempt(
        Shell(command=[sys.executable, "-c", code, str(tmp_path / "daemon"), lasts]), grace="10ms"
    )
    executing = asyncio.create_task(shell.execute(attempt))
    pid = await written(tmp_path / "daemon")
    if how == "is cancelled":
        attempt.cancel()
    await executing
    await gone(pid)
    spared = number_in(tmp_path / "other")
    assert psutil.pid_exists(spared), "another job's daemon is none of its business"
    bystander.cancel(force=True)
    await other
    await gone(spared)


async def test_a_flood_of_output_ends_and_starves_nobody(shell: ShellExecutor) -> None:
    flood = RecordedAttempt(Shell(command="exec yes"), token=18)
    flood.log = lambda stream, text: None  # type: ignore[method-assign]
    flooding = asyncio.create_task(shell.execute(flood))
    for token in range(20, 30):
        attempt = RecordedAttempt(Shell(command="echo quiet"), token=token)
        assert await shell.execute(attempt) == Succeeded()
        assert attempt.text() == "quiet\n"
    flood.cancel()
    assert failure(await flooding).exit_code == 143


async def test_many_at_once_and_no_descriptor_stays_open(shell: ShellExecutor, guard: ProcessGuard) -> None:
    await shell.execute(RecordedAttempt(Shell(command="true")))
    before = len(os.listdir("/dev/fd"))
    attempts = [RecordedAttempt(Shell(command=["echo", str(token)]), token=token) for token in range(60)]
    outcomes = await asyncio.gather(*(shell.execute(attempt) for attempt in attempts))
    assert outcomes == [Succeeded()] * 60
    assert [attempt.text() for attempt in attempts] == [f"{token}\n" for token in range(60)]
    assert len(os.listdir("/dev/fd")) == before


async def test_large_parameters_reach_a_script_on_its_standard_input(guard: ProcessGuard, tmp_path: Path) -> None:
    (tmp_path / "count.py").write_text(
        "import sys, json, os\n"
        "print(len(json.load(sys.stdin)['text']), 'TIMEBALL_PARAMETERS' in os.environ, sys.argv[1:])"
    )
    scripts = ScriptExecutor(Processes(guard), tmp_path)
    for size, in_env in ((10, True), (300_000, False)):
        attempt = RecordedAttempt(Script(script="count.py", args=["a", "b"]), text="x" * size)
        assert await scripts.execute(attempt) == Succeeded()
        assert attempt.text() == f"{size} {in_env} ['a', 'b']\n"


async def test_scripts_are_found_inside_their_folder_only(guard: ProcessGuard, tmp_path: Path) -> None:
    folder = tmp_path / "scripts"
    (folder / "sub").mkdir(parents=True)
    scripts = ScriptExecutor(Processes(guard), folder)
    (folder / "sub" / "hello.sh").write_text("echo hello")
    attempt = RecordedAttempt(Script(script="sub/hello.sh"))
    assert await scripts.execute(attempt) == Succeeded()
    assert attempt.text() == "hello\n"
    (folder / "direct").write_text("#!/bin/sh\necho direct")
    assert "chmod +x" in failure(await scripts.execute(RecordedAttempt(Script(script="direct")))).message
    (folder / "direct").chmod(0o755)
    attempt = RecordedAttempt(Script(script="direct"))
    assert await scripts.execute(attempt) == Succeeded()
    assert attempt.text() == "direct\n"
    (tmp_path / "outside.sh").write_text("echo outside")
    (folder / "link.sh").symlink_to(tmp_path / "outside.sh")
    assert "is a link out of" in failure(await scripts.execute(RecordedAttempt(Script(script="link.sh")))).message
    missing = failure(await scripts.execute(RecordedAttempt(Script(script="missing.sh"))))
    assert (missing.kind, "put it there" in missing.message) == ("worker", True)
