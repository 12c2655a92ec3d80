"""Starts jobs with vfork, which costs less than half of a fork: `job_start.become` as system calls.

It starts only what needs no decision in the new process. Everything else, and each start that fails, is left to
`become`, which finds out which step fails and why.

No third-party package is imported here, because the guard process uses this module.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

from timeball.executors.guard.confiner import PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG, Confiner
from timeball.executors.guard.process_table import candidates
from timeball.executors.guard.vfork import MAX_RESULT, CallTable, Vfork, call

MAX_CALLS: Final = 100
"""Maximum number of system calls of a start. A search path with more folders than this allows needs a fork."""
SIGNAL_SET_SIZE: Final = 8
SIG_SETMASK: Final = 2
DEFAULT_ACTION: Final = ctypes.create_string_buffer(32)
"""A sigaction of zeros: the default action, without flags."""


class VforkStart:
    """One start of a job. `run` may take long, for example if the program is on a file server that does not answer."""

    def __init__(self, vfork: Vfork, table: CallTable, strings: Strings) -> None:
        self._vfork = vfork
        self._table = table
        self._strings = strings  # the table has their addresses
        self._result = 0

    def run(self) -> None:
        self._result = self._vfork.start(self._table)

    @property
    def pid(self) -> int:
        """The process id; 0 as long as there is no process. Another thread may read it while `run` waits."""
        return self._table.pid

    @property
    def has_failed(self) -> bool:
        """True if the program was not executed. The process, if there was one, has ended."""
        return self._result < 0 or self._table.has_failed


class VforkStarter:
    """Prepares starts for one guard. The signal handlers of the guard are reset in each job."""

    def __init__(self, vfork: Vfork, *, guard: int, handled: Iterable[int], max_descriptors: int | None) -> None:
        """`guard` is its process id. `max_descriptors` is the soft limit of file descriptors for jobs."""
        self._vfork = vfork
        self._has_guard = call("getppid", low=guard, high=guard)
        action = ctypes.addressof(DEFAULT_ACTION)
        self._first = [
            *(call("rt_sigaction", number, action, 0, SIGNAL_SET_SIZE) for number in handled),
            call("setsid"),
            # `become` explains the next two calls.
            call("prctl", PR_SET_CHILD_SUBREAPER, 1),
            call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL),
            self._has_guard,
        ]
        self._limit: list[bytes] = []
        if max_descriptors is not None:
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            hard = 2**64 - 1 if hard == resource.RLIM_INFINITY else hard
            self._limits = (ctypes.c_uint64 * 2)(max_descriptors, hard)
            self._limit = [call("prlimit64", 0, resource.RLIMIT_NOFILE, ctypes.addressof(self._limits))]
        self._last = call("getpid", low=MAX_RESULT)
        """A call whose result is never as expected."""

    def prepare(self, message: dict[str, Any], descriptors: Sequence[int], confiner: Confiner) -> VforkStart | None:
        """Return the start of a job, or None if it needs a fork."""
        confining = confiner.calls()
        if confining is None or message["script"] or any(each < len(descriptors) for each in descriptors):
            return None
        try:
            strings = Strings(message["argv"], message["env"], message["cwd"])
            table = CallTable(MAX_CALLS)
            table.fill(
                [
                    *self._first,
                    *(call("dup3", each, place, 0) for place, each in enumerate(descriptors)),
                    *confining,
                    *([self._has_guard] if confining else []),
                    call("chdir", strings.cwd),
                    *self._limit,
                    call("rt_sigprocmask", SIG_SETMASK, table.signal_mask, 0, SIGNAL_SET_SIZE),
                    *(
                        call("execve", path, strings.argv, strings.env, low=-errno.ENOENT, high=-errno.ENOENT)
                        for path in strings.paths
                    ),
                    self._last,
                ]
            )
        except ValueError:  # this cannot be a command, or it is too long for the table
            return None
        return VforkStart(self._vfork, table, strings)


class Strings:
    """The strings of a command in memory that a new process can read. The other attributes are addresses."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], cwd: str) -> None:
        if any(not name or "=" in name for name in env):
            raise ValueError("not a name of an environment variable")
        paths = candidates(argv[0], env.get("PATH", os.defpath))
        entries = [f"{name}={value}" for name, value in env.items()]
        words = [os.fsencode(word) for word in (*argv, *entries, *paths, cwd)]
        content = b"\0".join(words)
        if content.count(b"\0") >= len(words):
            raise ValueError("a string contains NUL")
        self._content = ctypes.create_string_buffer(content)
        first = ctypes.addressof(self._content)
        *addresses, self.cwd, _ = accumulate((len(word) + 1 for word in words), initial=first)
        before_env, before_paths = len(argv), len(argv) + len(entries)
        self.paths = addresses[before_paths:]
        lists = [*addresses[:before_env], 0, *addresses[before_env:before_paths], 0]
        self._lists = (ctypes.c_uint64 * len(lists))(*lists)
        self.argv = ctypes.addressof(self._lists)
        self.env = self.argv + (before_env + 1) * ctypes.sizeof(ctypes.c_uint64)


def make_starter(*, guard: int, handled: Iterable[int], max_descriptors: int | None) -> VforkStarter | None:
    """Return a starter, or None if this system needs a fork for each job."""
    try:
        return VforkStarter(Vfork(), guard=guard, handled=handled, max_descriptors=max_descriptors)
    except OSError:
        return None
