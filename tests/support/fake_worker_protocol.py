"""A server for tests of the worker. It assigns the runs that a test gives to it, and records the messages of the
worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import Raw

from timeball.domain.instant import SECOND
from timeball.ports.worker_protocol import (
    Assignment,
    Beat,
    Ended,
    LogChunk,
    Poll,
    PollResponse,
    Progress,
    RegisterWorker,
    Report,
    ReportAck,
    Started,
    WorkerRegistered,
)


def assignment(token: int, task: dict[str, Any], *, delay: int = 0, **spec: Any) -> Assignment:
    return Assignment(
        run_id=f"r_{token:028x}",
        job_id=f"j_{token:028x}",
        attempt=1,
        token=token,
        delay=delay,
        fire_time=1_700_000_000_000_000,
        serial=False,
        spec=Raw(msgspec.json.encode({"task": task, **spec})),
    )


def python(token: int, function: str, *, delay: int = 0, **spec: Any) -> Assignment:
    return assignment(token, {"kind": "python", "function": function}, delay=delay, **spec)


class FakeDispatch:
    """Answers polls with the assignments that a test added. Every call can be made to fail."""

    def __init__(self, *, lease: int = 15 * SECOND, beat_every: int = 5 * SECOND) -> None:
        self.lease = lease
        self.beat_every = beat_every
        self.hellos: list[RegisterWorker] = []
        self.polls: list[Poll] = []
        self.beats: list[Beat] = []
        self.reports: list[Report] = []
        self.goodbyes: list[str] = []
        self.stale: list[int] = []
        self.failing: dict[str, Callable[[], BaseException]] = {}
        """By call: a function that makes the error with which the call fails now."""
        self.beat_answer = PollResponse()
        self._orders: asyncio.Queue[PollResponse] = asyncio.Queue()

    def give(self, *assignments: Assignment, drain: bool = False) -> None:
        self._orders.put_nowait(PollResponse(assignments=list(assignments), drain=drain))

    def order(
        self,
        *,
        cancel: Iterable[int] = (),
        kill: Iterable[int] = (),
        lost: Iterable[int] = (),
        pause: Iterable[tuple[int, int]] = (),
        drain: bool = False,
    ) -> None:
        orders = PollResponse(cancel=list(cancel), kill=list(kill), lost=list(lost), pause=list(pause), drain=drain)
        self._orders.put_nowait(orders)

    async def hello(self, hello: RegisterWorker) -> WorkerRegistered:
        self.hellos.append(hello)
        self._maybe_fail("hello")
        return WorkerRegistered(session=f"w_{len(self.hellos)}", lease=self.lease, beat_every=self.beat_every)

    async def poll(self, poll: Poll) -> PollResponse:
        self.polls.append(poll)
        self._maybe_fail("poll")
        try:
            async with asyncio.timeout(poll.wait / SECOND):
                return await self._orders.get()
        except TimeoutError:
            return PollResponse()

    async def beat(self, beat: Beat) -> PollResponse:
        self.beats.append(beat)
        self._maybe_fail("beat")
        return self.beat_answer

    async def report(self, report: Report) -> ReportAck:
        self.reports.append(report)
        self._maybe_fail("report")
        return ReportAck(stale=[t for t in self.stale if t in _tokens(report)])

    async def goodbye(self, session: str) -> None:
        self.goodbyes.append(session)
        self._maybe_fail("goodbye")

    def _maybe_fail(self, call: str) -> None:
        if call in self.failing:
            raise self.failing[call]()

    async def until(self, condition: Callable[[], bool]) -> None:
        while True:
            if condition():
                return
            await asyncio.sleep(0.002)

    async def until_polled(self, condition: Callable[[Poll], bool]) -> None:
        """Wait for a poll that satisfies the condition. Pending polls are answered until it arrives."""
        while not (self.polls and condition(self.polls[-1])):
            self.give()
            await asyncio.sleep(0.01)

    @property
    def ended(self) -> dict[int, Ended]:
        return {ended.token: ended for report in self.reports for ended in report.ended}

    @property
    def started(self) -> dict[int, Started]:
        return {started.token: started for report in self.reports for started in report.started}

    @property
    def progress(self) -> list[Progress]:
        return [progress for report in self.reports for progress in report.progress]

    def logs(self, token: int) -> list[LogChunk]:
        return [chunk for report in self.reports for chunk in report.logs if chunk.token == token]

    def text(self, token: int, stream: str | None = None) -> str:
        return "".join(chunk.text for chunk in self.logs(token) if stream in (None, chunk.stream))


def _tokens(report: Report) -> set[int]:
    items: list[Started | Progress | LogChunk | Ended] = [
        *report.started,
        *report.progress,
        *report.logs,
        *report.ended,
    ]
    return {item.token for item in items}
