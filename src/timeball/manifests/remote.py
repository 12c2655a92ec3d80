"""The requests to a server that a plan reads with and that `apply` writes with. Every write is guarded by a version or
may be repeated.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from timeball.client.client import Client
from timeball.client.requests import jobs as job_requests
from timeball.client.requests import registry as registry_requests
from timeball.client.requests.request import ApiRequest
from timeball.domain import instant
from timeball.domain.errors import (
    Conflict,
    IdempotencyMismatch,
    NotFound,
    PreconditionFailed,
    TimeballError,
    Unavailable,
)
from timeball.domain.instant import Micros
from timeball.domain.job.job import JobSpec
from timeball.manifests import diff
from timeball.manifests.diff import KnownJob
from timeball.manifests.fires import ComingFires
from timeball.manifests.job import MARK

PAGE: Final = 1_000
NEVER: Final = "9000-01-01T00:00:00Z"
"""The `startAt` of a new job that is to be paused before it can fire."""
GENERATIONS: Final = 100
"""Maximum number of idempotency keys that `create` tries, because the key before belongs to a cancelled job."""
_JOB_ID: Final = re.compile(r"j_[0-9a-f]{28}")
_THERE: Final = "scheduled,paused,completed"


class RemoteServer:
    def __init__(self, client: Client) -> None:
        self._client = client

    # --- looking --------------------------------------------------------------------------------------------------

    def of_set(self, name: str) -> list[KnownJob]:
        """Return all jobs of a set, newest first, including cancelled ones."""
        return [diff.known(_shown(each)) for each in self._jobs(tag=f"{MARK}{name}")]

    def named(self, name: str) -> list[KnownJob]:
        """Return the jobs of this name that are not cancelled, newest first."""
        found = (diff.known(_shown(each)) for each in self._jobs(name=name, status=_THERE))
        return [job for job in found if job.name == name]

    def last_cancelled(self, name: str) -> str | None:
        """Return the id of the newest cancelled job of this name; None: there is none."""
        request = job_requests.jobs(name=name, status="cancelled", limit=1)
        page = msgspec.json.decode(self._client.send(request))
        return next((str(each["jobId"]) for each in page["items"]), None)

    def all(self, status: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield all jobs as the server lists them. A job that the server cannot show has an `error` beside its id."""
        return self._jobs(status=status)

    def coming(self, job_id: str, limit: int) -> ComingFires:
        """Return the next fires of a job, at most `limit`."""
        found = self._client.ask(job_requests.next_of_job(job_id, limit))
        until = instant.of(found.items[-1].fire_time) if len(found.items) == limit else None
        return ComingFires([instant.of(at) for at in found.times], until)

    def preview(self, spec: JobSpec, now: Micros, limit: int, anchor: Micros | None = None) -> tuple[str, ComingFires]:
        """Return the description of a schedule and its next fires, for schedules that only the server can compute. The
        server does not apply `startAt` and `endAt`; this function does.
        """
        begin = spec.starts if spec.starts is not None and spec.starts > now else anchor
        found = self._client.preview_schedule(
            msgspec.json.decode(msgspec.json.encode(spec.schedule)),
            count=limit,
            name=spec.name,
            after=None if begin is None else instant.render(begin),
            calendars=spec.calendars,
            excluded=spec.excluded if spec.calendars else None,
        )
        until = instant.of(found.fires[-1].at) if len(found.fires) == limit else None
        fires = [instant.of(fire.at) for fire in found.fires if fire.mark != "excluded"]
        return found.description, ComingFires([at for at in fires if spec.ends is None or at <= spec.ends], until)

    def has_task(self, task_id: str) -> bool:
        return self._has(registry_requests.task(task_id))

    def has_job(self, job_id: str) -> bool:
        return _JOB_ID.fullmatch(job_id) is not None and self._has(job_requests.job(job_id))

    def has_calendar(self, name: str) -> bool:
        return self._has(registry_requests.calendar(name))

    def read(self, job_id: str) -> KnownJob:
        return self._known(job_requests.job(job_id))

    # --- writing --------------------------------------------------------------------------------------------------

    def create(self, spec: JobSpec, set_name: str | None, predecessor: str | None) -> KnownJob:
        """Create a job. However often and by however many clients this is called, one job is created: the idempotency
        key is made from the names of the set and the job, and from the id of the job of that name that was cancelled
        last, so that a name can be used again.
        """
        for _ in range(GENERATIONS):
            key = _key_of(set_name, spec.name, predecessor)
            try:
                made = self._known(job_requests.create_job(diff.document(spec), key)).job_id
            except IdempotencyMismatch as error:
                made = _named_in(error)
                if self._is_there(made, spec.name) is not None:
                    raise
            # The answer may repeat that of an earlier request, whose job was cancelled later.
            found = self._is_there(made, spec.name)
            if found is not None:
                return found
            predecessor = made
        raise Conflict(f"job {spec.name!r} was cancelled {GENERATIONS} times; choose another name")

    def create_paused(self, spec: JobSpec, set_name: str | None, predecessor: str | None) -> KnownJob:
        """Create a paused job. It does not fire even if this is interrupted: until it is paused, its first fire is in
        the year 9000.
        """
        asleep = msgspec.structs.replace(spec, start_at=NEVER, end_at=None)
        paused = self.pause(self.create(asleep, set_name, predecessor))
        return self.change(paused, diff.patch(asleep, spec))

    def _is_there(self, job_id: str, name: str) -> KnownJob | None:
        try:
            found = self.read(job_id)
        except NotFound:
            return None
        return None if found.status == "cancelled" or found.name != name else found

    def change(self, job: KnownJob, body: Mapping[str, Any]) -> KnownJob:
        """Change a job if it has the version that was read. If the answer was lost, read the job to find out whether
        the change took effect.
        """
        try:
            return self._known(job_requests.update_job(job.job_id, body, job.version))
        except (PreconditionFailed, Unavailable):
            found = self.read(job.job_id)
            if found.version > job.version and not _differs(found, body):
                return found
            raise

    def pause(self, job: KnownJob) -> KnownJob:
        return self._followed(job, job_requests.pause(job.job_id, "declared as paused"))

    def resume(self, job: KnownJob) -> KnownJob:
        return self._followed(job, job_requests.resume(job.job_id))

    def cancel(self, job: KnownJob) -> None:
        """Cancel a job. Raise `PreconditionFailed` if its version has changed since the plan read it."""
        found = self.read(job.job_id)
        if found.status != "cancelled" and found.version != job.version:
            raise _changed(job)
        self._client.delete_job(job.job_id)

    # --- how ------------------------------------------------------------------------------------------------------

    def _followed(self, job: KnownJob, request: ApiRequest[Any]) -> KnownJob:
        """Send a request that has no guard, and return the job. Raise `PreconditionFailed` if its version grew by more
        than one: another request changed the job as well.
        """
        found = self._known(request)
        if found.version > job.version + 1:
            raise _changed(job)
        return found

    def _has(self, request: ApiRequest[Any]) -> bool:
        try:
            self._client.send(request)
        except NotFound:
            return False
        return True

    def _known(self, request: ApiRequest[Any]) -> KnownJob:
        return diff.known(msgspec.json.decode(self._client.send(request)))

    def _jobs(self, **where: Any) -> Iterator[dict[str, Any]]:
        cursor = None
        while True:
            page = msgspec.json.decode(self._client.send(job_requests.jobs(**where, limit=PAGE, cursor=cursor)))
            yield from page["items"]
            cursor = page.get("nextCursor")
            if cursor is None:
                return


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of a list. Raise an error if the server cannot show the job: it cannot be compared with a file."""
    if "error" in row:
        raise TimeballError(f"the server cannot show job {row.get('jobId')}: {row['error'].get('detail')}")
    return row


def _key_of(set_name: str | None, name: str, predecessor: str | None) -> str:
    """Return the idempotency key of a job. It is the same for all clients, until the job is cancelled."""
    said = msgspec.json.encode(["declared", set_name, name, predecessor])
    return f"declared-{hashlib.sha256(said).hexdigest()[:40]}"


def _named_in(error: IdempotencyMismatch) -> str:
    """Return the id of the job that the idempotency key was used for."""
    found = _JOB_ID.search(error.detail)
    if found is None:
        raise error
    return found[0]


def _differs(found: KnownJob, body: Mapping[str, Any]) -> bool:
    """Return True if a job does not have the values of an update."""
    marks = [f"{MARK}{each}" for each in found.sets]
    spec = msgspec.structs.replace(found.spec, tags=[*found.spec.tags, *marks])
    shown = diff.shown(spec)
    return any(not _covers(shown.get(name), value) for name, value in body.items())


def _covers(shown: Any, value: Any) -> bool:
    if isinstance(shown, dict) and isinstance(value, dict):
        return all(shown.get(name, {}) == each for name, each in value.items())
    return bool(shown == value)


def _changed(job: KnownJob) -> PreconditionFailed:
    return PreconditionFailed(f"another request changed job {job.name!r} after it was read; plan again")
