"""Many jobs in one request and one commit."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
from msgspec import Struct

from timeball.api import job_body, reading
from timeball.api.bodies import JOB_SHAPES, CanonicalJob
from timeball.api.job_body import JobBody
from timeball.api.problems import Problem, problem
from timeball.api.route import Answer, Call, Permission, Route, answer_json
from timeball.api.routes.jobs import EXAMPLE, idempotency_key, new_job
from timeball.api.unreadable import Malformed
from timeball.domain.errors import Invalid, TimeballError, TooLarge
from timeball.domain.job import JobSpec
from timeball.domain.large import LARGE
from timeball.operation.submit import Created, NewJob

MOST_JOBS: Final = 10_000
AT_ONCE: Final = 100
"""Items that are looked at one by one before others have a turn."""

_typed = msgspec.json.Decoder(list[JobSpec])
_typed_line = msgspec.json.Decoder(JobSpec)
_keyed = msgspec.json.Decoder(list[CanonicalJob])
_keyed_line = msgspec.json.Decoder(CanonicalJob)
_encode = msgspec.json.Encoder().encode
_items = msgspec.json.Decoder(list[msgspec.Raw])


class BatchItem(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Either the new job's id or what was wrong with it."""

    job_id: str | None = None
    error: Problem | None = None
    warnings: list[str] = []


class BatchAnswer(Struct, frozen=True):
    items: list[BatchItem]


async def create_batch(call: Call) -> Answer:
    """One bad item never fails its neighbours."""
    bodies = await _read(call.raw, _is_lines(call))
    key = idempotency_key(call)
    tenant = call.tenant
    may_be_large = len(call.raw) > LARGE
    prepared = [_prepare(tenant, body, key, index, may_be_large) for index, body in enumerate(bodies)]
    results = iter(await call.services.submit([item for item in prepared if isinstance(item, NewJob)]))
    return answer_json(BatchAnswer([_item(next(results) if isinstance(item, NewJob) else item) for item in prepared]))


def _prepare(
    tenant: str, body: JobBody | TimeballError, key: str | None, index: int, may_be_large: bool
) -> NewJob | TimeballError:
    """A key for the whole batch is one key per place in it, unless the job brings its own."""
    if isinstance(body, TimeballError):
        return body
    own = None if key is None or body.key is not None else f"{key}#{index}"
    size = len(_encode(body.spec.parameters)) if may_be_large and body.spec.parameters else 0
    return new_job(tenant, body, own, size)


def _item(result: Created | TimeballError) -> BatchItem:
    if isinstance(result, TimeballError):
        return BatchItem(error=problem(result))
    return BatchItem(result.job_id, warnings=[] if result.job is None else list(result.job.warnings))


def _is_lines(call: Call) -> bool:
    if b"ndjson" in call.headers.get(b"content-type", b"") or b"jsonl" in call.headers.get(b"content-type", b""):
        return True
    return not call.raw.lstrip().startswith(b"[")


async def _read(raw: bytes, lines: bool) -> list[JobBody | TimeballError]:
    reading.check_text(raw)
    if not reading.is_suspicious(raw):
        try:
            bodies = _read_alike(raw, lines)
        except (msgspec.DecodeError, RecursionError, Invalid):
            pass  # one of them is written otherwise or is wrong: look at each
        else:
            _check_size(len(bodies))
            return bodies
    items = _lines(raw) if lines else _elements(raw)
    _check_size(len(items))
    bodies = []
    for start in range(0, len(items), AT_ONCE):
        bodies += [_read_item(item) for item in items[start : start + AT_ONCE]]
        await asyncio.sleep(0)
    return bodies


def _read_alike(raw: bytes, lines: bool) -> list[JobBody | TimeballError]:
    """All of them at once: jobs in the canonical shape without anything wrong."""
    if job_body.has_keys(raw):
        keyed = _keyed_line.decode_lines(raw) if lines else _keyed.decode(raw)
        bodies = [job_body.with_key(job) for job in keyed]
    else:
        specs = _typed_line.decode_lines(raw) if lines else _typed.decode(raw)
        bodies = [JobBody(spec) for spec in specs]
    for body in bodies:
        job_body.check_nesting(body.spec)
    return [*bodies]


def _check_size(count: int) -> None:
    if count > MOST_JOBS:
        raise TooLarge(f"a batch has at most {MOST_JOBS:,} jobs; this one has {count:,}")


def _lines(raw: bytes) -> list[bytes]:
    return [line for line in raw.split(b"\n") if line.strip()]


def _elements(raw: bytes) -> list[bytes]:
    try:
        return [bytes(item) for item in _items.decode(raw)]
    except RecursionError:
        raise Invalid(f"arrays and objects are nested more than {reading.MAX_DEPTH} deep") from None
    except msgspec.ValidationError:
        raise Invalid("a batch is an array of jobs, or one job per line") from None
    except msgspec.DecodeError as error:
        raise Malformed(f"the body is not JSON: {error}") from None


def _read_item(raw: bytes) -> JobBody | TimeballError:
    try:
        return job_body.read_job(raw)
    except TimeballError as error:
        return error


def _example() -> list[dict[str, Any]]:
    return [EXAMPLE, {"task": {"kind": "python", "function": "send_mail"}, "parameters": {"to": "a@example.org"}}]


ROUTES: Final = (
    Route(
        method="POST",
        path="/v1/jobs:batch",
        permission=Permission.WRITE,
        summary="Create up to 10,000 jobs in one durable commit",
        description=(
            "A JSON array, or one job per line (`application/x-ndjson`), up to 32 MiB. Answers in order; one bad item"
            " never fails its neighbours. Jobs may carry an `idempotencyKey`; one in the header covers every place."
        ),
        handle=create_batch,
        body=JOB_SHAPES,
        many=True,
        reads_raw=True,
        limit=reading.MAX_BATCH,
        answer=BatchAnswer,
        headers={"Idempotency-Key": "Makes it safe to send the same batch again."},
        example=_example(),
    ),
)
