"""Starts a process that shares the memory of this one until it executes its program, as `posix_spawn` does, but with
any system calls before that.

A fork copies the memory map of this process, and then every page that either process writes to; for a Python process
that costs more than the start of a small program. A process that shares its memory must not execute Python, because it
would change the objects of this one. So it executes a few instructions (`vfork_code`), which make the system calls of a
table one after the other.

No third-party package is imported here, because the guard process uses this module.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import signal
import struct
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from timeball.executors.guard.vfork_code import code

CLONE_VM: Final = 0x100
CLONE_VFORK: Final = 0x4000
CLONE_PARENT_SETTID: Final = 0x100000
CLONE_FLAGS: Final = CLONE_VM | CLONE_VFORK | CLONE_PARENT_SETTID | signal.SIGCHLD
MAX_RESULT: Final = 2**63 - 1
BEFORE_CALLS: Final = struct.Struct("=iiqqqq")
"""The beginning of a table: the process id of the new process, which the kernel writes; unused; the address of the call
that failed, which the new process writes; the signal mask of this thread, which the kernel writes; the mask of the new
process until it restores this one; the flags of clone.
"""
FAILED_AT: Final = 8
SIGNAL_MASK_AT: Final = 16
CALL: Final = struct.Struct("=9q")
"""A call: its number, six arguments, and the lowest and highest result with which the next call is made."""

NUMBERS: Final[Mapping[str, Mapping[str, int]]] = {
    "chdir": {"x86_64": 80, "aarch64": 49},
    "dup3": {"x86_64": 292, "aarch64": 24},
    "execve": {"x86_64": 59, "aarch64": 221},
    "getpid": {"x86_64": 39, "aarch64": 172},
    "getppid": {"x86_64": 110, "aarch64": 173},
    "landlock_restrict_self": {"x86_64": 446, "aarch64": 446},
    "prctl": {"x86_64": 157, "aarch64": 167},
    "prlimit64": {"x86_64": 302, "aarch64": 261},
    "rt_sigaction": {"x86_64": 13, "aarch64": 134},
    "rt_sigprocmask": {"x86_64": 14, "aarch64": 135},
    "setgroups": {"x86_64": 116, "aarch64": 159},
    "setresgid": {"x86_64": 119, "aarch64": 149},
    "setresuid": {"x86_64": 117, "aarch64": 147},
    "setsid": {"x86_64": 112, "aarch64": 157},
}
"""The numbers of the system calls, by machine."""

MACHINE: Final = os.uname().machine if sys.platform == "linux" else ""
_libc = ctypes.CDLL(None, use_errno=True)
_Function = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_void_p)


def call(name: str, *arguments: int, low: int = 0, high: int = MAX_RESULT) -> bytes:
    """Return a system call as an entry of a `CallTable`. If its result is not from `low` to `high`, the process exits
    and makes no further call."""
    return CALL.pack(NUMBERS[name][MACHINE], *arguments, *[0] * (6 - len(arguments)), low, high)


class Vfork:
    """The function of this machine, in executable memory. Raises `OSError` if there is none, or if the system does not
    allow such memory.
    """

    def __init__(self) -> None:
        found = code(MACHINE) if sys.maxsize > 2**32 else None
        if found is None:
            raise OSError(errno.ENOSYS, f"no code for {MACHINE}")
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._memory = mmap.mmap(-1, len(found), flags=private, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        self._memory.write(found)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        if _libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(len(found)), mmap.PROT_READ | mmap.PROT_EXEC) != 0:
            raise OSError(ctypes.get_errno(), "executable memory is not allowed")
        self._run = _Function(address)

    def start(self, table: CallTable) -> int:
        """Start a process that makes the calls of a table. Return when it has executed a program or has exited: its
        process id, or a negative error number.

        Other threads of this process continue. For `PR_SET_PDEATHSIG`, the parent of the new process is this thread,
        which must not end before it.
        """
        return int(self._run(table.address))


class CallTable:
    """System calls for one process at a time."""

    def __init__(self, size: int) -> None:
        self._content = ctypes.create_string_buffer(BEFORE_CALLS.size + size * CALL.size)
        self.address = ctypes.addressof(self._content)
        self._size = size

    def fill(self, calls: Sequence[bytes]) -> None:
        """Set the calls. The last one must never be completed: after a program was executed, no call follows."""
        if len(calls) > self._size:
            raise ValueError("too many calls")
        BEFORE_CALLS.pack_into(self._content, 0, 0, 0, 0, 0, -1, CLONE_FLAGS)
        content = b"".join(calls)
        ctypes.memmove(self.address + BEFORE_CALLS.size, content, len(content))

    @property
    def pid(self) -> int:
        """The process id of the new process; 0 if it does not exist yet."""
        return ctypes.c_int.from_address(self.address).value

    @property
    def has_failed(self) -> bool:
        """True if the process exited because a call had another result than expected."""
        return ctypes.c_long.from_address(self.address + FAILED_AT).value != 0

    @property
    def signal_mask(self) -> int:
        """The address of the signal mask that the process has to restore."""
        return self.address + SIGNAL_MASK_AT
