"""I30: the status of an answer, the end of a process and the return of a function decide the outcome. Other content
that cannot be read, decoded or stored turns no success into a failure, and no failure into another one."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from tests.support.raw_target import RawRequest, listening
from tests.unit import odd_tasks
from tests.unit.executing import RecordedAttempt
from timeball.domain.run.lifecycle import Failed, Failure, Outcome, Succeeded
from timeball.domain.task.task import Http, Python, Shell
from timeball.executors.guard.guard import ProcessGuard
from timeball.executors.http.executor import HttpExecutor
from timeball.executors.process.process import Processes
from timeball.executors.python.executor import PythonExecutor
from timeball.executors.python.warm.processes import PythonProcesses
from timeball.executors.shell import ShellExecutor
from timeball.tasks import REGISTRY, Context, Registry


def result(outcome: Outcome) -> Any:
    assert isinstance(outcome, Succeeded), outcome
    assert isinstance(outcome.result, msgspec.Raw)
    return msgspec.json.decode(outcome.result)


def failure(outcome: Outcome) -> Failure:
    assert isinstance(outcome, Failed), outcome
    msgspec.json.encode(outcome)
    return outcome.failure


# --- answers ----------------------------------------------------------------------------------------------------------


@dataclass
class Call:
    """What came of a call, and how often the target was called."""

    outcome: Outcome
    attempt: RecordedAttempt
    requests: int


async def call(answer: bytes, **fields: Any) -> Call:
    """Answered with these bytes, and the end of the connection."""
    requests = 0

    async def respond(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        requests += 1
        writer.write(answer)
        await writer.drain()
        raise ConnectionError

    executor = HttpExecutor()
    try:
        async with listening(respond) as url:
            attempt = RecordedAttempt(Http(url=url, **fields))
            return Call(await executor.execute(attempt), attempt, requests)
    finally:
        await executor.close()


@pytest.mark.parametrize("name", ["Location", "ETag", "Content-Type", "Last-Modified"])
async def test_a_header_in_another_encoding_is_kept(name: str) -> None:
    head = f"HTTP/1.1 201 Created\r\n{name}: ".encode() + b"/caf\xe9\r\nContent-Length: 2\r\n\r\nok"
    called = await call(head)
    kept = result(called.outcome)
    assert (kept["status"], kept["headers"][name], kept["body"], called.requests) == (201, "/café", "ok", 1)


@pytest.mark.parametrize(
    "charset",
    [
        *("idna", "punycode", "undefined", "utf-7", "unicode_escape", "raw_unicode_escape"),
        *("rot13", "hex", "unknown", "x" * 5_000, '"'),
    ],
)
async def test_an_odd_charset_fails_no_call(charset: str) -> None:
    body = b"+2AA- \\ud800 x\xe9"
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset={charset}\r\nContent-Length: {len(body)}\r\n\r\n"
    kept = result((await call(head.encode() + body)).outcome)
    assert (kept["status"], kept["body"]) == (200, "+2AA- \\ud800 x\ufffd")


@pytest.mark.parametrize(
    ("charset", "body", "shown"),
    [("ISO-8859-1", b"caf\xe9", "café"), ("utf-16le", "é".encode("utf-16le"), "é"), ("Shift_JIS", b"\x83A", "ア")],
)
async def test_charsets_of_the_web_are_read(charset: str, body: bytes, shown: str) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset={charset}\r\nContent-Length: {len(body)}\r\n\r\n"
    assert result((await call(head.encode() + body)).outcome)["body"] == shown


BROKEN = {
    "a body that breaks off": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegun",
    "a chunk that breaks off": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegun\r\nff\r\nx",
    "a chunk that is none": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegun\r\nhello\r\n",
    "no gzip": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nbegun",
    "half a gzip": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 900\r\n\r\n"
    + gzip.compress(b"x")[:9],
    "an encoding that is not installed": b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 1\r\n\r\nx",
    "a header of 1 MiB": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 2**20 + b"\r\nContent-Length: 1\r\n\r\nx",
    "a thousand headers": b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 1_000 + b"Content-Length: 1\r\n\r\nx",
    "a header with a NUL": b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 1\r\n\r\nx",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
    "a head that breaks off": b"HTTP/1.1 200 OK\r\nContent-Type: text/pl",
}


@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN)
async def test_a_2xx_that_cannot_be_read_to_its_end_is_a_success(answer: bytes) -> None:
    """The target has done its work: to call it once more might do that twice."""
    called = await call(answer)
    kept = result(called.outcome)
    assert (kept["status"], kept["truncated"], called.requests) == (200, True, 1)
    assert "200" in called.attempt.text("system")


async def test_what_arrived_of_a_body_is_kept() -> None:
    assert result((await call(BROKEN["a body that breaks off"])).outcome)["body"] == "begun"


@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN)
async def test_a_failing_answer_keeps_its_status_however_it_ends(answer: bytes) -> None:
    """What the retry policy and the circuit breaker know of a 404 does not depend on the rest of the answer."""
    called = await call(answer.replace(b"200 OK", b"404 Gone"))
    assert failure(called.outcome).status == 404
    accepted = await call(answer.replace(b"200 OK", b"404 Gone"), accepted_statuses=[404])
    assert result(accepted.outcome)["status"] == 404


@pytest.mark.parametrize("second", [b"", b"HTTP/1.1 2", b"HTTP/1.1 100 Continue\r\n\r\n"])
async def test_the_status_of_an_earlier_call_decides_nothing(second: bytes) -> None:
    """Both calls share a connection; the second one gets no status."""
    connections: list[int] = []

    async def respond(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        connections.append(request.connection)
        if len(connections) == 1:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            return
        writer.write(second)
        await writer.drain()
        raise ConnectionError

    executor = HttpExecutor()
    async with listening(respond) as url:
        assert result(await executor.execute(RecordedAttempt(Http(url=url))))["body"] == "ok"
        assert failure(await executor.execute(RecordedAttempt(Http(url=url)))).status is None
    await executor.close()
    assert connections == [1, 1]


async def test_an_answer_without_a_status_is_a_failure() -> None:
    for answer in (b"", b"HTTP/1.1 20", b"nonsense\r\n\r\n", b"HTTP/1.1 2000 OK\r\n\r\n"):
        assert failure((await call(answer)).outcome).status is None


async def test_a_long_header_is_read_and_cut() -> None:
    head = b"HTTP/1.1 200 OK\r\nETag: " + b"x" * 20_000 + b"\r\nContent-Length: 2\r\n\r\nok"
    kept = result((await call(head)).outcome)
    assert (kept["body"], len(kept["headers"]["ETag"])) == ("ok", 8_192)


# --- functions --------------------------------------------------------------------------------------------------------


@pytest.fixture
async def executor() -> AsyncIterator[PythonExecutor]:
    guard = ProcessGuard()
    processes = PythonProcesses(Processes(guard), max_children=4)
    executor = PythonExecutor(REGISTRY, slots=1, process_mode=processes)
    yield executor
    executor.close()
    await processes.close()
    await guard.close()


def registered(mode: str, name: str, calls: list[str]) -> str:
    """The name under which a function that makes something odd runs in this mode."""
    if mode == "process":
        return f"odd.{name}"
    full = f"odd.{mode}.{name}"
    body = getattr(odd_tasks, name)

    def counted() -> object:
        calls.append(name)
        return body()

    async def in_loop() -> object:
        return counted()

    REGISTRY._functions.pop(full, None)
    REGISTRY.add(in_loop if mode == "async" else counted, full)
    return full


@pytest.mark.parametrize("mode", ["async", "thread", "process"])
@pytest.mark.parametrize("name", odd_tasks.RESULTS)
async def test_a_function_that_returned_has_succeeded(executor: PythonExecutor, mode: str, name: str) -> None:
    """Whatever it returned: what cannot be kept as JSON is replaced by a note of bounded size."""
    calls: list[str] = []
    attempt = RecordedAttempt(Python(function=registered(mode, name, calls)))
    outcome = await executor.execute(attempt)
    kept = result(outcome)
    assert set(kept) == {"notKept"}
    assert isinstance(outcome, Succeeded)
    assert isinstance(outcome.result, msgspec.Raw)
    assert len(outcome.result) < 2_000
    assert kept["notKept"] in attempt.text("system") + attempt.text("stderr")
    assert calls == ([] if mode == "process" else [name])


@pytest.mark.parametrize("mode", ["async", "thread", "process"])
@pytest.mark.parametrize("name", odd_tasks.FAILURES)
async def test_an_exception_that_cannot_be_rendered_is_that_failure(
    executor: PythonExecutor, mode: str, name: str
) -> None:
    """The retry policy matches the names of its classes."""
    outcome = await executor.execute(RecordedAttempt(Python(function=registered(mode, name, []))))
    ended = failure(outcome)
    assert ended.kind == "exception"
    assert "LookupError" in ended.exceptions
    assert len(ended.message) < 20_000


@pytest.mark.parametrize("mode", ["async", "thread"])
async def test_odd_progress_fails_no_run(mode: str) -> None:
    def report(ctx: Context) -> str:
        for fraction, note in reversed(odd_tasks.PROGRESS):  # a thread passes the last one on
            ctx.progress(fraction, note)
        return "done"

    async def in_loop(ctx: Context) -> str:
        return report(ctx)

    registry = Registry()
    registry.add(in_loop if mode == "async" else report, "report")
    executor = PythonExecutor(registry, slots=1)
    attempt = RecordedAttempt(Python(function="report"))
    assert result(await executor.execute(attempt)) == "done"
    executor.close()
    msgspec.json.encode(attempt.steps)
    assert all(isinstance(fraction, float) and isinstance(note, str) for fraction, note in attempt.steps)


async def test_odd_progress_fails_no_process(executor: PythonExecutor) -> None:
    attempt = RecordedAttempt(Python(function="odd.report"))
    assert result(await executor.execute(attempt)) == "done"
    assert attempt.steps[-1] == (1.0, "end")


# --- processes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("echo ::result done", "is not JSON"),
        ("echo '::result '", "is not JSON"),
        (r"printf '::result \377\n'", "is not JSON"),
        ("""printf '::result "'; head -c 1100000 /dev/zero | tr '\\0' x; echo '"'""", "at most 1048576 are kept"),
        ("printf '::result '; head -c 200 /dev/zero | tr '\\0' '['; head -c 200 /dev/zero | tr '\\0' ']'", "nested"),
        ("printf '::result '; head -c 90000 /dev/zero | tr '\\0' '['", "nested"),
    ],
)
async def test_a_process_that_exits_with_0_has_succeeded(command: str, why: str) -> None:
    guard = ProcessGuard()
    attempt = RecordedAttempt(Shell(command=command))
    try:
        kept = result(await ShellExecutor(Processes(guard)).execute(attempt))
    finally:
        await guard.close()
    assert why in kept["notKept"]
    assert why in attempt.text("system")
