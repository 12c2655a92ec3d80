"""What a function can change in its process besides Python objects, and what it can start there.

A warm child compares this state before and after each run. A child whose state has changed executes no other run, so
that no run sees the environment, folder, descriptors, threads or processes of an earlier one.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

STATUS: Final = "/proc/self/status"
DESCRIPTORS: Final = "/proc/self/fd"
ANY_CHILD: Final = os.WEXITED | os.WNOHANG | os.WNOWAIT | 0x4000_0000
"""The last flag is `__WALL`, which Python does not name: also children that end with another signal than SIGCHLD."""
PR_GET_PDEATHSIG: Final = 2
PR_GET_CHILD_SUBREAPER: Final = 37
LIMITS: Final = tuple(sorted(getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")))
TIMERS: Final = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
CREDENTIALS: Final = (
    *(b"Umask", b"Uid", b"Gid", b"Groups", b"NoNewPrivs", b"Seccomp", b"Cpus_allowed"),
    *(b"CapInh", b"CapPrm", b"CapEff", b"CapBnd", b"CapAmb"),
)
MAX_GROWTH: Final = 64 << 20
"""Maximum number of bytes of memory that the runs of a process may leave behind in all, for example in global
variables."""
THREAD_END_TRIES: Final = 20
THREAD_END_SECONDS: Final = 0.001
"""Number of checks, and seconds between two of them, for the end of threads. The kernel lists a thread for a moment
after it was joined."""

SIGNALS: Final = {number: 1 << (number - 1) for number in signal.valid_signals()}
"""The bit of each signal in the sets of signals of `STATUS`."""

THREADS, PROCESSES, MEMORY = "threads", "child processes", "more memory"
COUNTED: Final = (THREADS, PROCESSES, MEMORY)

State = Mapping[str, Any]
"""The value of each part of the state, by the name of the part, such as `other descriptors`."""

_libc = ctypes.CDLL(None)
_environ = ctypes.POINTER(ctypes.c_void_p).in_dll(_libc, "environ") if sys.platform == "linux" else None


def read(own_handlers: Mapping[signal.Signals, Callable[..., object]] | None = None) -> State:
    """Return the state of this process. Handlers of signals in `own_handlers` count as not set.

    Raises `OSError` if the system does not show it.
    """
    status = _status()
    return {
        "another working folder": _folder(),
        "other descriptors": _descriptors(),
        "other environment variables": _environment(),
        "other signal handlers": _handlers(status, own_handlers or {}),
        "other limits or privileges": _limits(status),
        "timers": tuple(signal.getitimer(each)[0] > 0 for each in TIMERS),
        "other standard streams": (sys.stdin, sys.stdout, sys.stderr),
        THREADS: int(status[b"Threads"]),
        PROCESSES: _has_children(),
        MEMORY: _memory(status),
    }


def with_environment(state: State) -> State:
    """Return `state` with the current environment of this process in place of its own."""
    return {**state, "other environment variables": _environment()}


def left_behind(before: State, own_handlers: Mapping[signal.Signals, Callable[..., object]]) -> str:
    """Return what a run left in this process, in words; empty if nothing."""
    found = differences(before, read(own_handlers))
    if found:
        gc.collect()  # closes the files of objects that refer to each other
        found = differences(before, read(own_handlers))
    for _ in range(THREAD_END_TRIES):
        if THREADS not in found:
            break
        time.sleep(THREAD_END_SECONDS)
        found = differences(before, read(own_handlers))
    return ", ".join(found)


def differences(before: State, now: State) -> list[str]:
    found = [name for name in before if name not in COUNTED and before[name] != now[name]]
    if now[THREADS] > before[THREADS]:
        found.append(THREADS)
    if now[PROCESSES]:
        found.append(PROCESSES)
    if now[MEMORY] > before[MEMORY] + MAX_GROWTH:
        found.append(MEMORY)
    return found


def _memory(status: Mapping[bytes, bytes]) -> int:
    """Return the number of bytes of memory that this process has and that are not a copy of a file."""
    return (int(status[b"RssAnon"].split()[0]) + int(status[b"RssShmem"].split()[0])) << 10


def _status() -> dict[bytes, bytes]:
    with open(STATUS, "rb", buffering=0) as file:
        lines = file.read().splitlines()
    return {name: value for name, _, value in (line.partition(b":\t") for line in lines)}


def _folder() -> tuple[object, ...]:
    found = os.stat(".")
    return os.getcwd(), found.st_dev, found.st_ino, found.st_mode, found.st_uid, found.st_gid


def _descriptors() -> dict[str, tuple[int, ...]]:
    """Return the file and the flags of each descriptor. Other programs may set flags as well: some make their standard
    streams non-blocking, which are also those of this process.
    """
    found: dict[str, tuple[int, ...]] = {}
    for name in os.listdir(DESCRIPTORS):
        try:
            status = os.fstat(int(name))
            flags = fcntl.fcntl(int(name), fcntl.F_GETFL), fcntl.fcntl(int(name), fcntl.F_GETFD)
        except OSError:  # the descriptor of the list itself
            continue
        found[name] = status.st_dev, status.st_ino, *flags
    return found


def _environment() -> bytes:
    """Return the addresses of all entries of the environment of this process. They show a change also by code that does
    not use `os.environ`: the C library makes a new entry, with another address, for each variable that is set. An entry
    that is put back has its former address.
    """
    if not _environ:
        return b""
    size = 0
    while _environ[size]:
        size += 1
    return ctypes.string_at(_environ, size * ctypes.sizeof(ctypes.c_void_p))


def _handlers(status: Mapping[bytes, bytes], own: Mapping[signal.Signals, Callable[..., object]]) -> tuple[object, ...]:
    caught = int(status[b"SigCgt"], 16)
    handlers = {number: signal.getsignal(number) for number, bit in SIGNALS.items() if caught & bit}
    for number, handler in own.items():
        if handlers.get(number) == handler:
            del handlers[number]
    return status[b"SigBlk"], status[b"SigIgn"], handlers


def _limits(status: Mapping[bytes, bytes]) -> tuple[object, ...]:
    limits = tuple(resource.getrlimit(each) for each in LIMITS)
    settings = tuple(map(_setting, (PR_GET_CHILD_SUBREAPER, PR_GET_PDEATHSIG)))
    return tuple(status.get(name) for name in CREDENTIALS), limits, settings, os.getpriority(os.PRIO_PROCESS, 0)


def _setting(option: int) -> int:
    """Return the value of a setting of this process that prctl reads (`PR_GET_…`)."""
    value = ctypes.c_int()
    _libc.prctl(option, ctypes.byref(value), 0, 0, 0)
    return value.value


def _has_children() -> bool:
    """True if this process has children, also ones that have ended and that it did not wait for."""
    try:
        os.waitid(os.P_ALL, 0, ANY_CHILD)
    except ChildProcessError:
        return False
    return True
