"""Confines a process before it becomes a job: removes its access to Timeball's files and processes, and changes its
user.

No third-party package is imported here, because the guard process uses this module.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from typing import Final

from timeball.executors.guard.vfork import call
from timeball.executors.sandbox import job_domain, landlock

PR_SET_PDEATHSIG: Final = 1
PR_SET_DUMPABLE: Final = 4
PR_CAPBSET_DROP: Final = 24
PR_SET_CHILD_SUBREAPER: Final = 36
PR_SET_NO_NEW_PRIVS: Final = 38
CAPABILITIES_PAST_DOMAINS: Final = (2, 16, 17, 19, 21, 22, 38, 39)
"""Capabilities with which a process could evade Landlock. With DAC_READ_SEARCH, a file handle opens files without
access to their folders. SYS_MODULE, SYS_RAWIO, SYS_PTRACE, SYS_ADMIN, SYS_BOOT, PERFMON and BPF give access to the
memory of other processes, by swap, kexec and tracing.
"""
CAPABILITY_VERSION: Final = 0x20080522
SEEN_SIZE: Final = 1 << 17

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def prctl(option: int, value: int) -> None:
    """Call prctl. On a system without it, do nothing."""
    if _libc is not None:
        _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0)


def drop_capabilities(numbers: Sequence[int]) -> None:
    """Drop capabilities permanently: from the bounding set and from the sets that a program would inherit."""
    if _libc is None:
        return
    for number in numbers:
        prctl(PR_CAPBSET_DROP, number)
    header = struct.pack("=Ii", CAPABILITY_VERSION, 0)
    # The effective, permitted and inheritable sets for the capabilities up to 31; then the same sets for the
    # capabilities from 32 on.
    sets = (ctypes.c_uint32 * 6)()
    if _libc.capget(header, sets) == 0:
        for number in numbers:
            for place in range(3):
                sets[number // 32 * 3 + place] &= ~(1 << number % 32)
        _libc.capset(header, sets)


class Confiner:
    """Applies the worker's `Confinement` in each new process.

    `confine` does so in a process that the guard forked; `calls` returns the same steps for one that it started with
    vfork. The Landlock rule set is reused as long as no carved folder (see `sandbox.job_domain`) changes. The new
    process that needs a rule set creates it and sends it to the guard, so that a file server that does not answer
    cannot block the guard.
    """

    def __init__(
        self,
        *,
        use_landlock: bool = False,
        no_new_privs: bool = True,
        signals: bool = False,
        protected: Sequence[str] = (),
        readable: Sequence[str] = (),
        user: tuple[int, int, list[int]] | None = None,
    ) -> None:
        self._no_new_privs = no_new_privs
        self._signals = signals
        self._protected = protected
        self._readable = readable
        self._user = user
        groups = user[2] if user is not None else []
        self._groups = (ctypes.c_uint32 * len(groups))(*groups)
        self._must_enter = use_landlock
        self._abi = landlock.abi() if use_landlock else 0
        self._held: list[int] = []
        self._ruleset: int | None = None
        self._seen: list[job_domain.Seen] = []
        self._generation = 0
        self.made, self._send_made = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        """The socket on which the guard receives rule sets."""
        self.made.setblocking(False)
        self._mounts = select.poll()
        if self._abi:
            mounts = os.open(job_domain.MOUNTS, os.O_RDONLY | os.O_CLOEXEC)
            self._mounts.register(mounts, select.POLLPRI)
            for path in self._protected:
                with contextlib.suppress(OSError):
                    self._held.append(os.open(path, os.O_PATH | os.O_CLOEXEC))

    def close(self) -> None:
        """Close the sockets. The guard calls it when it replaces this object, which happens before the first process
        starts.
        """
        self.made.close()
        self._send_made.close()

    def confine_guard(self) -> None:
        """Apply the restrictions that jobs inherit from the guard."""
        if self._no_new_privs:
            prctl(PR_SET_NO_NEW_PRIVS, 1)
        if self._must_enter:
            drop_capabilities(CAPABILITIES_PAST_DOMAINS)

    @property
    def changes_user(self) -> bool:
        return self._user is not None

    def prepare(self) -> None:
        """Called in the guard before each fork: drop a rule set that does not match the folders any more."""
        if not self._abi:
            return
        self._notice_mounts()
        if self._ruleset is not None and not job_domain.is_current(self._seen):
            self._forget()

    def receive(self) -> None:
        """Store the rule set that a new process created and sent. A message is ignored if it was truncated, lost its
        descriptor, or was made before the last change of mounts."""
        try:
            data, ancillary, flags, _ = self.made.recvmsg(SEEN_SIZE, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
        except OSError:
            return
        descriptors = [each for _, _, content in ancillary for each in array.array("i", content)]
        generation, seen = None, []
        if len(descriptors) == 1 and not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
            with contextlib.suppress(ValueError):
                generation, seen = json.loads(data)
        self._notice_mounts()
        if generation != self._generation:
            for descriptor in descriptors:
                os.close(descriptor)
            return
        self._forget()
        [self._ruleset], self._seen = descriptors, seen

    def confine(self) -> None:
        """Change the user and enter the Landlock domain, as far as the worker's `Confinement` asks for it. Called in
        the new process; if it fails, the process does not become a job."""
        ruleset = self._ruleset
        if self._must_enter and ruleset is None:
            ruleset = self._make()
        if self._user is not None:
            uid, gid, groups = self._user
            os.setgroups(groups)
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
            # The kernel clears this setting with every change of the user.
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if ruleset is not None:
            landlock.enter(ruleset, self._abi)

    def calls(self) -> list[bytes] | None:
        """Return the system calls of `confine`, or None if a rule set has to be made first, which may take long."""
        if self._must_enter and self._ruleset is None:
            return None
        calls: list[bytes] = []
        if self._user is not None:
            uid, gid, _ = self._user
            calls = [
                call("setgroups", len(self._groups), ctypes.addressof(self._groups)),
                call("setresgid", gid, gid, gid),
                call("setresuid", uid, uid, uid),
                call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL),
            ]
        if self._ruleset is not None:
            calls.append(call("landlock_restrict_self", self._ruleset, landlock.restriction_flags(self._abi)))
        return calls

    def _make(self) -> int:
        moved = [os.readlink(f"/proc/self/fd/{descriptor}") for descriptor in self._held]
        protected = [*self._protected, *moved, *job_domain.swap_files()]
        domain = job_domain.Domain(protected, self._readable, signals=self._signals)
        if domain.is_settled:
            content = json.dumps([self._generation, domain.seen]).encode()
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [domain.ruleset]))]
            with contextlib.suppress(OSError):
                self._send_made.sendmsg([content], rights, socket.MSG_DONTWAIT)
        return domain.ruleset

    def _notice_mounts(self) -> None:
        if any(event & (select.POLLERR | select.POLLPRI) for _, event in self._mounts.poll(0)):
            self._generation += 1
            self._forget()

    def _forget(self) -> None:
        if self._ruleset is not None:
            os.close(self._ruleset)
            self._ruleset = None
