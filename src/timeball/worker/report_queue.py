"""Events that a worker has to report, collected into one report after the other.

One report is in flight at a time; events that occur during it go into the next one. The output of an attempt is never
sent after its outcome, because a server accepts no output of an ended attempt.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from itertools import islice
from typing import Final, Literal

import msgspec
from msgspec import UNSET, Struct

from timeball.domain.instant import MILLISECOND, Micros
from timeball.domain.run.lifecycle import Failed, Failure, Succeeded
from timeball.ports.clock import Clock
from timeball.ports.worker_protocol import (
    MAX_CHUNKS_PER_REPORT,
    MAX_MESSAGE_BYTES,
    MAX_NOTE_LENGTH,
    MAX_NOTES_PER_REPORT,
    MAX_OUTCOMES_PER_REPORT,
    Ended,
    LogChunk,
    Pausing,
    Progress,
    Report,
    Started,
)
from timeball.worker.attempt import HeldAttempt, Stop
from timeball.worker.output import CHUNK, clean
from timeball.worker.timers import Timers

REPORT_DELAY: Final = 200 * MILLISECOND
"""Microseconds for which output and progress are held back, so that one report contains more of them."""
REPORT_BYTES: Final = MAX_MESSAGE_BYTES // 4
"""Maximum size in bytes of the output in a report, and of its outcomes, as JSON: nothing is added once it is reached.
If the progress notes make the report too large, it is sent in parts.
"""
MAX_UNREPORTED: Final = 20_000
MAX_UNREPORTED_BYTES: Final = 64 * 1024 * 1024

MAX_REASON_LENGTH: Final = 1_000
"""Maximum number of characters of a refusal that become part of a failure message."""

log = logging.getLogger("timeball.worker")
_encode = msgspec.json.Encoder().encode


class PauseNote(Struct, frozen=True):
    """The worker's answer to a preemption order: the attempt was suspended, was resumed, or cannot be suspended."""

    attempt: HeldAttempt
    number: int
    what: Literal["paused", "resumed", "refused"]
    at: Micros

    def message(self, now: Micros) -> Pausing:
        held = self.attempt
        return Pausing(run_id=held.run_id, token=held.token, number=self.number, what=self.what, age=now - self.at)


