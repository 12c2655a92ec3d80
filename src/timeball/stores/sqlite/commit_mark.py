"""The time of the last acknowledged commit, in a small file beside the database.

The writer stores it in the memory that the file is mapped to, after each commit and before its callers get their
results. This needs no system call, and the mark survives the death of the process. It is not synced, so a power loss
may leave an older mark, never a newer one: a mark later than the database proves that commits are lost.
"""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path
from typing import Final

import structlog

from timeball.domain.instant import Micros

MARK_SUFFIX: Final = ".mark"
_MAGIC: Final = b"tb-mark1"
_VALUE: Final = struct.Struct("<qq")
"""The time in microseconds, and its complement, which shows whether the mark is damaged."""
_SIZE: Final = len(_MAGIC) + _VALUE.size
_log = structlog.get_logger()


class CommitMark:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._memory: mmap.mmap | None = None

    def read(self) -> Micros | None:
        """Return the mark that an earlier process left; None if none can be read."""
        try:
            content = self._path.read_bytes()
        except OSError:
            return None
        if len(content) != _SIZE or not content.startswith(_MAGIC):
            return None
        value, complement = _VALUE.unpack_from(content, len(_MAGIC))
        return int(value) if value == ~complement else None

    def open(self, value: Micros) -> None:
        """Create or overwrite the file, with the time of a commit that the database has. If the file cannot be written,
        the store works without a mark."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.pwrite(descriptor, _MAGIC + _VALUE.pack(value, ~value), 0)
                os.ftruncate(descriptor, _SIZE)
                self._memory = mmap.mmap(descriptor, _SIZE)
            finally:
                os.close(descriptor)
        except OSError as error:
            _log.warning(
                "the time of the last commit cannot be stored: a loss of commits may go unnoticed", error=str(error)
            )

    def set(self, value: Micros) -> None:
        """Record the time of a synced commit."""
        if self._memory is not None:
            _VALUE.pack_into(self._memory, len(_MAGIC), value, ~value)

    def close(self) -> None:
        memory, self._memory = self._memory, None
        if memory is not None:
            memory.close()
