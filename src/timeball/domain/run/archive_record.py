"""Records: the archived form of finished runs, made to be kept for a long time and read with any JSON parser.

The field names are those of the API, all fields are always present, and times are RFC 3339 in UTC. A record is complete
without Timeball and without the job, which may be deleted by then.

There are three kinds of objects, each in the folder of a day: the day on which the runs were created, as in their ids.

    executions/2026/11/15/runs-r_0194…-5f2c….ndjson.gz    runs, in the order of their ids: one `Record` per line
    executions/2026/11/15/logs-r_0194…-80a1….ndjson.gz    output of these runs: one `LogRecord` per line
    manifests/2026/11/15/b7d0….json                       a `Manifest`: the list of valid objects with their contents

The objects of each tenant but the default one are in a folder of their own, `tenant=acme/` in the folder of the day, so
that they can be deleted with the tenant. Objects that earlier versions wrote may have runs of several tenants.
"""

from __future__ import annotations

import hashlib
from datetime import date
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from timeball.domain import ids, instant
from timeball.domain.instant import DAY, Micros
from timeball.domain.run.ledger import Origin, Verdict
from timeball.domain.run.lifecycle import Failure
from timeball.domain.run.run import Attempt, Run
from timeball.domain.run.status import Status
from timeball.domain.tenant import DEFAULT_TENANT, TENANT_ID

FORMAT: Final = 1
NOTHING: Final = Raw(b"null")
render: Final = lru_cache(maxsize=64)(instant.render)
"""Formats an instant. The results are cached, because many instants of a run are equal, and formatting is most of the
work of writing a record."""


class RecordedError(Struct, frozen=True, rename="camel"):
    kind: str
    message: str
    exit_code: int | None
    status: int | None
    exceptions: tuple[str, ...]


class RecordedAttempt(Struct, frozen=True, rename="camel"):
    """An attempt before the last one."""

    attempt: int
    fencing_token: int
    executor_id: str
    eligible_at: str | None
    claimed_at: str | None
    start_time: str | None
    end_time: str
    error: RecordedError | None


class Head(Struct, frozen=True, rename="camel"):
    """The fields by which records are filtered. They come first in the JSON, so that little has to be decoded of
    records that do not match."""

    run_id: str
    tenant: str
    job_id: str
    status: Status
    origin: Origin
    fire_time: str
    fire_until: str
    fingerprint: str | None
    user_id: str
    task_id: str | None
    tags: list[str]


class Record(Head, frozen=True, rename="camel", kw_only=True):
    """A finished run in the archive."""

    job_name: str
    job_version: int
    fires: int
    due_at: str | None
    verdict: Verdict
    reason: str
    attempt: int
    fencing_token: int | None
    executor_id: str | None
    created_at: str
    eligible_at: str | None
    claimed_at: str | None
    start_time: str | None
    attempt_start_time: str | None
    end_time: str | None
    cancel_requested_at: str | None
    progress: float | None
    progress_note: str
    error: RecordedError | None
    retry_of: str | None
    retried_as: str | None
    discarded_at: str | None
    attempts: list[RecordedAttempt]
    result: Raw


class LogRecord(Struct, frozen=True, rename="camel"):
    """A piece of the output of a run."""

    run_id: str
    attempt: int
    seq: int
    stream: str
    at: str
    text: str


class Finished(Struct, frozen=True):
    """A finished run with all data of its record."""

    run: Run
    attempts: list[Attempt]
    """The attempts before the last one."""
    user_id: str = ""
    task_id: str | None = None
    tags: list[str] = []


class Part(Struct, frozen=True, rename="camel", omit_defaults=True):
    """An entry of a manifest: the key of an object with records, and a summary of its contents."""

    key: str
    records: int
    first_id: str
    last_id: str
    first_fire_time: str = ""
    last_fire_time: str = ""
    """The latest fire time in the object. For a row of several fires (a span), the last of them counts."""
    statuses: dict[str, int] = {}


class Manifest(Struct, frozen=True, rename="camel"):
    """The list of the objects that one archiving of a day wrote. The objects are complete when the manifest exists.
    Another archiving of the same day adds another manifest."""

    format: int
    day: str
    runs: int
    logs: int
    run_parts: list[Part]
    log_parts: list[Part]
    tenant: str = ""
    """The tenant of all these runs; empty if an earlier version of Timeball wrote the manifest: then they may be of
    several tenants."""


encode = msgspec.json.Encoder().encode
decode: Final = msgspec.json.Decoder(Record).decode
decode_head: Final = msgspec.json.Decoder(Head).decode
decode_log: Final = msgspec.json.Decoder(LogRecord).decode
decode_manifest: Final = msgspec.json.Decoder(Manifest).decode


# --- days and names -----------------------------------------------------------------------------------------------

MANIFESTS: Final = "manifests/"
PARTS: Final = "executions/"


def day_of(run_id: str) -> date:
    """Return the day, in UTC, that the records of a run belong to."""
    return instant.to_datetime(ids.made_at(run_id)).date()


def id_range(day: date) -> tuple[str, str]:
    """Return two ids: all run ids of a day are at or after the first one and before the second one."""
    begin = (day - date(1970, 1, 1)).days * DAY
    return ids.first_run(begin), ids.first_run(begin + DAY)


