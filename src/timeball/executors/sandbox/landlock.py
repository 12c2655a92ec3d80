"""Landlock: the Linux system calls by which a process gives up access to files, for itself and all its descendants.

A rule set lists the rights that its domain handles. Each rule grants some of them on a file, or on a folder and
everything below it. Handled rights that are not granted are denied. A process in a domain also has no ptrace-level
access to processes outside of it: neither to their memory and environment, nor to their descriptors, root and working
folder.

No third-party package is imported here, because the guard process uses this module.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from typing import Final

CREATE_RULESET: Final = 444
ADD_RULE: Final = 445
RESTRICT_SELF: Final = 446
"""Numbers of the system calls. They are the same on all common architectures."""
CREATE_RULESET_VERSION: Final = 1
RULE_PATH_BENEATH: Final = 1
RESTRICT_SELF_LOG_SAME_EXEC_OFF: Final = 1
OLDEST_ABI: Final = 2
"""The oldest version that is used. Version 1 cannot allow a rename from one folder to another."""
SCOPES_ABI: Final = 6
LOG_FLAGS_ABI: Final = 7

EXECUTE: Final = 1 << 0
WRITE_FILE: Final = 1 << 1
READ_FILE: Final = 1 << 2
READ_DIR: Final = 1 << 3
MAKE_CHAR: Final = 1 << 6
MAKE_BLOCK: Final = 1 << 11
TRUNCATE: Final = 1 << 14
IOCTL_DEV: Final = 1 << 15

SCOPE_SIGNAL: Final = 1 << 1
"""Signals are delivered only to processes of the same domain and of domains inside of it."""

_RIGHTS_OF_ABI: Final = {1: 13, 2: 14, 3: 15, 4: 15}
"""Number of file rights that each version supports. Version 5 and later support all 16 that are used here."""
_ALL_RIGHTS: Final = 16

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def abi() -> int:
    """Return the version of Landlock that can be used, or 0 if there is none."""
    if _libc is None:
        return 0
    found = int(_libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(CREATE_RULESET_VERSION)))
    return found if found >= OLDEST_ABI else 0


class Ruleset:
    """A rule set that handles all file rights of the kernel. `descriptor` is closed on exec and belongs to
    the caller.
    """

    def __init__(self, *, signals: bool = False) -> None:
        """With `signals`, processes in the domain may also signal processes outside of it, as always before
        version 6.
        """
        version = abi()
        self._handled = (1 << _RIGHTS_OF_ABI.get(version, _ALL_RIGHTS)) - 1
        attributes = struct.pack("=Q", self._handled)
        if version >= SCOPES_ABI and not signals:
            attributes = struct.pack("=QQQ", self._handled, 0, SCOPE_SIGNAL)  # files, networks, scopes
        self.descriptor = _call(CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0))
        self.on_folders = self._handled & ~(MAKE_CHAR | MAKE_BLOCK)
        """All rights except the creation of devices."""
        self.on_files = self._handled & (EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV)

    def grant(self, descriptor: int, rights: int) -> None:
        """Grant rights on a file or folder. A descriptor that was opened with `O_PATH` is enough."""
        rule = struct.pack("=Qi", rights & self._handled, descriptor)
        _call(ADD_RULE, self.descriptor, ctypes.c_uint32(RULE_PATH_BENEATH), rule, ctypes.c_uint32(0))


def enter(ruleset: int, version: int) -> None:
    """Put this thread into a new domain. Needs `no_new_privs`, or CAP_SYS_ADMIN."""
    _call(RESTRICT_SELF, ruleset, ctypes.c_uint32(restriction_flags(version)))


def restriction_flags(version: int) -> int:
    return RESTRICT_SELF_LOG_SAME_EXEC_OFF if version >= LOG_FLAGS_ABI else 0


def _call(number: int, *arguments: object) -> int:
    if _libc is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    result = int(_libc.syscall(number, *arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
