"""The five messages of `ports.dispatch`, over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

import msgspec
from msgspec import Struct

from timeball.api import reading
from timeball.api.bodies import Goodbye
from timeball.api.route import Answer, Call, Permission, Route, answer_json
from timeball.api.unreadable import Malformed
from timeball.domain.errors import Invalid
from timeball.domain.fitting import MOST_MEMORY
from timeball.domain.instant import DAY, MINUTE
from timeball.domain.lifecycle import Failed, Failure
from timeball.ports.dispatch import Beat, Hello, Orders, Poll, Receipt, Report, Welcome

MOST_SLOTS: Final = 100_000
MOST_CPUS: Final = 100_000
LONGEST_WAIT: Final = MINUTE
LONGEST_RUN: Final = 3_660 * DAY
LONGEST_ADDRESS: Final = 300
MOST_CHUNKS: Final = 1_000_000
"""Of output per attempt: a position in the output of a run is made of its attempt and its number there."""

_hello = msgspec.json.Decoder(Hello)
_poll = msgspec.json.Decoder(Poll)
_beat = msgspec.json.Decoder(Beat)
_report = msgspec.json.Decoder(Report)
_goodbye = msgspec.json.Decoder(Goodbye)


def _read(call: Call, decoder: msgspec.json.Decoder[Any]) -> Any:
    return reading.read(_without_nul(call.raw), decoder)


def _without_nul(raw: bytes) -> bytes:
    """Output of jobs may hold anything. NUL, which the store cannot keep, is shown as what it is: not a character."""
    # To look for one byte takes a hundredth of the time.
    return raw.replace(b"\\u0000", b"\\ufffd") if b"\\" in raw else raw


def _read_report(raw: bytes) -> Report:
    """Results are kept as the text they are, whatever numbers are in them and however deep: one that is odd must not
    cost the others of its report. What says who ended, and when, has its bounds in its type: a look at each value
    would cost twenty times as much as the decoding."""
    raw = _without_nul(raw)
    reading.check_text(raw)
    message: Report = reading.decode(raw, _report)
    return message


def _check_report(report: Report) -> None:
    """Numbers that the store could not add up."""
    for index, ended in enumerate(report.ended):
        if not 0 <= ended.took <= LONGEST_RUN or not 0 <= (ended.age or 0) <= LONGEST_RUN:
            raise Invalid("an attempt took between nothing and ten years", f"/ended/{index}")
        if len(ended.host or "") > LONGEST_ADDRESS:
            raise Invalid(f"a host and its port have at most {LONGEST_ADDRESS} characters", f"/ended/{index}/host")
        if isinstance(ended.outcome, Failed):
            _check_failure(ended.outcome.failure, f"/ended/{index}/outcome/failure")
    for index, started in enumerate(report.started):
        if not 0 <= started.age <= LONGEST_RUN:
            raise Invalid("an attempt started between now and ten years ago", f"/started/{index}/age")
    for index, pausing in enumerate(report.pausing):
        if not 0 <= pausing.age <= LONGEST_RUN:
            raise Invalid("an attempt stopped between now and ten years ago", f"/pausing/{index}/age")
    for index, chunk in enumerate(report.logs):
        if not 0 <= chunk.seq < MOST_CHUNKS:
            raise Invalid(f"seq must be between 0 and {MOST_CHUNKS:,}", f"/logs/{index}/seq")
    for index, progress in enumerate(report.progress):
        if not 0 <= progress.fraction <= 1:
            raise Invalid("a fraction is between 0 and 1", f"/progress/{index}/fraction")


def _check_failure(failure: Failure, pointer: str) -> None:
    try:
        reading.check_values(msgspec.to_builtins(failure))
    except Invalid as error:
        raise Invalid(error.detail, f"{pointer}{error.problems[0].pointer}") from None


def _check_slots(count: int, field: str) -> None:
    if not 0 <= count <= MOST_SLOTS:
        raise Invalid(f"{field} must be between 0 and {MOST_SLOTS:,}", f"/{field}")


def _check_offer(hello: Hello) -> None:
    _check_slots(hello.slots, "slots")
    if hello.cpu is not None and not 0 <= hello.cpu <= MOST_CPUS:
        raise Invalid(f"cpu must be between 0 and {MOST_CPUS:,}", "/cpu")
    if hello.memory_mb is not None and not 0 <= hello.memory_mb <= MOST_MEMORY:
        raise Invalid(f"memoryMb must be between 0 and {MOST_MEMORY:,}", "/memoryMb")


def _key_of(call: Call) -> str:
    assert call.key is not None, "no message of a worker comes without a key"
    return call.key.id


async def hello(call: Call) -> Answer:
    message: Hello = _read(call, _hello)
    _check_offer(message)
    return answer_json(await call.services.dispatch.hello(message, _key_of(call)))


async def poll(call: Call) -> Answer:
    message: Poll = _read(call, _poll)
    _check_slots(message.free, "free")
    wait = min(max(message.wait, 0), LONGEST_WAIT)
    asked = msgspec.structs.replace(message, wait=wait) if wait != message.wait else message
    return answer_json(await _while_connected(call, call.services.dispatch.poll(asked, _key_of(call))))


async def _while_connected(call: Call, polling: Coroutine[Any, Any, Orders]) -> Orders:
    """A worker that died while it waited must be assigned nothing."""
    work = asyncio.ensure_future(polling)
    gone = asyncio.ensure_future(call.request.receive())
    gone.add_done_callback(lambda _: work.cancel())
    try:
        return await work
    except asyncio.CancelledError:
        if gone.done():
            raise Malformed("the worker hung up") from None
        raise
    finally:
        gone.cancel()


async def beat(call: Call) -> Answer:
    return answer_json(await call.services.dispatch.beat(_read(call, _beat), _key_of(call)))


async def report(call: Call) -> Answer:
    message = _read_report(call.raw)
    _check_slots(message.free, "free")
    _check_report(message)
    return answer_json(await call.services.dispatch.report(message, _key_of(call)))


async def goodbye(call: Call) -> Answer:
    message: Goodbye = _read(call, _goodbye)
    await call.services.dispatch.goodbye(message.session, _key_of(call))
    return Answer(status=204)


def _route(name: str, summary: str, handle: Any, body: type[Struct], answer: Any) -> Route:
    return Route(
        method="POST",
        path=f"/v1/worker/{name}",
        permission=Permission.WORKER,
        summary=summary,
        handle=handle,
        body=body,
        lasts=handle is poll,
        reads_raw=True,
        limit=reading.MAX_BATCH,
        answer=answer,
        status=200 if answer is not None else 204,
        problems=(409,) if body is not Hello else (),
    )


ROUTES: Final = (
    _route("poll", "Say what the worker has, and wait for something to do", poll, Poll, Orders),
    _route("report", "Say what happened", report, Report, Receipt),
    _route("beat", "Renew the session's lease", beat, Beat, Orders),
    _route("hello", "Open a session", hello, Hello, Welcome),
    _route("goodbye", "Leave, and give back what is held", goodbye, Goodbye, None),
)
