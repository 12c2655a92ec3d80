"""A new process makes the system calls of its table, shares the memory of this process, and changes nothing of it."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from timeball.executors.guard import vfork_code
from timeball.executors.guard.vfork import MACHINE, MAX_RESULT, CallTable, Vfork, call
from timeball.executors.guard.vfork_start import SIG_SETMASK, SIGNAL_SET_SIZE, Strings

pytestmark = pytest.mark.skipif(vfork_code.code(MACHINE) is None, reason="there is no code for this machine")

Run = Callable[..., tuple[int, CallTable]]
NEVER = call("getpid", low=MAX_RESULT) if MACHINE in vfork_code.LISTINGS else b""
INTEL = "x86_64"


@pytest.fixture
def run() -> Run:
    vfork = Vfork()

    def run(strings: Strings, *calls: bytes, table: CallTable | None = None) -> tuple[int, CallTable]:
        """Start a process that makes these calls and then executes a command. Return its wait status."""
        table = table or CallTable(20)
        execute = [
            call("execve", path, strings.argv, strings.env, low=-errno.ENOENT, high=-errno.ENOENT)
            for path in strings.paths
        ]
        table.fill([*calls, *execute, NEVER])
        pid = vfork.start(table)
        assert pid == table.pid > 0
        return os.waitpid(pid, 0)[1], table

    return run


def command(*argv: str, cwd: str = "/") -> Strings:
    return Strings(argv, {}, cwd)


def test_a_program_is_executed_with_its_arguments_and_its_environment_in_its_folder(run: Run, tmp_path: Path) -> None:
    code = "import json, os, sys; open('seen', 'w').write(json.dumps([sys.argv, dict(os.environ), os.getppid()]))"
    strings = Strings([sys.executable, "-I", "-S", "-c", code, "é"], {"LC_ALL": "C.UTF-8", "A": "b=ü"}, str(tmp_path))
    status, table = run(strings, call("chdir", strings.cwd))
    assert (status, table.has_failed) == (0, False)
    seen = (tmp_path / "seen").read_text()
    assert seen == f'[["-c", "\\u00e9"], {{"LC_ALL": "C.UTF-8", "A": "b=\\u00fc"}}, {os.getpid()}]'


def test_the_first_program_of_the_search_path_is_executed(run: Run, tmp_path: Path) -> None:
    for name in ("none", "first", "second"):
        (tmp_path / name).mkdir()
    for name, status in (("first", 3), ("second", 4)):
        program = tmp_path / name / "program"
        program.write_text(f"#!/bin/sh\nexit {status}\n")
        program.chmod(0o700)
    path = os.pathsep.join(str(tmp_path / name) for name in ("none", "first", "second"))
    status, _ = run(Strings(["program"], {"PATH": path}, "/"))
    assert os.waitstatus_to_exitcode(status) == 3


def test_no_call_follows_one_that_failed(run: Run, tmp_path: Path) -> None:
    strings = command("/bin/sh", "-c", "exit 3", cwd=str(tmp_path / "missing"))
    status, table = run(strings, call("chdir", strings.cwd))
    assert (os.waitstatus_to_exitcode(status), table.has_failed) == (127, True)


def test_a_call_whose_result_is_another_than_expected_has_failed(run: Run) -> None:
    own = os.getpid()
    assert not run(command("/bin/true"), call("getppid", low=own, high=own))[1].has_failed
    for low, high in ((own + 1, own + 1), (1, own - 1)):
        status, table = run(command("/bin/true"), call("getppid", low=low, high=high))
        assert (os.waitstatus_to_exitcode(status), table.has_failed) == (127, True)


def test_a_program_that_does_not_exist_is_no_success(run: Run) -> None:
    assert run(command("no-such-program"))[1].has_failed


def test_a_table_can_be_used_again_after_a_failure(run: Run) -> None:
    table = CallTable(20)
    assert run(command("no-such-program"), table=table)[1].has_failed
    assert not run(command("true"), table=table)[1].has_failed


def test_the_signal_mask_of_this_thread_stays(run: Run) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    try:
        expected = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        run(command("true"))
        run(command("no-such-program"))
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == expected
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_a_process_can_restore_the_signal_mask(run: Run, tmp_path: Path) -> None:
    strings = command("sh", "-c", "exec grep SigBlk /proc/self/status > mask", cwd=str(tmp_path))
    table = CallTable(20)
    mask = call("rt_sigprocmask", SIG_SETMASK, table.signal_mask, 0, SIGNAL_SET_SIZE)
    run(strings, call("chdir", strings.cwd), mask, table=table)
    (own,) = (line for line in Path("/proc/thread-self/status").read_text().splitlines() if line.startswith("SigBlk"))
    assert (tmp_path / "mask").read_text().split() == own.split()


def test_the_user_the_session_and_the_folder_of_this_process_stay(run: Run) -> None:
    before = os.getresuid(), os.getsid(0), os.getcwd()
    strings = command("true")
    user = before[0][0] or 65_534
    calls = [call("setsid"), call("chdir", strings.cwd), call("setresuid", user, user, user)]
    assert not run(strings, *calls)[1].has_failed
    assert (os.getresuid(), os.getsid(0), os.getcwd()) == before


def test_descriptors_of_this_process_stay(run: Run, tmp_path: Path) -> None:
    strings = command("sh", "-c", "echo written")
    with (tmp_path / "output").open("wb") as file:
        before = os.fstat(1)
        run(strings, call("dup3", file.fileno(), 1, 0))
        assert os.fstat(1) == before
    assert (tmp_path / "output").read_text() == "written\n"


@pytest.mark.parametrize(
    ("argv", "env", "cwd"),
    [
        (["a\0b"], {}, "/"),
        (["a"], {"A": "\0"}, "/"),
        (["a"], {}, "/\0"),
        (["a"], {"": "b"}, "/"),
        (["a"], {"A=": "b"}, "/"),
        (["\ud800"], {}, "/"),
    ],
)
def test_strings_that_no_command_can_have_are_refused(argv: Sequence[str], env: dict[str, str], cwd: str) -> None:
    with pytest.raises(ValueError, match=r"NUL|name|surrogates"):
        Strings(argv, env, cwd)


def test_a_table_that_is_too_small_is_refused() -> None:
    with pytest.raises(ValueError, match="too many calls"):
        CallTable(1).fill([NEVER, NEVER])


def test_the_memory_of_the_code_cannot_be_written() -> None:
    vfork = Vfork()
    address = ctypes.cast(vfork._run, ctypes.c_void_p).value
    assert address is not None
    lines = Path("/proc/self/maps").read_text().splitlines()
    ranges = [(*(int(part, 16) for part in line.split()[0].split("-")), line.split()[1]) for line in lines]
    assert [access for low, high, access in ranges if low <= address < high] == ["r-xp"]


@pytest.mark.parametrize(
    ("machine", "assembler"),
    [
        (INTEL, ["as", "--64", "-o"]),
        (INTEL, ["llvm-mc", "-triple=x86_64", "-filetype=obj", "-o"]),
        ("aarch64", ["llvm-mc", "-triple=aarch64", "-filetype=obj", "-o"]),
    ],
)
def test_the_bytes_of_a_listing_are_those_of_an_assembler(machine: str, assembler: list[str], tmp_path: Path) -> None:
    copier = shutil.which("llvm-objcopy") or (shutil.which("objcopy") if machine == MACHINE else None)
    if shutil.which(assembler[0]) is None or copier is None or (assembler[0] == "as" and machine != MACHINE):
        pytest.skip(f"no {assembler[0]} for {machine}")
    source = [".intel_syntax noprefix"] if machine == INTEL else []
    for line in vfork_code.LISTINGS[machine].splitlines():
        found = re.match(r"(\w+:)? *(.*?)(   .*)?$", line[vfork_code.BYTES_WIDTH :])
        assert found is not None
        source.append(f"{found[1] or ''} {found[2]}")
    (tmp_path / "code.s").write_text("\n".join([*source, ""]))
    subprocess.run([*assembler, str(tmp_path / "code.o"), str(tmp_path / "code.s")], check=True)
    subprocess.run(
        [copier, "-O", "binary", "-j", ".text", str(tmp_path / "code.o"), str(tmp_path / "code")], check=True
    )
    assert (tmp_path / "code").read_bytes() == vfork_code.code(machine)
