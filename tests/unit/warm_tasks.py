"""Tasks for warm children, and what they may leave behind in their process."""

from __future__ import annotations

import contextvars
import ctypes
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

import timeball
from timeball.tasks import Context

CALLS: list[int] = []
KEPT: list[Any] = []
WORD: contextvars.ContextVar[str] = contextvars.ContextVar("word", default="unset")
NEVER = threading.Event()


@timeball.task("warm.call", mode="process")
def call() -> dict[str, Any]:
    """What a run sees of its process."""
    CALLS.append(1)
    return {
        "pid": os.getpid(),
        "calls": len(CALLS),
        "folder": os.getcwd(),
        "files": os.listdir(),
        "environment": dict(os.environ),
        "printenv": subprocess.run(["env", "-0"], capture_output=True, check=True).stdout.decode().split("\0"),
        "umask": os.umask(0o077),
        "word": WORD.get(),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
        "usr1": str(signal.getsignal(signal.SIGUSR1)),
        "files_limit": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "stdin": sys.stdin.read(),
    }


@timeball.task("warm.fresh", mode="process", fresh=True)
def fresh() -> int:
    CALLS.append(1)
    return len(CALLS)


@timeball.task("warm.pid", mode="process")
def pid(seconds: float = 0) -> int:
    time.sleep(seconds)
    return os.getpid()


@timeball.task("warm.sleep", mode="process")
def sleep(path: str = "") -> None:
    print(os.getpid(), flush=True)
    if path:
        with open(path, "a") as file:
            file.write("began\n")
    time.sleep(600)


@timeball.task("warm.stubborn", mode="process")
def stubborn() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print(os.getpid(), flush=True)
    time.sleep(600)


@timeball.task("warm.witness", mode="process")
def witness(path: str) -> int:
    with open(path, "a") as file:
        file.write("called\n")
    return os.getpid()


@timeball.task("warm.say", mode="process")
def say(text: str) -> int:
    sys.stdout.buffer.write(bytes.fromhex(text))
    print("to stderr", file=sys.stderr)
    print("::progress 50 half")
    return os.getpid()


@timeball.task("warm.flood", mode="process")
def flood(lines: int, dies: bool) -> int:
    """Sends lines to the worker that are no messages."""
    os.write(3, b"x\n" * lines)
    if dies:
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


@timeball.task("warm.keep_context", mode="process")
def keep_context(ctx: Context) -> int:
    WORD.set(ctx.run_id)
    KEPT.append(ctx)
    return os.getpid()


@timeball.task("warm.use_kept_context", mode="process")
def use_kept_context() -> list[Any]:
    for ctx in KEPT:
        ctx.log("late")
        ctx.progress(0.9, "late")
    return [os.getpid(), len(KEPT)]


@timeball.task("warm.write_files", mode="process")
def write_files() -> list[Any]:
    os.mkdir("deep")
    for path in ("file", "deep/file"):
        with open(path, "w") as file:
            file.write("content")
    os.symlink("/", "link")
    return [os.getpid(), os.getcwd()]


@timeball.task("warm.deep_folders", mode="process")
def deep_folders() -> str:
    """Leaves so many that to remove them takes more calls within each other than Python allows."""
    folder = os.getcwd()
    for _ in range(sys.getrecursionlimit() + 10):
        os.mkdir("d")
        os.chdir("d")
    os.chdir(folder)
    return folder


def _detached() -> None:
    """A process that leaves its session, with a child of its own."""
    script = 'setsid sh -c "sleep 600 & echo \\$! > detached; wait" &'
    subprocess.run(["sh", "-c", script], check=True)
    while not (os.path.exists("detached") and os.path.getsize("detached")):
        time.sleep(0.01)
    print(open("detached").read())  # noqa: SIM115


def _thread() -> None:
    threading.Thread(target=NEVER.wait, daemon=True).start()


def _alarm() -> None:
    signal.setitimer(signal.ITIMER_REAL, 600)


def _stream() -> None:
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115


def _cycle_with_file() -> None:
    thing: list[Any] = [tempfile.TemporaryFile()]  # noqa: SIM115
    thing.append(thing)


LEAVING: dict[str, Callable[[], Any]] = {
    "thread": _thread,
    "process": lambda: KEPT.append(subprocess.Popen(["sleep", "600"])),
    "detached process": _detached,
    "folder": lambda: os.chdir("/"),
    "mode of the folder": lambda: os.chmod(".", 0o777),
    "removed folder": lambda: os.rmdir(os.getcwd()),
    "environment": lambda: os.environ.update(LEFT="behind"),
    "environment of C": lambda: os.putenv("LEFT", "behind"),
    "removed variable": lambda: os.environ.pop("PATH"),
    "umask": lambda: os.umask(0),
    "handler": lambda: signal.signal(signal.SIGUSR1, print),
    "ignored signal": lambda: signal.signal(signal.SIGUSR1, signal.SIG_IGN),
    "blocked signal": lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1]),
    "descriptor": lambda: os.open("/", os.O_RDONLY),
    "replaced descriptor": lambda: os.dup2(os.open(os.devnull, os.O_RDWR), 0),
    "closed descriptor": lambda: os.close(0),
    "stream that does not block": lambda: os.set_blocking(1, False),
    "descriptor for children": lambda: os.set_inheritable(3, True),
    "limit": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100)),
    "nice": lambda: os.nice(1),
    "alarm": _alarm,
    "stream": _stream,
    "subreaper": lambda: ctypes.CDLL(None).prctl(36, 0),
}


@timeball.task("warm.leave", mode="process")
def leave(what: str) -> int:
    LEAVING[what]()
    return os.getpid()


@timeball.task("warm.tidy", mode="process")
def tidy() -> int:
    """Does a lot, and leaves nothing."""
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    subprocess.run(["true"], check=True)
    _cycle_with_file()
    os.environ["PASSING"] = "by"
    del os.environ["PASSING"]
    with tempfile.TemporaryDirectory() as folder:
        open(f"{folder}/file", "w").close()
    return os.getpid()


@timeball.task("warm.async_tidy", mode="process")
async def async_tidy() -> int:
    import asyncio

    await asyncio.to_thread(int)
    process = await asyncio.create_subprocess_exec("true")
    await process.wait()
    return os.getpid()


@timeball.task("warm.leak", mode="process")
def leak(megabytes: int) -> int:
    KEPT.append(bytearray(os.urandom(1 << 20)) * megabytes)
    return os.getpid()


@timeball.task("warm.garbage", mode="process")
def garbage(megabytes: int) -> int:
    thing: list[Any] = [bytearray(os.urandom(1 << 20)) * megabytes]
    thing.append(thing)
    return os.getpid()
