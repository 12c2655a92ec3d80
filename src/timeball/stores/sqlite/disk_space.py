"""The free space on the disk of the data folder. When it becomes scarce, nothing new is accepted, so that there is
space to finish what was accepted before."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from timeball.domain.errors import Unavailable
from timeball.domain.instant import SECOND, Micros

MIN_FREE_BYTES: Final = 64 * 1024 * 1024
MIN_FREE_SHARE: Final = 20
"""On a small disk, less than `MIN_FREE_BYTES` suffices: one of so many parts."""
CHECK_INTERVAL: Final = SECOND
RETRY_AFTER: Final = 5.0
"""Seconds after which a client that was refused may try again."""

_log = structlog.get_logger()


def has_little_space(found: os.statvfs_result, min_free: int = MIN_FREE_BYTES) -> bool:
    """Return True if a store on this disk accepts nothing new."""
    free, size = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
    return free < min(min_free, size // MIN_FREE_SHARE)


class DiskSpace:
    def __init__(self, folder: Path, monotonic: Callable[[], Micros], min_free: int = MIN_FREE_BYTES) -> None:
        self._folder = folder
        self._monotonic = monotonic
        self._min_free = min_free
        self._check_at: Micros = 0
        self._is_scarce = False

    def require(self) -> None:
        """Raise `Unavailable` if there is too little free space to accept anything new."""
        now = self._monotonic()
        if now >= self._check_at:
            self._check_at = now + CHECK_INTERVAL
            self._check()
        if self._is_scarce:
            raise Unavailable("the disk of the data folder is almost full; delete files, or enlarge it", RETRY_AFTER)

    def _check(self) -> None:
        try:
            found = os.statvfs(self._folder)
        except OSError:  # a write will tell
            return
        free = found.f_bavail * found.f_frsize
        is_scarce = has_little_space(found, self._min_free)
        if is_scarce and not self._is_scarce:
            _log.error("the disk is almost full; no new jobs are accepted", folder=str(self._folder), free_bytes=free)
        elif self._is_scarce and not is_scarce:
            _log.info("the disk has enough space again", folder=str(self._folder), free_bytes=free)
        self._is_scarce = is_scarce
