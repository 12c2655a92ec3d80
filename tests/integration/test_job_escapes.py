"""I31: ways out of a job's Landlock domain that go through the kernel, through signals and through replaced links."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.integration.test_confined_jobs import domain, run
from tests.support.guard_programs import Guarded
from tests.support.ordinary_user import NEEDS_LANDLOCK, NEEDS_ROOT, shared_folder
from tests.unit.executing import RecordedAttempt
from timeball.domain.task.task import Shell
from timeball.executors.guard.confiner import Confiner
from timeball.executors.guard.guard import ProcessGuard
from timeball.executors.process.process import Processes
from timeball.executors.sandbox import landlock
from timeball.executors.sandbox.confinement import Confinement
from timeball.executors.shell import ShellExecutor

pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("guard_program")]
NEEDS_SCOPES = pytest.mark.skipif(landlock.abi() < 6, reason="needs Landlock (ABI 6)")


@pytest.fixture
def folder() -> Iterator[Path]:
    with shared_folder("/var/tmp") as folder:
        yield folder.resolve()


@pytest.fixture
async def sibling(guarded: Guarded) -> AsyncIterator[tuple[ProcessGuard, str]]:
    """A guard, and the process id of a job that it runs."""
    guard = guarded(domain(Path("/nowhere")))
    attempt = RecordedAttempt(Shell(command="echo $$; exec sleep 600", env={"SECRET": "x"}), token=18)
    sleeping = asyncio.create_task(ShellExecutor(Processes(guard)).execute(attempt))
    while not attempt.text().endswith("\n"):
        await asyncio.sleep(0.01)
    yield guard, attempt.text().strip()
    attempt.cancel(force=True)
    await sleeping


BY_HANDLE = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
handle, mount = (ctypes.c_uint32 * 34)(128), ctypes.c_int()
libc.name_to_handle_at(-100, sys.argv[1].encode(), handle, ctypes.byref(mount), 0)
clone = libc.syscall(428, -100, sys.argv[2].encode(), 1)
print("clone", os.strerror(ctypes.get_errno()) if clone < 0 else "made")
for folder in (clone, os.open(sys.argv[2], os.O_PATH)):
    if folder < 0:
        continue
    opened = libc.open_by_handle_at(os.open(".", os.O_RDONLY, dir_fd=folder), handle, os.O_RDONLY)
    print("handle", os.strerror(ctypes.get_errno()) if opened < 0 else os.read(opened, 100))
"""


@NEEDS_LANDLOCK
@NEEDS_ROOT
async def test_a_file_handle_opens_no_protected_file(guarded: Guarded, folder: Path) -> None:
    (folder / "data").mkdir()
    (folder / "open").mkdir()
    (folder / "data" / "key").write_text("secret")
    guard = guarded(domain(folder / "data"))
    fine, said = await run(guard, [sys.executable, "-c", BY_HANDLE, f"{folder}/data/key", f"{folder}/open"])
    assert (fine, said) == (True, "clone Operation not permitted\nhandle Operation not permitted\n")


SWAP = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for name in ("swapon", "swapoff"):
    assert getattr(libc, name)(b"/nowhere/at/all", 0) == -1
    print(os.strerror(ctypes.get_errno()))
assert libc.reboot(0x7777) == -1
print(os.strerror(ctypes.get_errno()))
"""


@NEEDS_LANDLOCK
@NEEDS_ROOT
async def test_a_job_of_root_neither_swaps_nor_boots(guarded: Guarded) -> None:
    guard = guarded(domain(Path("/nowhere")))
    assert await run(guard, [sys.executable, "-c", SWAP]) == (True, "Operation not permitted\n" * 3)


@NEEDS_LANDLOCK
async def test_a_job_reads_no_environment_of_a_sibling(sibling: tuple[ProcessGuard, str]) -> None:
    guard, pid = sibling
    assert not (await run(guard, f"cat /proc/{pid}/environ"))[0]
    assert (await run(guard, "sleep 600 & cat /proc/$!/environ > /dev/null; kill $!"))[0]


@NEEDS_SCOPES
async def test_a_job_signals_only_its_own_processes(sibling: tuple[ProcessGuard, str]) -> None:
    guard, pid = sibling
    for target in (pid, f"-{pid}", "$PPID", str(os.getpid())):
        fine, said = await run(guard, f"kill -0 {target}")
        assert (fine, "not permitted" in said) == (False, True), (target, said)
    detached = f"env -i setsid sh -c 'kill -0 {os.getpid()} || echo refused; kill -0 $PPID || echo refused'"
    fine, said = await run(guard, f"{detached} 2> /dev/null & wait")
    assert (fine, said) == (True, "refused\n")
    fine, said = await run(guard, "sleep 600 & setsid sleep 600 & kill $! && kill %1 && wait; kill -TERM $$")
    assert "SIGTERM" in said


@NEEDS_SCOPES
async def test_a_job_signals_other_processes_where_it_is_said(guarded: Guarded) -> None:
    guard = guarded(Confinement(landlock=True, signals=True))
    service = await asyncio.create_subprocess_exec("sleep", "600")
    try:
        assert (await run(guard, f"kill -0 {service.pid} && kill -HUP {service.pid}"))[0]
        assert await service.wait() == -signal.SIGHUP
    finally:
        with contextlib.suppress(ProcessLookupError):
            service.kill()


@NEEDS_LANDLOCK
async def test_a_secret_behind_a_link_stays_protected_when_the_link_is_replaced(guarded: Guarded, folder: Path) -> None:
    """As Kubernetes replaces the files of a secret."""
    secrets = folder / "secrets"
    for version in ("first", "second", "third"):
        (secrets / f"..{version}").mkdir(parents=True)
        (secrets / f"..{version}" / "key").write_text(version)
    (secrets / "..data").symlink_to("..first")
    (secrets / "key").symlink_to("..data/key")
    guard = guarded(domain(secrets / "key"))
    assert not (await run(guard, f"cat {secrets}/key"))[0]
    for version in ("second", "third"):
        await asyncio.sleep(0.1)  # until the rule set may be kept
        assert not (await run(guard, f"cat {secrets}/key"))[0]
        (secrets / "..new").symlink_to(f"..{version}")
        (secrets / "..new").rename(secrets / "..data")
        for way in ("key", "..data/key", f"..{version}/key"):
            assert not (await run(guard, f"cat {secrets}/{way}"))[0], way


@NEEDS_LANDLOCK
def test_the_guard_survives_a_message_that_brings_no_rule_set() -> None:
    confiner = Confiner(use_landlock=True)
    try:
        sender = confiner._send_made
        sender.send(b'[0, [["/", 1, 2, 3]]]')
        confiner.receive()
        for content in (b"[0, [[", b"[0]", b"\xff"):
            reading, writing = os.pipe()
            socket.send_fds(sender, [content], [reading])
            os.close(reading)
            confiner.receive()
            with pytest.raises(BrokenPipeError):
                os.write(writing, b"closed")
            os.close(writing)
        assert confiner._ruleset is None
    finally:
        confiner.close()
