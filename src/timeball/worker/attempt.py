"""One attempt that a worker holds, from its assignment to its outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Final, Protocol, Self

from msgspec import Struct

from timeball.domain import duration
from timeball.domain.instant import Micros
from timeball.domain.job.job import JobSpec
from timeball.domain.network.address_lists import NO_LISTS, AddressLists
from timeball.domain.run.lifecycle import Outcome
from timeball.domain.task.task import Task
from timeball.ports.worker_protocol import Assignment
from timeball.worker.assignment import AssignedWork
from timeball.worker.output import AttemptOutput
from timeball.worker.timers import Timer

AddressesByTenant = Mapping[str, AddressLists]
"""The address lists of those tenants that have any."""
NO_ADDRESSES: Final[AddressesByTenant] = {}


class Stop(IntEnum):
    """The reasons to stop an attempt. A later reason replaces an earlier one only if its number is higher."""

    YIELD = 0
    """The attempt is preempted: return it to the queue, unless it still succeeds."""
    RELEASE = 1
    """The worker drains: return the attempt to the queue."""
    TIMEOUT = 2
    """The timeout of the attempt has passed: it failed."""
    CANCEL = 3
    """A user cancelled the attempt."""
    STOP_NOW = 4
    """The worker stops at once: kill the attempt, and return it to the queue."""
    KILL = 5
    """A user cancelled the attempt without a grace period."""
    LOST = 6
    """The worker does not hold the attempt any more: kill it, and report nothing."""


class SuspendedSlots(Struct):
    """The slots of an attempt that is suspended by preemption. Other attempts may use them."""

    since: Micros
    left: Micros | None
    """Microseconds that were left until the timeout of the attempt. Time in suspension does not count."""
    alarms: list[Timer]
    """The two timers that resume the attempt: one fires if no other attempt uses the slots, the other when the maximum
    time of the suspension is over."""
    taken: bool = False
    """True if another attempt uses the slots."""


class AttemptListener(Protocol):
    """Receives the output and the progress of an attempt while it executes."""

    def wrote(self, attempt: HeldAttempt) -> None: ...

    def advanced(self, attempt: HeldAttempt, fraction: float, note: str) -> None: ...


class HeldAttempt(Struct, eq=False):
    """An attempt that the worker holds. Implements `ports.executor.ExecutorAttempt`."""

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
    tenant: str
    addresses: AddressLists = NO_LISTS
    traceparent: str | None = None
    started_at: Micros | None = None
    reported_start: bool = False
    """True if the start of the attempt was reported to the server."""
    ended_at: Micros = 0
    outcome: Outcome | None = None
    refused: bool = False
    """True if the server has refused the outcome of the attempt."""
    unreported: Outcome | None = None
    """The real outcome of the attempt, while a failure is reported in its place because the server could not store the
    outcome."""
    output: AttemptOutput | None = None
    alarm: Timer | None = None
    """A timer for the start of the attempt while it waits, then for its timeout."""
    lane: asyncio.Task[None] | None = None
    """The asyncio task that executes the attempt, while it does."""
    stop: Stop | None = None
    callback: Callable[[], None] | None = None
    """The function that the executor registered. The worker calls it when the attempt is to stop."""
    suspend: Callable[[], None] | None = None
    """The function that suspends the processes of the attempt; None if they cannot be suspended."""
    resume: Callable[[], None] | None = None
    suspension: SuspendedSlots | None = None
    """Set while the attempt is suspended and its slots are free for others."""
    asked: int = 0
    """The number of the last preemption order."""
    ends_by: Micros | None = None
    """The instant at which the attempt times out, on the monotonic clock."""

    @classmethod
    def of(
        cls,
        assignment: Assignment,
        work: AssignedWork,
        listener: AttemptListener,
        addresses: AddressesByTenant = NO_ADDRESSES,
    ) -> Self:
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
            assignment.tenant,
            addresses.get(assignment.tenant, NO_LISTS) if addresses else NO_LISTS,
            assignment.traceparent,
        )

    @property
    def runs(self) -> bool:
        return self.started_at is not None and self.outcome is None

    def log(self, stream: str, text: str) -> None:
        if not text or self.outcome is not None or self.stop is Stop.LOST:
            return
        if self.output is None:
            self.output = AttemptOutput()
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
        forced = self.stop is not None and self.stop >= Stop.STOP_NOW
        return 0 if forced else duration.parse(self.spec.grace)

    def on_cancel(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        if self.stop is not None:
            callback()

    def on_pause(self, suspend: Callable[[], None], resume: Callable[[], None]) -> None:
        self.suspend, self.resume = suspend, resume

    def tell_to_stop(self) -> None:
        """Tell the executor of a running attempt to stop it. If the executor registered no callback, cancel the asyncio
        task.
        """
        if self.callback is not None:
            self.callback()
        elif self.lane is not None:
            self.lane.cancel()
