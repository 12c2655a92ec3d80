"""The contract between a worker and the executors of task kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar, runtime_checkable

from timeball.domain.instant import Micros
from timeball.domain.job.job import JobSpec
from timeball.domain.network.address_lists import AddressLists
from timeball.domain.run.lifecycle import Outcome
from timeball.domain.task.task import Task

A = TypeVar("A", bound="ExecutorAttempt")


class OutOfResources(Exception):
    """Raised if the machine lacks the descriptors, the memory, the disk space or the threads to start an attempt. No
    part of the attempt has begun. The worker releases it as not started, which costs the run no attempt, and accepts no
    other attempt for a short time.
    """


class TryLater(OutOfResources):
    """Raised if this attempt cannot start now although the machine lacks nothing that other attempts need, for example
    because a host name cannot be resolved. No part of the attempt has begun. The worker releases it as not started,
    which costs the run no attempt, and continues to accept others. The run waits for `wait` microseconds before the
    next claim.
    """

    def __init__(self, message: str, wait: Micros) -> None:
        super().__init__(message)
        self.wait = wait
        """Microseconds before the run may be claimed again; at most one minute."""


class ExecutorAttempt(Protocol):
    """An attempt as its executor sees it: its identity, its task, and the functions by which the executor reports
    output and progress and learns that the attempt is to stop.
    """

    run_id: str
    job_id: str
    attempt: int
    token: int
    fire_time: Micros
    spec: JobSpec
    task: Task
    tenant: str
    addresses: AddressLists
    """Those of the tenant: to which addresses its HTTP jobs may connect."""
    traceparent: str | None
    """The position in the trace of the attempt, as in the header `traceparent`; None if the run is in no trace."""

    def log(self, stream: str, text: str) -> None:
        """Append output to a stream of the attempt. The worker limits how much is kept. This never blocks."""
        ...

    def progress(self, fraction: float, note: str = "") -> None:
        """Report how much of the attempt is done, from 0 to 1. Values outside that range are limited to it, and NaN is
        ignored.
        """
        ...

    @property
    def cancelled(self) -> bool:
        """True if the attempt is to stop."""
        ...

    @property
    def grace(self) -> Micros:
        """Microseconds that the attempt gets to end by itself once it is to stop. 0: end it by force, at once."""
        ...

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Register a function that the worker calls in the event loop when the attempt is to stop. If it is to stop
        already, the function is called at once.

        The worker calls it again if the stop becomes more urgent, with a shorter `grace`, and repeats the call until
        the attempt has ended. If no function is registered, the coroutine that executes the attempt is cancelled
        instead.
        """
        ...

    def on_pause(self, suspend: Callable[[], None], resume: Callable[[], None]) -> None:
        """Register the functions that suspend the attempt and resume it at the same point. The worker calls them when
        the attempt is preempted. An attempt without them is ended when it is preempted, and its run starts again later.
        """
        ...


class Executor(Protocol):
    """Executes attempts of one task kind."""

    kind: str

    async def execute(self, attempt: ExecutorAttempt) -> Outcome:
        """Execute an attempt and return its outcome.

        An error of the job is returned as `Failed`, never raised. `OutOfResources` is raised if the machine cannot
        start the attempt; no part of it has begun then.

        When the attempt is to stop (cancel, timeout, shutdown), the executor ends everything it started, including the
        whole process group: first with a signal to end, after the grace by force. It returns only after that. The
        worker watches the timeout of the attempt, which reaches the executor as a stop.
        """
        ...


@runtime_checkable
class BackgroundExecutor(Executor, Protocol):
    """An executor that executes the attempts of some tasks outside of the event loop. Such an attempt needs no asyncio
    task that waits for it.
    """

    def in_background(self, task: Task) -> bool:
        """True if attempts of this task are to be started with `start`."""
        ...

    def start(self, attempt: A, ended: Callable[[A, Outcome | OutOfResources], None]) -> None:
        """Start an attempt, and return at once. `ended` is called in the event loop with its outcome, or with the error
        that `execute` would raise. Otherwise this is like `execute`; an attempt that registered no function with
        `on_cancel` is not interrupted.
        """
        ...
