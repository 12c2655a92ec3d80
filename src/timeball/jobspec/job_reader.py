"""Turns the body of a request into a `JobSpec`. A job in the canonical shape is decoded directly, which is fastest; a
job in another shape is first converted by `shapes`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Struct

from timeball.domain.errors import Invalid, InvalidSchedule, WrongValue
from timeball.domain.job.job import JobSpec, encode_spec
from timeball.domain.task.task import Http
from timeball.domain.workflow import validation
from timeball.domain.workflow.definition import Workflow
from timeball.jobspec import json_input, spec_view
from timeball.jobspec.documents import CanonicalJob
from timeball.jobspec.shapes import OTHER_FIELDS, Document, Origins, normalise, point_back
from timeball.jobspec.validation_text import explain
from timeball.ports.clock import Clock
from timeball.slices import Steps, at_once, in_slices

MAX_KEY_LENGTH: Final = 255
MAX_PROBLEMS: Final = 20
"""Maximum number of problems of one workflow that are reported together."""

_typed = msgspec.json.Decoder(JobSpec).decode
_keyed = msgspec.json.Decoder(CanonicalJob).decode
_encode = msgspec.json.Encoder().encode
_sorted = msgspec.json.Encoder(order="deterministic").encode


class JobBody(Struct, frozen=True, gc=False):
    spec: JobSpec
    key: str | None = None
    """The idempotency key in the body."""
    origins: Origins = {}


def read_job(raw: bytes) -> JobBody:
    """Return the new job that a body describes."""
    json_input.check(raw)
    try:
        body = with_key(_keyed(raw)) if has_keys(raw) else JobBody(_typed(raw))
    except (msgspec.DecodeError, RecursionError):
        return at_once(reading_document(json_input.parse(raw)))
    if type(body.spec.task) is Workflow:
        at_once(checking_graph(body.spec, {}))
    return body


async def read_job_in_slices(raw: bytes, clock: Clock) -> JobBody:
    """Return the new job that a body describes, like `read_job`. The body may be large: it is read in slices, between
    which the event loop gets a turn."""
    return read_job(raw) if len(raw) <= json_input.SMALL_BODY else await in_slices(_reading_job(raw), clock)


def _reading_job(raw: bytes) -> Steps[JobBody]:
    yield from json_input.checking(raw)
    yield
    try:
        if has_keys(raw):
            keyed = _keyed(raw)
            yield
            body = with_key(keyed)
        else:
            body = JobBody(_typed(raw))
    except (msgspec.DecodeError, RecursionError):
        yield
        document = json_input.parse(raw)
        yield
        return (yield from reading_document(document))
    yield
    yield from checking_graph(body.spec, {})
    return body


def has_keys(raw: bytes) -> bool:
    """Return True if the body seems to contain an idempotency key. A body with the field name written in another way,
    such as with escapes, is not decoded here but as a document, which finds every key.
    """
    return b'"idempotencyKey"' in raw


def with_key(job: CanonicalJob) -> JobBody:
    """Split a job document into the spec and the idempotency key, which is not part of the spec."""
    key = job.idempotency_key
    spec = msgspec.convert(job, JobSpec, from_attributes=True)  # takes 3 µs; field by field it would take 14 µs
    return JobBody(spec, None if key is None else check_key(key, "/idempotencyKey"))


def reading_document(document: Any, more_origins: Origins | None = None) -> Steps[JobBody]:
    """Return the new job that a document in any shape describes. `more_origins` are added to the origins of fields."""
    given = dict(_object(document))
    key = given.pop("idempotencyKey", None)
    canonical, origins = normalise(given)
    origins |= more_origins or {}
    spec = yield from _converting(canonical, origins)
    return JobBody(spec, None if key is None else check_key(key, "/idempotencyKey"), origins)


def change_from(raw: bytes) -> Callable[[JobSpec], Steps[JobSpec]]:
    """Return the function that applies a partial job to the current spec, in steps.

    A field with the value that the API shows for the current job counts as not edited. So a client may send back a
    whole answer of the API with one field changed, in the canonical or in the flat shape (such as `cronExpression`).
    Fields that the server sets are ignored. `schedule` and `task` are replaced, `retry` is merged, and null restores
    the default.
    """
    json_input.check(raw)
    return change_of(_object(json_input.parse(raw)))


async def change_from_in_slices(raw: bytes, clock: Clock) -> Callable[[JobSpec], Steps[JobSpec]]:
    """Return the function that applies a partial job to the current spec, like `change_from`. The body may be large: it
    is read in slices, between which the event loop gets a turn."""
    await json_input.check_in_slices(raw, clock)
    return change_of(_object(json_input.parse(raw)))


def change_of(given: Document, more_origins: Origins | None = None) -> Callable[[JobSpec], Steps[JobSpec]]:
    """Return the function that applies a partial job to the current spec, like `change_from`, for a document that was
    parsed already."""

    def change(spec: JobSpec) -> Steps[JobSpec]:
        yield
        shown = spec_view.spec_document(spec)
        yield
        current: Document = msgspec.json.decode(encode_spec(spec))
        yield
        edited = {
            name: value
            for name, value in given.items()
            if not OTHER_FIELDS.get(name) and not (name in shown and shown[name] == value)
        }
        if not edited:
            return spec
        canonical, origins = normalise(edited, current)
        origins |= more_origins or {}
        return (yield from _converting(_merge(current, canonical), origins))

    return change


def check_key(key: Any, at: str) -> str:
    """Return the idempotency key. Raise `Invalid` if it is empty, too long, not printable or not a string."""
    if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY_LENGTH or not key.isprintable():
        raise Invalid(f"an idempotency key is a string of 1 to {MAX_KEY_LENGTH} printable characters", at)
    return key


def fingerprint(spec: JobSpec) -> str:
    """Return a hash of the job. It is the same for all shapes in which the same job can be written."""
    return hashlib.sha256(_sorted(spec_view.spec_view(spec))).hexdigest()


def check_nesting(spec: JobSpec) -> None:
    """Raise `Invalid` for a spec whose parameters or HTTP body are nested too deeply. For the jobs of a batch:
    `json_input.check` checks the body of a request with one job, but not each job of a batch.
    """
    if spec.parameters:
        json_input.check_depth(spec.parameters)
    if type(spec.task) is Http and spec.task.body is not msgspec.UNSET:
        json_input.check(_encode(spec.task))


def _object(document: Any) -> Document:
    if not isinstance(document, dict):
        raise Invalid("a job is a JSON object")
    return document


def _merge(current: Document, canonical: Document) -> Document:
    merged = dict(current)
    if canonical.get("task") is not None:
        merged.pop("taskId", None)
    if canonical.get("taskId") is not None:
        merged.pop("task", None)
    for name, value in canonical.items():
        if value is None:
            merged.pop(name, None)
        elif name == "retry" and isinstance(value, dict):
            merged[name] = {**merged.get(name, {}), **value}
        else:
            merged[name] = value
    return merged


def _converting(canonical: Document, origins: Origins) -> Steps[JobSpec]:
    raw = _encode(canonical)
    yield
    try:
        spec = _typed(raw)
    except msgspec.ValidationError as error:
        found = explain(error, JobSpec, canonical, OTHER_FIELDS)
        refused = InvalidSchedule if found.pointer.startswith("/schedule") else Invalid
        at = "/task" if not found.pointer else found.pointer
        raise refused(found.detail, point_back(at, origins)) from None
    yield
    yield from checking_graph(spec, origins)
    return spec


def checking_graph(spec: JobSpec, origins: Origins) -> Steps[None]:
    """Raise `Invalid` if the tasks of a workflow do not fit together, although each of them is valid."""
    if type(spec.task) is Workflow and (found := (yield from validation.checking(spec.task.tasks))):
        problems = tuple(
            WrongValue(point_back(f"/task/tasks{each.pointer}", origins), each.detail) for each in found[:MAX_PROBLEMS]
        )
        raise Invalid(problems[0].detail, problems=problems)


def pointed_back(error: Invalid, origins: Origins) -> Invalid:
    """Return the same error with pointers into the document that the user wrote."""
    problems = tuple(WrongValue(point_back(item.pointer, origins), item.detail) for item in error.problems)
    return type(error)(error.detail, problems=problems)
