"""Hides the secrets in the environment and the arguments of this process from other processes.

`/proc/PID/environ` and `/proc/PID/cmdline` show the memory in which the kernel stored both at the start of the process,
even if the program changes its copies. Every user may read `/proc/PID/cmdline`.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Collection
from typing import Final

from timeball import config

PR_SET_DUMPABLE: Final = 4
MARK: Final = b"TIMEBALL_PROCESS="
"""The beginning of the environment entry by which a guard finds the processes of a job. `hide_secrets` does not erase
this entry, because this process may belong to a job.
"""
HIDDEN: Final = ord("*")


def hide_secrets() -> None:
    """Overwrite the secrets in the initial memory of the process. Call it after the configuration was read, before
    threads are started."""
    for setting in config.SECRETS:
        os.environ.pop(setting.variable, None)
    if sys.platform != "linux":
        return
    # 0: no other process of this user may trace this one, nor read its memory, environment and descriptors.
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    for name, value in os.environ.items():
        # Setting the entry again moves it to other memory, so that libraries still find it after the original memory is
        # overwritten below.
        os.putenv(name, value)
    argv_start, argv_end, env_start, env_end = _initial_memory()
    flags = frozenset(setting.flag.encode() for setting in config.SECRETS if setting.flag)
    for start, end in _secret_words(ctypes.string_at(argv_start, argv_end - argv_start), flags):
        ctypes.memset(argv_start + start, HIDDEN, end - start)
    offset = 0
    for entry in ctypes.string_at(env_start, env_end - env_start).split(b"\0"):
        if not entry.startswith(MARK):
            ctypes.memset(env_start + offset, 0, len(entry))
        offset += len(entry) + 1


def _initial_memory() -> tuple[int, int, int, int]:
    """Return the start and end of the arguments and of the environment in memory, where the kernel put them."""
    with open("/proc/self/stat", encoding="ascii", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    arg_start, arg_end, env_start, env_end = (int(field) for field in fields[45:49])
    return arg_start, arg_end, env_start, env_end


def _secret_words(argv: bytes, flags: Collection[bytes]) -> list[tuple[int, int]]:
    """Return the start and end of each value of these flags, as `--flag value` and as `--flag=value`."""
    found = []
    offset = 0
    is_value = False
    for word in argv.split(b"\0"):
        flag, equals, value = word.partition(b"=")
        end = offset + len(word)
        if is_value:
            found.append((offset, end))
        elif equals and flag in flags:
            found.append((end - len(value), end))
        is_value = not is_value and word in flags
        offset = end + 1
    return found
