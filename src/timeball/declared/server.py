"""What is asked of a server to plan, and what is sent to it to apply. Every write is guarded or can be repeated."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from timeball.client import requests
from timeball.client.client import Client
from timeball.client.requests import Request
from timeball.declared import comparing
from timeball.declared.comparing import Known
from timeball.declared.job import MARK
from timeball.domain import instant
from timeball.domain.errors import NotFound, PreconditionFailed, Unavailable
from timeball.domain.instant import Micros
from timeball.domain.job import JobSpec

PAGE: Final = 1_000
NEVER: Final = "9000-01-01T00:00:00Z"
"""When a job starts that is to be paused before it could fire."""
_THERE: Final = "scheduled,paused,completed"


class Server:
    def __init__(self, client: Client) -> None:
        self._client = client

    # --- looking --------------------------------------------------------------------------------------------------

    def of_set(self, name: str) -> list[Known]:
        """All jobs of a set, newest first, also those that were cancelled."""
        return [comparing.known(each) for each in self._jobs(tag=f"{MARK}{name}")]

    def named(self, name: str) -> list[Known]:
        """Jobs of this name that were not cancelled, newest first."""
        found = (comparing.known(each) for each in self._jobs(name=name, status=_THERE))
        return [job for job in found if job.name == name]

    def all(self, status: str | None = None) -> Iterator[dict[str, Any]]:
        return self._jobs(status=status)

    def coming(self, job_id: str, most: int) -> list[Micros]:
        return [instant.of(at) for at in self._client.next(job_id, most)]

    def preview(self, spec: JobSpec, name: str, most: int) -> list[Micros]:
        """The fires of a schedule that only the server can tell; it knows nothing of bounds."""
        written = msgspec.json.decode(msgspec.json.encode(spec.schedule))
        found = self._client.preview_schedule(written, count=most, name=name, after=spec.start_at)
        fires = [instant.of(fire.at) for fire in found.fires]
        return fires if spec.ends is None else [at for at in fires if at <= spec.ends]

    def has_task(self, task_id: str) -> bool:
        try:
            self._client.ask(requests.task(task_id))
        except NotFound:
            return False
        return True

    def read(self, job_id: str) -> Known:
        return self._known(requests.job(job_id))

    # --- writing --------------------------------------------------------------------------------------------------

    def create(self, spec: JobSpec, key: str) -> Known:
        return self._known(requests.create_job(comparing.document(spec), key))

    def create_paused(self, spec: JobSpec, key: str) -> Known:
        """Whatever breaks off in between, it has not fired: it begins in a time that never comes until it is paused."""
        asleep = msgspec.structs.replace(spec, start_at=NEVER, end_at=None)
        made = self.create(asleep, key)
        paused = self.pause(made)
        return self.change(paused, comparing.patch(asleep, spec))

    def change(self, job: Known, body: Mapping[str, Any]) -> Known:
        """Only if nobody changed the job since it was read. Where the answer is lost, what the server has tells it."""
        try:
            return self._known(requests.update_job(job.job_id, body, job.version))
        except (PreconditionFailed, Unavailable):
            found = self.read(job.job_id)
            if found.version > job.version and not _differs(found, body):
                return found
            raise

    def pause(self, job: Known) -> Known:
        return self._followed(job, requests.pause(job.job_id, "declared as paused"))

    def resume(self, job: Known) -> Known:
        return self._followed(job, requests.resume(job.job_id))

    def cancel(self, job: Known) -> None:
        """Only if nobody changed the job since it was read."""
        found = self.read(job.job_id)
        if found.status != "cancelled" and found.version != job.version:
            raise _changed(job)
        self._client.delete_job(job.job_id)

    # --- how ------------------------------------------------------------------------------------------------------

    def _followed(self, job: Known, request: Request[Any]) -> Known:
        """These requests have no guard of their own; more than one new version tells that somebody came between."""
        found = self._known(request)
        if found.version > job.version + 1:
            raise _changed(job)
        return found

    def _known(self, request: Request[Any]) -> Known:
        return comparing.known(msgspec.json.decode(self._client.send(request)))

    def _jobs(self, **where: Any) -> Iterator[dict[str, Any]]:
        cursor = None
        while True:
            page = msgspec.json.decode(self._client.send(requests.jobs(**where, limit=PAGE, cursor=cursor)))
            yield from page["items"]
            cursor = page.get("nextCursor")
            if cursor is None:
                return


def key_of(set_name: str | None, name: str, predecessor: str | None) -> str:
    """The idempotency key of a declared job: the same for all who apply it, until it is cancelled and made anew."""
    said = msgspec.json.encode(["declared", set_name, name, predecessor])
    return f"declared-{hashlib.sha256(said).hexdigest()[:40]}"


def _differs(found: Known, body: Mapping[str, Any]) -> bool:
    """Whether a job is not what an update would have made of it."""
    marks = [f"{MARK}{each}" for each in found.sets]
    spec = msgspec.structs.replace(found.spec, tags=[*found.spec.tags, *marks])
    shown = comparing.shown(spec)
    return any(not _covers(shown.get(name), value) for name, value in body.items())


def _covers(shown: Any, value: Any) -> bool:
    if isinstance(shown, dict) and isinstance(value, dict):
        return all(shown.get(name, {}) == each for name, each in value.items())
    return bool(shown == value)


def _changed(job: Known) -> PreconditionFailed:
    return PreconditionFailed(f"somebody else changed job {job.name!r} meanwhile; plan again")
