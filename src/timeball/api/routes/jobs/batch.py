"""The route that creates many jobs in one request and one commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from timeball.api.problems import Problem, problem
from timeball.api.routes.jobs.batch_body import read_batch
from timeball.api.routes.jobs.jobs import EXAMPLE, idempotency_key, new_job
from timeball.api.routing import Answer, Call, Route, answer_json
from timeball.domain.errors import TimeballError
from timeball.domain.identity.permission import Permission
from timeball.domain.job.large_values import LARGE
from timeball.jobspec import json_input
from timeball.jobspec.documents import JOB_SHAPES
from timeball.jobspec.job_reader import JobBody
from timeball.operation.jobs.submit import Created, NewJob
from timeball.slices import FEW, let_go, map_in_slices

_encode = msgspec.json.Encoder().encode


class BatchItem(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The id of the new job, or the error."""

    job_id: str | None = None
    error: Problem | None = None
    warnings: list[str] = []


class BatchAnswer(Struct, frozen=True):
    items: list[BatchItem]


async def create_batch(call: Call) -> Answer:
    """Create the jobs of a batch. An invalid job does not affect the others."""
    clock = call.context.clock
    bodies, has_large = await read_batch(call.raw, _is_lines(call), clock)
    key, may_be_large = idempotency_key(call), len(call.raw) > LARGE

    def prepare(places: Sequence[int]) -> list[NewJob | TimeballError]:
        return [_prepare(call, bodies[at], key, at, may_be_large) for at in places]

    prepared = await map_in_slices(prepare, range(len(bodies)), clock, together=1 if has_large else FEW)
    results = iter(await call.services.submit([item for item in prepared if isinstance(item, NewJob)]))

    def answer(items: Sequence[NewJob | TimeballError]) -> list[BatchItem]:
        return [_item(next(results) if isinstance(item, NewJob) else item) for item in items]

    items = await map_in_slices(answer, prepared, clock)
    if has_large:
        del prepared
        await let_go(bodies, clock)
    return answer_json(BatchAnswer(items))


def _prepare(
    call: Call, body: JobBody | TimeballError, key: str | None, place: int, may_be_large: bool
) -> NewJob | TimeballError:
    """Prepare one job. The key of a batch becomes one key per position, unless the job has its own key."""
    if not isinstance(body, JobBody):
        return body
    own = None if key is None or body.key is not None else f"{key}#{place}"
    size = len(_encode(body.spec.parameters)) if may_be_large and body.spec.parameters else 0
    try:
        return new_job(call, body, own, size)
    except TimeballError as error:
        return error


def _item(result: Created | TimeballError) -> BatchItem:
    if not isinstance(result, Created):
        return BatchItem(error=problem(result))
    return BatchItem(result.job_id, warnings=[] if result.job is None else list(result.job.warnings))


def _is_lines(call: Call) -> bool:
    if b"ndjson" in call.headers.get(b"content-type", b"") or b"jsonl" in call.headers.get(b"content-type", b""):
        return True
    return not call.raw.lstrip().startswith(b"[")


def _example() -> list[dict[str, Any]]:
    return [EXAMPLE, {"task": {"kind": "python", "function": "send_mail"}, "parameters": {"to": "a@example.org"}}]


ROUTES: Final = (
    Route(
        method="POST",
        path="/v1/jobs:batch",
        permission=Permission.EDIT,
        summary="Create up to 10,000 jobs in one durable commit",
        audit="job.create",
        audited_by_job=True,
        description=(
            "A JSON array, or one job per line (`application/x-ndjson`), up to 32 MiB, and each job up to 1 MiB."
            " The items of the answer are in the same order. An invalid job does not affect the others. Jobs may have"
            " an `idempotencyKey`; a key in the header covers the whole batch."
        ),
        handle=create_batch,
        body=JOB_SHAPES,
        many=True,
        reads_raw=True,
        limit=json_input.MAX_BATCH,
        answer=BatchAnswer,
        headers={
            "Idempotency-Key": "Makes it safe to send the same batch again.",
            "traceparent": "The trace (W3C) that the runs of jobs that fire once continue.",
        },
        example=_example(),
    ),
)
