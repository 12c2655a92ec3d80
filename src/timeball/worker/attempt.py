"""One attempt in a worker's hands, from its assignment to its outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import IntEnum
from typing import Protocol, Self

from msgspec import Struct

from timeball.domain import duration
from timeball.domain.instant import Micros
from timeball.domain.job.job import JobSpec
from timeball.domain.run.lifecycle import Outcome
from timeball.domain.task.task import Task
from timeball.ports.worker_protocol import Assignment
from timeball.worker.assignment import AssignedWork
from timeball.worker.output import Output
from timeball.worker.timers import Timer


class Stop(IntEnum):
    """Why an attempt is to stop. A later reason replaces an earlier one only if it weighs more."""

    YIELD = 0
    """It makes room for another: hand it back, unless it comes to a good end nevertheless."""
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


class SuspendedSlots(Struct):
    """The slots of an attempt that stands still."""

    since: Micros
    left: Micros | None
    """What was left until its time-out: that clock stands still, too."""
    alarms: list[Timer]
    """When nobody came for them, and when it has stood still for long enough."""
    taken: bool = False
    """Whether somebody has them by now."""


class AttemptListener(Protocol):
    """Who passes on what an attempt says while it lasts."""

    def wrote(self, attempt: HeldAttempt) -> None: ...

    def advanced(self, attempt: HeldAttempt, fraction: float, note: str) -> None: ...


class HeldAttempt(Struct, eq=False):
    """Implements `ports.executor.Attempt`."""

    assignment: Assignment
    work: AssignedWork
    listener: AttemptListener
    run_id: str
    job_id: str
    attempt: int
    token: int
    fire_time: Micros
    spec: JobSpec
    task: Task
    started_at: Micros | None = None
    told_started: bool = False
    """Whether the server was told that it runs."""
    ended_at: Micros = 0
    outcome: Outcome | None = None
    refused: bool = False
    """Whether the server has refused its outcome."""
    unreported: Outcome | None = None
    """Its own outcome, while the failure that stands for it is reported."""
    output: Output | None = None
    alarm: Timer | None = None
    """Rings at its start while it waits for it, then at its time-out."""
    lane: asyncio.Task[None] | None = None
    """The task that executes it, while it does."""
    stop: Stop | None = None
    callback: Callable[[], None] | None = None
    """How its executor wants to be told that it is to stop."""
    suspend: Callable[[], None] | None = None
    """How its processes are stopped where they are, if they can be."""
    resume: Callable[[], None] | None = None
    loan: SuspendedSlots | None = None
    """Its slots, while others have them: it stands still."""
    asked: int = 0
    """The number of the last order to make room."""
    ends_by: Micros | None = None
    """When its time-out rings."""

    @classmethod
    def of(cls, assignment: Assignment, work: AssignedWork, listener: AttemptListener) -> Self:
        return cls(
            assignment,
            work,
            listener,
            assignment.run_id,
            assignment.job_id,
            assignment.attempt,
            assignment.token,
            assignment.fire_time,
            work.spec,
            work.task,
        )

    @property
    def runs(self) -> bool:
        return self.started_at is not None and self.outcome is None

    def log(self, stream: str, text: str) -> None:
        if not text or self.outcome is not None or self.stop is Stop.LOST:
            return
        if self.output is None:
            self.output = Output()
        self.output.write(stream, text)
        self.listener.wrote(self)

    def progress(self, fraction: float, note: str = "") -> None:
        if self.outcome is None and self.stop is not Stop.LOST and fraction == fraction:
            self.listener.advanced(self, min(max(float(fraction), 0.0), 1.0), note)

    @property
    def cancelled(self) -> bool:
        return self.stop is not None

    @property
    def grace(self) -> Micros:
        forced = self.stop is not None and self.stop >= Stop.ABANDON
        return 0 if forced else duration.parse(self.spec.grace)

    def on_cancel(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        if self.stop is not None:
            callback()

    def on_pause(self, suspend: Callable[[], None], resume: Callable[[], None]) -> None:
        self.suspend, self.resume = suspend, resume

    def tell_to_stop(self) -> None:
        """For an attempt that executes: let the executor know, or interrupt it if it did not ask to be told."""
        if self.callback is not None:
            self.callback()
        elif self.lane is not None:
            self.lane.cancel()
