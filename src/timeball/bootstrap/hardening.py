"""Keeps what this process was started with from other processes: the secrets in its environment and its arguments.

`/proc/PID/environ` and `/proc/PID/cmdline` show the memory in which the kernel put both at the start, whatever the
program does to its copies, and every user may read the latter.
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
"""By this entry a guard knows the processes of a job, should this one belong to it."""
HIDDEN: Final = ord("*")


def hide_secrets() -> None:
    """Call it once the configuration was read, before there are threads."""
    for setting in config.SECRETS:
        os.environ.pop(setting.variable, None)
    if sys.platform != "linux":
        return
    # 0: no other process of this user may trace this one, nor read its memory, environment and descriptors.
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    for name, value in os.environ.items():
        os.putenv(name, value)  # a copy elsewhere: libraries go on finding what is overwritten below
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
    """Where the kernel put the arguments and the environment: begin and end of both."""
    with open("/proc/self/stat", encoding="ascii", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    arg_start, arg_end, env_start, env_end = (int(field) for field in fields[45:49])
    return arg_start, arg_end, env_start, env_end


def _secret_words(argv: bytes, flags: Collection[bytes]) -> list[tuple[int, int]]:
    """Begin and end of each value of these flags, as `--flag value` and as `--flag=value`."""
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
