"""A process gets no signal that was meant for an earlier process with the same number."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from timeball.executors.guard import orphans, process_table

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's /proc")


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """The leader of a session."""
    started = subprocess.Popen(["sleep", "600"], start_new_session=True)
    yield started
    started.kill()
    started.wait()


def test_a_process_is_signalled_only_as_the_child_of_its_parent(process: subprocess.Popen[bytes]) -> None:
    process_table.signal_child(process.pid, signal.SIGKILL, {1})
    assert process.poll() is None
    process_table.signal_child(process.pid, signal.SIGKILL, {os.getpid()})
    assert process.wait() == -signal.SIGKILL


@pytest.mark.parametrize("has_pidfd", [True, False])
def test_a_tree_is_killed_from_the_bottom(monkeypatch: pytest.MonkeyPatch, has_pidfd: bool) -> None:
    if not has_pidfd:
        monkeypatch.delattr(os, "pidfd_open")
    tree = subprocess.Popen(["sh", "-c", "sh -c 'echo $$; sleep 600' & wait"], stdout=subprocess.PIPE, text=True)
    assert tree.stdout is not None
    below = int(tree.stdout.readline())
    process_table.kill_tree(tree.pid)
    assert tree.wait() == -signal.SIGKILL
    tree.stdout.read()  # ends with the last process that has it
    tree.stdout.close()
    assert process_table.parent(below) in (process_table.UNKNOWN, 1) or not os.path.exists(f"/proc/{below}/exe")


def test_a_process_name_that_is_not_text_is_read() -> None:
    named = (
        "import ctypes, sys; ctypes.CDLL(None).prctl(15, b'\\xff) 1 (', 0, 0, 0); print(flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", named], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert process_table.parent(process.pid) == os.getpid()


def test_an_orphan_is_killed_unless_its_number_was_given_away(process: subprocess.Popen[bytes]) -> None:
    """I7: the session of a job is its own as long as its main process is the one that the worker knew."""
    orphans.kill({process.pid: orphans.since_boot() - 60}, set())
    assert process.poll() is None
    orphans.kill({process.pid: orphans.since_boot()}, set())
    assert process.wait() == -signal.SIGKILL


def test_an_orphan_is_known_by_its_mark() -> None:
    with subprocess.Popen(["sleep", "600"], env={"MARK": "x/1", "PATH": os.defpath}, start_new_session=True) as process:
        orphans.kill({}, {b"MARK=x/10"})
        assert process.poll() is None
        orphans.kill({}, {b"MARK=x/1"})
        assert process.wait() == -signal.SIGKILL
