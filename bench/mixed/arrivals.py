"""Jobs that are due one after the other, at equal distances, and are submitted some seconds before."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.batch_load import Connection
from bench.deployment import Deployment

BATCH_SECONDS: Final = 0.1
"""The jobs that are due within this time are submitted together."""
START_DELAY: Final = 0.2
"""Seconds until the first batch is sent."""
EPOCH: Final = dt.datetime.fromtimestamp(0, dt.UTC)


@dataclass(frozen=True)
class Arrivals:
    """When which job is due."""

    first: int
    """The due instant of the first job, in microseconds."""
    rate: float
    jobs: int
    kinds: tuple[str, ...]
    """The kinds of the jobs in turn."""

    def due(self, number: int) -> int:
        return self.first + int(number * 1e6 / self.rate)

    @property
    def due_instants(self) -> list[int]:
        return [self.due(number) for number in range(self.jobs)]

    def kind(self, number: int) -> str:
        return self.kinds[number % len(self.kinds)]

    @property
    def batches(self) -> list[range]:
        """The numbers of the jobs of each batch."""
        size = self.rate * BATCH_SECONDS
        borders = [min(self.jobs, round(index * size)) for index in range(int(self.jobs / size) + 2)]
        return [range(begin, end) for begin, end in itertools.pairwise(borders) if begin < end]


class Submitter(threading.Thread):
    """Submits each batch `lead` seconds before its first job is due."""

    def __init__(
        self, running: Deployment, arrivals: Arrivals, tasks: Sequence[Mapping[str, Any]], lead: float
    ) -> None:
        super().__init__()
        self._running = running
        self._arrivals = arrivals
        self._tasks = [json.dumps(task) for task in tasks]
        self._lead = lead
        self.accepted_late = 0
        """Number of jobs in batches that were accepted after the first of them was due."""
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._submit_all()
        except BaseException as error:
            self._error = error

    def finish(self) -> None:
        """Wait until all batches are accepted. Raise the error that prevented it."""
        self.join()
        if self._error is not None:
            raise self._error

    def _submit_all(self) -> None:
        connection = Connection(self._running)
        try:
            for numbers in self._arrivals.batches:
                first_due = self._arrivals.due(numbers[0]) / 1e6
                time.sleep(max(0.0, first_due - self._lead - time.time()))
                connection.post("/v1/jobs:batch", self.body(numbers))
                self._running.submitted += len(numbers)
                self.accepted_late += len(numbers) if time.time() > first_due else 0
        finally:
            connection.close()

    def body(self, numbers: range) -> bytes:
        return f"[{','.join(self._job(number) for number in numbers)}]".encode()

    def _job(self, number: int) -> str:
        moment = EPOCH + dt.timedelta(microseconds=self._arrivals.due(number))
        task = self._tasks[number % len(self._tasks)]
        return f'{{"task":{task},"schedule":{{"type":"date","expression":"{moment.isoformat()}"}}}}'