class ReportContent(Struct):
    """The content of one report. It is sent again unchanged until it is answered; only the ages of its events grow."""

    started: list[HeldAttempt] = []
    progress: list[Progress] = []
    logs: list[LogChunk] = []
    ended: list[HeldAttempt] = []
    pausing: list[PauseNote] = []

    def parts(self, reason: str) -> list[ReportContent]:
        """Split a report that the server refused. Return the batches to send instead, in order.

        The parts become smaller with each refusal, so that in the end only the single item that the server refuses is
        left out. A refused outcome is replaced by a failure with the reason.
        """
        kinds = [
            *([ReportContent(started=self.started)] if self.started else []),
            *([ReportContent(pausing=self.pausing)] if self.pausing else []),
            *([ReportContent(progress=self.progress)] if self.progress else []),
            *([ReportContent(logs=self.logs)] if self.logs else []),
            *([ReportContent(ended=self.ended)] if self.ended else []),
        ]
        if len(kinds) > 1:
            return kinds
        if self.size > 1:
            first, second = (slice(None, self.size // 2), slice(self.size // 2, None))
            return [
                ReportContent(
                    self.started[half], self.progress[half], self.logs[half], self.ended[half], self.pausing[half]
                )
                for half in (first, second)
            ]
        for attempt in self.ended:
            if attempt.refused:
                # The worker keeps holding the attempt: the server would release one that is not held, and it might be
                # executed again.
                log.error(
                    "run %s: its outcome cannot be reported, because the server refused it: %s", attempt.run_id, reason
                )
                return []
            attempt.refused = True
            message = f"the server refused its outcome: {clean(reason[:MAX_REASON_LENGTH])}"
            attempt.outcome = Failed(Failure(kind="worker", message=message))
        return [self] if self.ended else []

    @property
    def size(self) -> int:
        return len(self.started) + len(self.progress) + len(self.logs) + len(self.ended) + len(self.pausing)

    def report(self, session: str, poll_seq: int, free: int, room: dict[str, int], now: Micros) -> Report:
        return Report(
            session=session,
            poll_seq=poll_seq,
            free=free,
            room=room,
            started=[
                Started(run_id=attempt.run_id, token=attempt.token, age=now - attempt.started_at)
                for attempt in self.started
                if attempt.started_at is not None
            ],
            progress=self.progress,
            logs=self.logs,
            ended=[_ended(attempt, now) for attempt in self.ended],
            pausing=[note.message(now) for note in self.pausing],
        )


def _ended(attempt: HeldAttempt, now: Micros) -> Ended:
    assert attempt.outcome is not None
    assignment = attempt.assignment
    began = attempt.started_at
    return Ended(
        run_id=assignment.run_id,
        job_id=assignment.job_id,
        attempt=assignment.attempt,
        token=assignment.token,
        serial=assignment.serial,
        turn=assignment.turn,
        outcome=attempt.outcome,
        age=None if began is None else now - began,
        took=0 if began is None else attempt.ended_at - began,
        host=None if began is None else attempt.work.host,
        placed=attempt.spec.result_location is not None,
        traceparent=assignment.traceparent,
    )


class ReportQueue:
    """Collects events for reports. Implements `AttemptListener`; the session takes the batches and sends them."""

    def __init__(self, clock: Clock, alarms: Timers) -> None:
        self._clock = clock
        self._alarms = alarms
        self._started: list[HeldAttempt] = []
        self._progress: dict[int, Progress] = {}
        self._with_output: dict[int, HeldAttempt] = {}
        self._logs: deque[LogChunk] = deque()
        self._log_size = 0
        self._ended: deque[HeldAttempt] = deque()
        self._pausing: list[PauseNote] = []
        self._under_way: ReportContent | None = None
        self._alarm_set = False
        self._has_events = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def congested(self) -> bool:
        """True if so many events are unreported that the worker should accept no new attempts."""
        return len(self._ended) > MAX_UNREPORTED or self._log_size > MAX_UNREPORTED_BYTES

    def wrote(self, attempt: HeldAttempt) -> None:
        self._empty.clear()
        self._with_output[attempt.token] = attempt
        if attempt.output is not None and attempt.output.waiting >= CHUNK:
            self._collect(attempt)
            self._has_events.set()
        else:
            self._wake_soon()

    def advanced(self, attempt: HeldAttempt, fraction: float, note: str) -> None:
        self._empty.clear()
        self._progress[attempt.token] = Progress(
            run_id=attempt.run_id, token=attempt.token, fraction=fraction, note=clean(_cut(note))
        )
        self._wake_soon()

    def started(self, attempt: HeldAttempt) -> None:
        self._started.append(attempt)
        self._wake()

    def ended(self, attempt: HeldAttempt) -> None:
        if attempt.output is not None:
            attempt.output.close()
            self._collect(attempt)
        if not self._ended:  # otherwise the session was notified when the first attempt ended
            self._wake()
        self._ended.append(attempt)

    def pausing(self, attempt: HeldAttempt, what: Literal["paused", "resumed", "refused"]) -> None:
        """Report that an attempt was suspended or resumed, or cannot be suspended. The number of free slots may have
        changed, too.
        """
        self._pausing.append(PauseNote(attempt, attempt.asked, what, self._clock.monotonic()))
        self._wake()

    def apart(self, batch: ReportContent, fault: str) -> list[ReportContent]:
        """Split a batch that the server cannot store although it stores an empty report. Return the batches to send
        instead, in order. If the batch is a single outcome, it is replaced once by a failure with the reason. If that
        failure cannot be stored either, the content is not the cause: the original outcome is queued again, behind the
        others."""
        if batch.size > 1 or not batch.ended:
            return batch.parts(fault)
        (attempt,) = batch.ended
        if attempt.unreported is None:
            attempt.unreported = attempt.outcome
            message = f"its outcome could not be reported: {clean(fault[:MAX_REASON_LENGTH])}"
            attempt.outcome = Failed(Failure(kind="worker", message=message))
            return [batch]
        attempt.outcome, attempt.unreported = attempt.unreported, None
        log.error("run %s: its outcome cannot be reported now and will be retried: %s", attempt.run_id, fault)
        self._ended.append(attempt)
        return []

    def amend(self) -> None:
        """Send a report without events, because the number of free slots changed during a pending poll."""
        self._wake()

    def forget(self, token: int) -> None:
        """Drop the progress of an attempt that the worker does not hold any more, and its output that was not collected
        for a report yet. Collected output is still sent; the store refuses it.
        """
        self._with_output.pop(token, None)
        self._progress.pop(token, None)

    def clear(self) -> None:
        """Drop all events, because the session is lost and no server would accept them."""
        self._started.clear()
        self._pausing.clear()
        self._progress.clear()
        self._with_output.clear()
        self._logs.clear()
        self._log_size = 0
        self._ended.clear()
        self._under_way = None
        self._has_events.clear()
        self._empty.set()

    async def flushed(self) -> None:
        """Wait until all events were reported and confirmed."""
        await self._empty.wait()

    async def next(self) -> ReportContent:
        """Wait for events and return the next batch. The caller calls `confirm` once the server has accepted it."""
        await self._has_events.wait()
        self._has_events.clear()
        for attempt in list(self._with_output.values()):
            self._collect(attempt)
        logs = self._take_logs()
        self._under_way = ReportContent(
            started=[a for a in self._started[:MAX_NOTES_PER_REPORT] if a.outcome is None and a.stop is not Stop.LOST],
            progress=list(islice(self._progress.values(), MAX_NOTES_PER_REPORT)),
            logs=logs,
            ended=self._take_ended(),
            pausing=[note for note in self._pausing[:MAX_NOTES_PER_REPORT] if note.attempt.outcome is None],
        )
        del self._started[:MAX_NOTES_PER_REPORT]
        del self._pausing[:MAX_NOTES_PER_REPORT]
        for step in self._under_way.progress:
            del self._progress[step.token]
        if self._progress:
            self._wake_soon()
        return self._under_way

    def confirm(self) -> None:
        self._under_way = None
        if self._logs or self._ended or self._started or self._pausing:
            self._has_events.set()
        elif not (self._has_events.is_set() or self._with_output or self._progress):
            self._empty.set()

    def _wake(self) -> None:
        self._empty.clear()
        self._has_events.set()

    def _wake_soon(self) -> None:
        if not self._alarm_set:
            self._alarm_set = True
            self._alarms.at(self._clock.monotonic() + REPORT_DELAY, self._delay_over)

    def _delay_over(self) -> None:
        self._alarm_set = False
        if self._with_output or self._progress:
            self._has_events.set()

    def _collect(self, attempt: HeldAttempt) -> None:
        self._with_output.pop(attempt.token, None)
        if attempt.output is not None:
            self._log_size += attempt.output.waiting
            self._logs.extend(attempt.output.take(attempt.run_id, attempt.attempt, attempt.token))

    def _take_logs(self) -> list[LogChunk]:
        taken: list[LogChunk] = []
        size = length = 0
        while self._logs and size < REPORT_BYTES and len(taken) < MAX_CHUNKS_PER_REPORT:
            chunk = self._logs.popleft()
            size += len(_encode(chunk.text))
            length += len(chunk.text)
            taken.append(chunk)
        self._log_size = self._log_size - length if self._logs else 0
        return taken

    def _take_ended(self) -> list[HeldAttempt]:
        """Take as many outcomes as fit into a report. An outcome is taken only if all output of its attempt was sent or
        is in this report.
        """
        if not self._ended:
            return []
        behind = {chunk.token for chunk in self._logs}
        taken: list[HeldAttempt] = []
        size = 0
        while self._ended and len(taken) < MAX_OUTCOMES_PER_REPORT and size < REPORT_BYTES:
            if behind and self._ended[0].token in behind:
                break
            attempt = self._ended.popleft()
            size += _outcome_size(attempt)
            taken.append(attempt)
        return taken


def _cut(note: str) -> str:
    return note if len(note) <= MAX_NOTE_LENGTH else f"{note[: MAX_NOTE_LENGTH - 1]}…"


def _outcome_size(attempt: HeldAttempt) -> int:
    """Return the size in bytes of the result or the failure in the outcome of an attempt."""
    outcome = attempt.outcome
    if isinstance(outcome, Succeeded):
        return 0 if outcome.result is UNSET else len(outcome.result)
    return len(_encode(outcome.failure)) if isinstance(outcome, Failed) else 0
