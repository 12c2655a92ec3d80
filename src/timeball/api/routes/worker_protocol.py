"""Routes of the five messages of `ports.worker_protocol`."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct

from timeball.api.bodies import Goodbye
from timeball.api.routing import Answer, Call, Route, answer_json
from timeball.domain import ids
from timeball.domain.dispatch.placement import MAX_MEMORY
from timeball.domain.errors import Forbidden, Invalid
from timeball.domain.identity.permission import Permission
from timeball.domain.identity.worker_key import check_labels
from timeball.domain.instant import MINUTE
from timeball.domain.run.lifecycle import Failed, Failure, Succeeded
from timeball.jobspec import json_input
from timeball.jobspec.errors import Malformed
from timeball.ports.worker_protocol import (
    MAX_AGE,
    MAX_EXCEPTION_LENGTH,
    MAX_EXCEPTIONS,
    MAX_KIND_LENGTH,
    MAX_MESSAGE_BYTES,
    MAX_MESSAGE_LENGTH,
    MAX_RESULT_SIZE,
    Beat,
    Poll,
    PollResponse,
    RegisterWorker,
    Report,
    ReportAck,
    WorkerRegistered,
)

MAX_SLOTS: Final = 100_000
MAX_CPUS: Final = 100_000
MAX_WAIT: Final = MINUTE

_hello = msgspec.json.Decoder(RegisterWorker)
_poll = msgspec.json.Decoder(Poll)
_beat = msgspec.json.Decoder(Beat)
_report = msgspec.json.Decoder(Report)
_goodbye = msgspec.json.Decoder(Goodbye)


async def _read(call: Call, decoder: msgspec.json.Decoder[Any]) -> Any:
    return await json_input.read(_without_nul(call.raw), decoder, call.context.clock)


def _without_nul(raw: bytes) -> bytes:
    """Replace NUL, which the store cannot keep, by the replacement character. The output of jobs may contain it."""
    # Most messages have no backslash. The search for this one byte takes a hundredth of the time of a replacement.
    return raw.replace(b"\\u0000", b"\\ufffd") if b"\\" in raw else raw


def _read_report(raw: bytes) -> Report:
    """Decode a report. Results are kept as text, with any numbers and any depth, because an unusual result must not
    make the server refuse the whole report. Ids and times are bounded by their types: a check of each value would cost
    twenty times as much as the decoding.
    """
    raw = _without_nul(raw)
    json_input.check_text(raw)
    message: Report = json_input.decode(raw, _report)
    return message


def _check_report(report: Report) -> None:
    """Check what the types do not: the form of ids, and the size of outcomes."""
    if report.ended:
        _check_ids("r", "/ended", "runId", [each.run_id for each in report.ended])
        _check_ids("j", "/ended", "jobId", [each.job_id for each in report.ended])
        for index, ended in enumerate(report.ended):
            outcome = ended.outcome
            if type(outcome) is Failed:
                _check_failure(outcome.failure, f"/ended/{index}/outcome/failure")
            elif type(outcome) is Succeeded and outcome.result is not UNSET and len(outcome.result) > MAX_RESULT_SIZE:
                raise Invalid(f"a result has at most {MAX_RESULT_SIZE:,} bytes", f"/ended/{index}/outcome/result")
    if report.started:
        _check_ids("r", "/started", "runId", [each.run_id for each in report.started])
    if report.progress:
        _check_ids("r", "/progress", "runId", [each.run_id for each in report.progress])
    if report.logs:
        _check_ids("r", "/logs", "runId", [each.run_id for each in report.logs])
    if report.pausing:
        _check_ids("r", "/pausing", "runId", [each.run_id for each in report.pausing])


def _check_ids(prefix: str, at: str, field: str, idents: Sequence[str]) -> None:
    """Refuse malformed ids, so that they do not reach the store."""
    if (wrong := ids.malformed(prefix, idents)) is not None:
        raise Invalid(f"{idents[wrong][:40]!r} is not an id", f"{at}/{wrong}/{field}")


def _check_failure(failure: Failure, at: str) -> None:
    for field, text, longest in (
        ("kind", failure.kind, MAX_KIND_LENGTH),
        ("message", failure.message, MAX_MESSAGE_LENGTH),
        *((f"exceptions/{place}", each, MAX_EXCEPTION_LENGTH) for place, each in enumerate(failure.exceptions)),
    ):
        if len(text) > longest:
            raise Invalid(f"it has at most {longest:,} characters", f"{at}/{field}")
    if len(failure.exceptions) > MAX_EXCEPTIONS:
        raise Invalid(f"a failure names at most {MAX_EXCEPTIONS} exceptions", f"{at}/exceptions")
    if failure.retry_after is not None and not 0 <= failure.retry_after <= MAX_AGE:
        raise Invalid("retryAfter must be between 0 and ten years", f"{at}/retryAfter")
    try:
        json_input.check_values(msgspec.to_builtins(failure))
    except Invalid as error:
        raise Invalid(error.detail, f"{at}{error.problems[0].pointer}") from None


def _check_slots(count: int, field: str) -> None:
    if not 0 <= count <= MAX_SLOTS:
        raise Invalid(f"{field} must be between 0 and {MAX_SLOTS:,}", f"/{field}")


def _check_offer(hello: RegisterWorker) -> None:
    _check_slots(hello.slots, "slots")
    if hello.cpu is not None and not 0 <= hello.cpu <= MAX_CPUS:
        raise Invalid(f"cpu must be between 0 and {MAX_CPUS:,}", "/cpu")
    if hello.memory_mb is not None and not 0 <= hello.memory_mb <= MAX_MEMORY:
        raise Invalid(f"memoryMb must be between 0 and {MAX_MEMORY:,}", "/memoryMb")


def _key_of(call: Call) -> str:
    if call.caller.key_id is None:
        raise Forbidden("a worker needs an API key: create one with `timeball keys create --role worker`")
    return call.caller.key_id


async def hello(call: Call) -> Answer:
    message: RegisterWorker = await _read(call, _hello)
    _check_offer(message)
    check_labels(message.labels, call.caller.labels)
    return answer_json(await call.services.dispatch.hello(message, _key_of(call), call.caller.tenants))


async def poll(call: Call) -> Answer:
    message: Poll = await _read(call, _poll)
    _check_slots(message.free, "free")
    wait = min(max(message.wait, 0), MAX_WAIT)
    asked = msgspec.structs.replace(message, wait=wait) if wait != message.wait else message
    return answer_json(await _while_connected(call, call.services.dispatch.poll(asked, _key_of(call))))


async def _while_connected(call: Call, polling: Coroutine[Any, Any, PollResponse]) -> PollResponse:
    """Wait for the answer to a poll while the worker is connected. A worker that disconnected must be
    assigned nothing.
    """
    work = asyncio.ensure_future(polling)
    gone = asyncio.ensure_future(call.request.receive())
    gone.add_done_callback(lambda _: work.cancel())
    try:
        return await work
    except asyncio.CancelledError:
        if gone.done():
            raise Malformed("the worker disconnected") from None
        raise
    finally:
        gone.cancel()


async def beat(call: Call) -> Answer:
    return answer_json(await call.services.dispatch.beat(await _read(call, _beat), _key_of(call)))


async def report(call: Call) -> Answer:
    message = _read_report(call.raw)
    _check_slots(message.free, "free")
    _check_report(message)
    return answer_json(await call.services.dispatch.report(message, _key_of(call)))


async def goodbye(call: Call) -> Answer:
    message: Goodbye = await _read(call, _goodbye)
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
        limit=MAX_MESSAGE_BYTES,
        answer=answer,
        status=200 if answer is not None else 204,
        problems=(409,) if body is not RegisterWorker else (),
    )


ROUTES: Final = (
    _route("poll", "Send the free slots and wait for assignments", poll, Poll, PollResponse),
    _route("report", "Report starts, output and outcomes", report, Report, ReportAck),
    _route("beat", "Renew the lease of the session", beat, Beat, PollResponse),
    _route("hello", "Register a worker and open a session", hello, RegisterWorker, WorkerRegistered),
    _route("goodbye", "End the session and release its attempts", goodbye, Goodbye, None),
)