def folder_of(tenant: str) -> str:
    """Return the folder of a tenant in the folder of a day; empty for the default tenant."""
    if tenant == DEFAULT_TENANT:
        return ""
    if TENANT_ID.fullmatch(tenant):
        return f"tenant={tenant}/"
    return f"tenant-{hashlib.sha256(tenant.encode()).hexdigest()[:32]}/"


def part_key(day: date, kind: str, first_id: str, digest: str, tenant: str) -> str:
    return f"{PARTS}{day:%Y/%m/%d}/{folder_of(tenant)}{kind}-{first_id}-{digest}.ndjson.gz"


def manifests_of(day: date, tenant: str) -> str:
    return f"{MANIFESTS}{day:%Y/%m/%d}/{folder_of(tenant)}"


def day_of_manifest(key: str, tenant: str) -> date | None:
    """Return the day of a manifest from its key; None if the key is not that of a manifest with runs of the tenant."""
    try:
        year, month, day, *folder, name = key.removeprefix(MANIFESTS).split("/")
        if not name.endswith(".json") or (folder and f"{'/'.join(folder)}/" != folder_of(tenant)):
            return None
        return date(int(year), int(month), int(day))
    except ValueError:
        return None


# --- conversion between runs and records --------------------------------------------------------------------------


def record(finished: Finished) -> Record:
    run = finished.run
    return Record(
        run_id=run.id,
        tenant=run.tenant,
        job_id=run.job_id,
        status=run.status,
        origin=run.origin,
        fire_time=render(run.fire_time),
        fire_until=render(run.fire_until),
        fingerprint=run.fingerprint,
        user_id=finished.user_id,
        task_id=finished.task_id,
        tags=finished.tags,
        job_name=run.job_name,
        job_version=run.version,
        fires=run.fires,
        due_at=_moment(run.due_at),
        verdict=run.verdict,
        reason=run.reason,
        attempt=run.attempt,
        fencing_token=run.token,
        executor_id=run.worker,
        created_at=render(run.created_at),
        eligible_at=_moment(run.eligible_at),
        claimed_at=_moment(run.claimed_at),
        start_time=_moment(run.started_at),
        attempt_start_time=_moment(run.attempt_started_at),
        end_time=_moment(run.finished_at),
        cancel_requested_at=_moment(run.cancel_requested_at),
        progress=run.progress,
        progress_note=run.progress_note,
        error=_error(run.failure),
        retry_of=run.retry_of,
        retried_as=run.retried_as,
        discarded_at=_moment(run.discarded_at),
        attempts=[_recorded(each) for each in finished.attempts],
        result=NOTHING if run.result is None else run.result,
    )


def finished(found: Record) -> Finished:
    run = Run(
        id=found.run_id,
        job_id=found.job_id,
        tenant=found.tenant,
        job_name=found.job_name,
        version=found.job_version,
        fire_time=instant.parse(found.fire_time),
        fire_until=instant.parse(found.fire_until),
        fires=found.fires,
        origin=found.origin,
        status=found.status,
        verdict=found.verdict,
        reason=found.reason,
        attempt=found.attempt,
        token=found.fencing_token,
        worker=found.executor_id,
        eligible_at=_instant(found.eligible_at),
        created_at=instant.parse(found.created_at),
        claimed_at=_instant(found.claimed_at),
        started_at=_instant(found.start_time),
        attempt_started_at=_instant(found.attempt_start_time),
        finished_at=_instant(found.end_time),
        cancel_requested_at=_instant(found.cancel_requested_at),
        progress=found.progress,
        progress_note=found.progress_note,
        failure=_failure(found.error),
        result=None if bytes(found.result) == bytes(NOTHING) else found.result,
        retry_of=found.retry_of,
        retried_as=found.retried_as,
        due_at=_instant(found.due_at),
        fingerprint=found.fingerprint,
        discarded_at=_instant(found.discarded_at),
    )
    attempts = [_attempt(each) for each in found.attempts]
    return Finished(run, attempts, found.user_id, found.task_id, found.tags)


def _recorded(attempt: Attempt) -> RecordedAttempt:
    return RecordedAttempt(
        attempt=attempt.attempt,
        fencing_token=attempt.token,
        executor_id=attempt.worker,
        eligible_at=_moment(attempt.eligible_at),
        claimed_at=_moment(attempt.claimed_at),
        start_time=_moment(attempt.started_at),
        end_time=render(attempt.finished_at),
        error=_error(attempt.failure),
    )


def _attempt(found: RecordedAttempt) -> Attempt:
    return Attempt(
        attempt=found.attempt,
        token=found.fencing_token,
        worker=found.executor_id,
        started_at=_instant(found.start_time),
        finished_at=instant.parse(found.end_time),
        failure=_failure(found.error),
        claimed_at=_instant(found.claimed_at),
        eligible_at=_instant(found.eligible_at),
    )


def _error(failure: Failure | None) -> RecordedError | None:
    if failure is None:
        return None
    return RecordedError(failure.kind, failure.message, failure.exit_code, failure.status, failure.exceptions)


def _failure(error: RecordedError | None) -> Failure | None:
    if error is None:
        return None
    values: dict[str, Any] = {"exit_code": error.exit_code, "status": error.status, "exceptions": error.exceptions}
    return Failure(error.kind, error.message, **values)


def _moment(at: Micros | None) -> str | None:
    return None if at is None else render(at)


def _instant(text: str | None) -> Micros | None:
    return None if text is None else instant.parse(text)
