"""A job as the guard sees it.

No third-party package is imported here, because the guard process uses this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from timeball.executors.guard.vfork_start import VforkStart


class GuardedJob:
    __slots__ = ("folder", "groups", "id", "pid", "pipe", "signals", "vfork")

    def __init__(self, ident: int, folder: str | None, groups: Sequence[str] = ()) -> None:
        self.id = ident
        self.folder = folder
        self.groups = groups
        """The control groups of the job, if it has a memory limit."""
        self.pid = 0
        """The process id of its main process; 0 as long as it is not known."""
        self.pipe: int | None = None
        """After a fork, the pipe that reports an error of the start, or closes when the program was executed. None
        afterwards.
        """
        self.vfork: Vforking | None = None
        """The start with vfork. None afterwards."""
        self.signals: list[int] = []
        """Signals that arrived before the program was executed; they are sent afterwards."""

    @property
    def is_starting(self) -> bool:
        return self.pipe is not None or self.vfork is not None


class Vforking(NamedTuple):
    """A start with vfork, and what a fork needs if it fails."""

    start: VforkStart
    message: dict[str, Any]
    descriptors: list[int]


class JobEnd(NamedTuple):
    """A job that has ended and whose end is not reported to the worker yet."""

    job: GuardedJob
    status: int
    until: float
    """Processes that the job left may delay the report until this time."""
