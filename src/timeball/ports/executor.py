"""How one attempt is executed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from timeball.domain.instant import Micros
from timeball.domain.job.job import JobSpec
from timeball.domain.run.lifecycle import Outcome
from timeball.domain.task.task import Task


class OutOfResources(Exception):
    """This machine lacks something to begin an attempt: descriptors, memory, disk, threads. Nothing of the attempt
    has begun: it is handed back as not started, and costs the run nothing."""


class TryLater(OutOfResources):
    """Nothing of the attempt has begun, and for now only attempts like it cannot begin: its worker goes on to take
    others. It is handed back as not started, waits, and costs the run nothing."""

    def __init__(self, message: str, wait: Micros) -> None:
        super().__init__(message)
        self.wait = wait
        """At most a minute."""


class Attempt(Protocol):
    """What an executor knows of the attempt it executes, and what it may say about it while it lasts."""

    run_id: str
    job_id: str
    attempt: int
    token: int
    fire_time: Micros
    spec: JobSpec
    task: Task

    def log(self, stream: str, text: str) -> None:
        """Append output. Bounded by the attempt's owner; never blocks."""
        ...

    def progress(self, fraction: float, note: str = "") -> None: ...

    @property
    def cancelled(self) -> bool:
        """Whether it is to stop."""
        ...

    @property
    def grace(self) -> Micros:
        """How long it may take to end by itself once it is to stop. 0: end it by force, at once."""
        ...

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Call this, in the event loop, when it is to stop; at once if it already is.

        Called again when matters get more urgent: `grace` is shorter then. Without a callback, the coroutine that
        executes the attempt is cancelled instead.
        """
        ...

    def on_pause(self, suspend: Callable[[], None], resume: Callable[[], None]) -> None:
        """It can be stopped where it is, by calling the first, and go on from there, by calling the second. What does
        not say so is ended and started anew if it has to make room for another."""
        ...


class Executor(Protocol):
    """Executes attempts of one task kind.

    Never raises for what the job does wrong: that is a `Failed`. Raises `OutOfResources` for what the worker lacks, as
    long as nothing has begun. When told to stop (cancel, timeout, shutdown) it
    ends everything it started, the whole process group included, first politely, after the grace by force, and only
    then returns. The attempt's time-out is the caller's business: it arrives as a stop.
    """

    kind: str

    async def execute(self, attempt: Attempt) -> Outcome: ...
