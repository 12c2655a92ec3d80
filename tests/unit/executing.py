"""An attempt for executor tests, which records the calls of the executor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from timeball.domain import duration
from timeball.domain.job.job import JobSpec
from timeball.domain.network.address_lists import NO_LISTS, AddressLists
from timeball.domain.task.task import Task
from timeball.domain.tenant import DEFAULT_TENANT


class RecordedAttempt:
    """Implements `ports.executor.Attempt`."""

    def __init__(
        self,
        task: Task,
        *,
        token: int = 17,
        grace: str = "5s",
        tenant: str = DEFAULT_TENANT,
        addresses: AddressLists = NO_LISTS,
        **parameters: Any,
    ) -> None:
        self.run_id = f"r_{token:028x}"
        self.job_id = f"j_{token:028x}"
        self.attempt = 2
        self.token = token
        self.fire_time = 1_767_225_600_000_000
        self.spec = JobSpec(task=task, parameters=parameters, grace=grace)
        self.task = task
        self.tenant = tenant
        self.addresses = addresses
        self.traceparent: str | None = None
        self.cancelled = False
        self.chunks: list[tuple[str, str]] = []
        self.steps: list[tuple[float, str]] = []
        self._force = False
        self._callback: Callable[[], None] | None = None

    @property
    def grace(self) -> int:
        return 0 if self._force else duration.parse(self.spec.grace)

    def log(self, stream: str, text: str) -> None:
        if text:
            self.chunks.append((stream, text))

    def progress(self, fraction: float, note: str = "") -> None:
        self.steps.append((fraction, note))

    def on_cancel(self, callback: Callable[[], None]) -> None:
        self._callback = callback
        if self.cancelled:
            callback()

    def on_pause(self, suspend: Callable[[], None], resume: Callable[[], None]) -> None:
        self.suspend, self.resume = suspend, resume

    def cancel(self, *, force: bool = False) -> None:
        self.cancelled = True
        self._force = force
        if self._callback is not None:
            self._callback()

    def text(self, stream: str = "stdout") -> str:
        return "".join(text for name, text in self.chunks if name == stream)
