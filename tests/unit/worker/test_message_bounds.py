"""I28: whatever jobs do, the messages of a worker keep within the bounds of the server."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from tests.support.fake_worker_protocol import python
from timeball.api.routes.worker_protocol import _check_report
from timeball.domain.errors import TooLarge
from timeball.domain.run.lifecycle import Failed, Failure, Succeeded
from timeball.executors import results
from timeball.ports.executor import Executor
from timeball.ports.worker_protocol import MAX_MESSAGE_BYTES, MAX_MESSAGE_LENGTH, MAX_RESULT_SIZE, Progress, Report
from timeball.system import SystemClock
from timeball.worker.assignment import Reader
from timeball.worker.attempt import HeldAttempt
from timeball.worker.output import MAX_OUTCOME_MESSAGE_LENGTH, sendable
from timeball.worker.report_queue import ReportQueue
from timeball.worker.timers import Timers
from timeball.worker.transport.http_worker_protocol import HttpWorkerProtocol

CLOCK = SystemClock()
READER = Reader({"python": cast(Executor, object())})


def held(outbox: ReportQueue, token: int) -> HeldAttempt:
    assigned = python(token, "noop")
    attempt = HeldAttempt.of(assigned, READER.read(assigned), outbox)
    attempt.started_at = CLOCK.monotonic()
    return attempt


async def reports(outbox: ReportQueue) -> list[Report]:
    """All that it has to say, as a server reads it. Raises if one of the messages does not fit."""
    read: list[Report] = []
    while outbox._has_events.is_set() or outbox._progress or outbox._with_output:
        outbox._has_events.set()
        batch = await outbox.next()
        message = batch.report("w_1", 1, 1, {}, CLOCK.monotonic())
        encoded = msgspec.json.encode(message)
        assert len(encoded) <= MAX_MESSAGE_BYTES
        report = msgspec.json.decode(encoded, type=Report)
        _check_report(report)
        read.append(report)
        outbox.confirm()
    return read


def new_outbox() -> ReportQueue:
    return ReportQueue(CLOCK, cast(Any, Timers(CLOCK)))


async def test_many_starts_and_steps_are_several_messages() -> None:
    outbox = new_outbox()
    attempts = [held(outbox, token) for token in range(1, 25_001)]
    for attempt in attempts:
        outbox.started(attempt)
        outbox.advanced(attempt, 0.5, "n" * 3_000)
    said = await reports(outbox)
    for kind in ("started", "progress"):
        assert sorted(each.token for report in said for each in getattr(report, kind)) == list(range(1, 25_001))
    (note,) = {step.note for report in said for step in report.progress}
    assert (len(note), note[-1]) == (1_000, "…")


async def test_long_errors_and_results_are_several_messages() -> None:
    """I28: a message has at most 4 MiB, also if its texts are escaped."""
    outbox = new_outbox()
    for token in range(1, 2_001):
        attempt = held(outbox, token)
        if token % 100:
            attempt.outcome = Failed(Failure(kind="exit", message="\x01" * MAX_MESSAGE_LENGTH))
        else:
            attempt.outcome = Succeeded(msgspec.Raw(b'"%b"' % (b"x" * (MAX_RESULT_SIZE - 2))))
        attempt.ended_at = CLOCK.monotonic()
        outbox.ended(attempt)
    said = await reports(outbox)
    assert [each.token for report in said for each in report.ended] == list(range(1, 2_001))


async def test_output_that_is_escaped_is_several_messages() -> None:
    """I28: a control character takes six bytes of JSON."""
    outbox = new_outbox()
    for token in range(1, 31):
        held(outbox, token).log("stdout", "\x01" * 200_000)
    said = await reports(outbox)
    assert sum(len(chunk.text) for report in said for chunk in report.logs) == 30 * 200_000


async def test_a_message_that_no_server_takes_is_not_sent() -> None:
    """I28: the worker sends it in parts, as if a server had refused it."""
    notes = [Progress(run_id="r_1", token=1, fraction=0.5, note="\x01" * 1_000)] * 2_000
    async with HttpWorkerProtocol(["http://127.0.0.1:9"], None) as dispatch:
        with pytest.raises(TooLarge, match="4 MiB"):
            await dispatch.report(Report(session="w_1", poll_seq=1, free=1, progress=notes))


async def test_output_in_small_pieces_is_several_messages_in_order() -> None:
    outbox = new_outbox()
    attempt = held(outbox, 1)
    for _ in range(30_000):
        attempt.log("stdout", "a")
        attempt.log("stderr", "b")
    attempt.log("stdout", "c" * 200_000)
    attempt.outcome, attempt.ended_at = Failed(Failure(kind="exit", message="m")), CLOCK.monotonic()
    outbox.ended(attempt)
    said = await reports(outbox)
    chunks = [chunk for report in said for chunk in report.logs]
    assert [chunk.seq for chunk in chunks] == list(range(len(chunks)))
    assert "".join(chunk.text for chunk in chunks) == "ab" * 30_000 + "c" * 200_000
    assert [bool(report.ended) for report in said] == [False] * (len(said) - 1) + [True]


def test_a_failure_is_cut_with_a_mark() -> None:
    names = tuple("E" * 2_000 for _ in range(500))
    failure = sendable(Failed(Failure(kind="exception", message="m" * 50_000, exceptions=names))).failure
    assert failure.message.endswith("[…]")
    assert len(failure.message) <= MAX_OUTCOME_MESSAGE_LENGTH + 4 <= MAX_MESSAGE_LENGTH
    assert (len(failure.exceptions), {len(name) for name in failure.exceptions}) == (100, {500})


def test_every_result_that_a_worker_keeps_is_one_that_a_server_takes() -> None:
    assert results.LARGEST <= MAX_RESULT_SIZE
