"""One attempt in a worker's hands, from its assignment to its outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import IntEnum
from typing import Protocol

from timeball.domain import duration
from timeball.domain.instant import Micros
from timeball.domain.job import JobSpec
from timeball.domain.lifecycle import Failed, Outcome
from timeball.domain.task import Task
from timeball.ports.dispatch import Assignment
from timeball.service.alarms import Alarm
from timeball.service.worker_output import Output


class Stop(IntEnum):
    """Why an attempt is to stop. A later reason replaces an earlier one only if it weighs more."""

    RELEASE = 1
    """The worker leaves: hand it back."""
    TIMEOUT = 2
    """Its time is over: it failed."""
    CANCEL = 3
    """A user cancelled it."""
    ABANDON = 4
    """The worker leaves at once: end it by force, and hand it back."""
    KILL = 5
    """A user cancelled it, and it gets no grace."""
    LOST = 6
    """It is not ours any more: end it by force and say nothing."""


class Listener(Protocol):
    """Who passes on what an attempt says while it lasts."""

    def wrote(self, attempt: HeldAttempt) -> None: ...

    def advanced(self, attempt: HeldAttempt, fraction: float, note: str) -> None: ...


class HeldAttempt:
    """Implements `ports.executor.Attempt`. `spec` and `task` exist unless it is `unfit`."""

    __slots__ = (
        "_callback",
        "_listener",
        "alarm",
        "assignment",
        "attempt",
        "ended_at",
        "fire_time",
        "job_id",
        "lane",
        "outcome",
        "output",
        "run_id",
        "slots",
        "spec",
        "started_at",
        "stop",
        "task",
        "token",
        "unfit",
    )

    spec: JobSpec
    task: Task

    def __init__(self, assignment: Assignment, listener: Listener) -> None:
        self.assignment = assignment
        self.run_id = assignment.run_id
        self.job_id = assignment.job_id
        self.attempt = assignment.attempt
        self.token = assignment.token
        self.fire_time = assignment.fire_time
        self.started_at: Micros | None = None
        self.ended_at: Micros = 0
        self.outcome: Outcome | None = None
        self.output: Output | None = None
        self.alarm: Alarm | None = None
        """Rings at its start while it waits for it, then at its time-out."""
        self.lane: asyncio.Task[None] | None = None
        """The task that executes it, while it does."""
        self.stop: Stop | None = None
        self.slots = 1
        """How many of the worker's slots it occupies."""
        self.unfit: Failed | None = None
        """Why this worker cannot execute it, if it cannot even read it."""
        self._listener = listener
        self._callback: Callable[[], None] | None = None

    def log(self, stream: str, text: str) -> None:
        if not text or self.outcome is not None or self.stop is Stop.LOST:
            return
        if self.output is None:
            self.output = Output()
        self.output.write(stream, text)
        self._listener.wrote(self)

    def progress(self, fraction: float, note: str = "") -> None:
        if self.outcome is None and self.stop is not Stop.LOST and fraction == fraction:
            self._listener.advanced(self, min(max(float(fraction), 0.0), 1.0), note)

    @property
    def cancelled(self) -> bool:
        return self.stop is not None

    @property
    def grace(self) -> Micros:
        forced = self.stop is not None and self.stop >= Stop.ABANDON
        return 0 if forced else duration.parse(self.spec.grace)

    def on_cancel(self, callback: Callable[[], None]) -> None:
        self._callback = callback
        if self.stop is not None:
            callback()

    def tell_to_stop(self) -> None:
        """For an attempt that executes: let the executor know, or interrupt it if it did not ask to be told."""
        if self._callback is not None:
            self._callback()
        elif self.lane is not None:
            self.lane.cancel()
