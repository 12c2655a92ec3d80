"""Reads one declared job from a file. It is checked by the rules of the API, and all its problems are reported
together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args

import msgspec

from timeball.domain.errors import Invalid, TimeballError, TooLarge
from timeball.domain.job.job import OF_TASKS, JobSpec
from timeball.domain.schedule import schedule
from timeball.domain.task import task
from timeball.jobspec import job_reader
from timeball.manifests.errors import ManifestProblem
from timeball.manifests.parse import Document

MARK: Final = "declared:"
"""The prefix of the tag that marks the set of a job."""
MAX_TAGS: Final = 49
"""Maximum number of tags of a declared job: one fewer than of other jobs, because its set is marked with a tag."""
MAX_BYTES: Final = 1 << 20

# Valid values that replace a part with a problem, so that the other parts can be checked.
_SOUND: Final = {
    "task": {"kind": "shell", "command": "true"},
    "schedule": {"type": "interval", "expression": "1d"},
}
_OTHER_SCHEDULES: Final = ("scheduleType", "scheduleTime", "cronExpression", "jobInterval", "window", "followJob")
_STEP: Final = re.compile(r"/([^/]*)")


@dataclass(frozen=True, slots=True)
class Declared:
    """A job as a file declares it."""

    name: str
    spec: JobSpec
    file: str
    line: int | None
    paused: bool | None = None
    """None: the file does not say; the job stays paused or active as it is."""

    @property
    def place(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"

    def complaint(self, detail: str) -> ManifestProblem:
        return ManifestProblem(self.file, self.line, detail, self.name)


def declare(document: Document, at: str, job: Any, defaults: Mapping[str, Any]) -> Declared | list[ManifestProblem]:
    """Return the job at a pointer of a document, or all its problems."""
    if not isinstance(job, dict):
        return [_complain(document, at, "a job must be a mapping with name, task and schedule")]
    given = with_defaults(job, defaults)
    found: list[ManifestProblem] = []

    def complain(pointer: str, detail: str) -> None:
        """Add a problem at the line of the field, in the job or in the defaults."""
        field = pointer.split("/")[1] if pointer else ""
        under = "/defaults" if field in defaults and field not in job else at
        found.append(_complain(document, under + pointer, detail))

    paused = given.pop("paused", None)
    for pointer, detail in _own_rules(given, paused):
        complain(pointer, detail)
        given.pop(pointer[1:], None)
    spec = _spec(given, complain, {found.path.rpartition(".")[2] for found in found})
    if found or spec is None:
        return found
    if paused and spec.one_shot:
        return [_complain(document, f"{at}/paused", "only a schedule that repeats can be declared as paused")]
    return Declared(spec.name, spec, document.file, document.line(at), paused)


def _own_rules(given: Mapping[str, Any], paused: Any) -> Iterator[tuple[str, str]]:
    """Yield the violations of the rules that hold for declared jobs only, each as a JSON pointer and a message."""
    name = given.get("name")
    if name is None or (isinstance(name, str) and not name.strip()):
        yield "/name", "a declared job needs a name, by which it is recognised"
    if given.get("schedule") is None and not any(given.get(name) for name in _OTHER_SCHEDULES):
        yield (
            "/schedule",
            "a declared job needs a schedule; to run it once when it is applied, write schedule: {type: immediate}",
        )
    if paused is not None and not isinstance(paused, bool):
        yield "/paused", f"{paused!r} is neither true nor false"
    if "idempotencyKey" in given:
        yield "/idempotencyKey", "a declared job is recognised by its name; leave the key out"
    tags = given.get("tags")
    if isinstance(tags, list):
        if any(isinstance(tag, str) and tag.startswith(MARK) for tag in tags):
            yield "/tags", f"tags that begin with {MARK!r} are reserved; name the set with `set: NAME` instead"
        elif len(tags) > MAX_TAGS:
            yield "/tags", f"{len(tags)} tags are too many; a declared job may have {MAX_TAGS}"


def _spec(given: dict[str, Any], complain: Any, refused: set[str]) -> JobSpec | None:
    """Return the spec as the server would read it. Each part with a problem is reported and removed, and the rest is
    read again, so that all problems are reported together. None: the job cannot be read.
    """
    given = {name: value for name, value in given.items() if value is not None}
    for name in refused & _SOUND.keys():
        given[name] = _SOUND[name]
    for _ in range(len(given) + 2):
        try:
            raw = msgspec.json.encode(given)
            if len(raw) > MAX_BYTES:
                raise TooLarge(f"as JSON it has {len(raw):,} bytes; a job may have {MAX_BYTES:,}")
            return job_reader.read_job(raw).spec
        except Invalid as error:
            problem = error.problems[0]
            complain(problem.pointer, problem.detail)
            step = _STEP.match(problem.pointer)
            field = "" if step is None else step[1].replace("~1", "/").replace("~0", "~")
            if field in _SOUND and given.get(field) != _SOUND[field]:
                given[field] = _SOUND[field]
                given.pop("taskId" if field == "task" else "", None)
            elif field in given:
                del given[field]
            else:
                return None
        except TimeballError as error:
            complain("", error.detail)
            return None
    return None


def _complain(document: Document, at: str, detail: str) -> ManifestProblem:
    return ManifestProblem(document.file, document.line(at), detail, path_of(at))


def path_of(pointer: str) -> str:
    """Return a JSON pointer as a path: `/jobs/2/schedule/expression` as `jobs[2].schedule.expression`."""
    path = ""
    for step in (each.replace("~1", "/").replace("~0", "~") for each in pointer.split("/")[1:]):
        path += f"[{step}]" if step.isdigit() else f".{step}" if path else step
    return path


# --- defaults -----------------------------------------------------------------------------------------------------


def _fields_by_tag(union: Any) -> dict[str, frozenset[str]]:
    return {str(kind.__struct_config__.tag): frozenset(kind.__struct_encode_fields__) for kind in get_args(union)}


_TAGGED: Final = {
    "task": ("kind", _fields_by_tag(task.Task)),
    "schedule": ("type", _fields_by_tag(schedule.Schedule)),
}
_INSTEAD: Final = {"task": "taskId", "taskId": "task"}


def with_defaults(job: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job with the defaults for fields that it does not have. Its own values win, objects are merged, and
    null removes a default.
    """
    merged = dict(job)
    for name, value in _meant_for(job, defaults).items():
        if name not in job:
            merged[name] = value
        elif isinstance(value, dict) and isinstance(own := job[name], dict):
            merged[name] = {**_fitting(name, value, own), **own}
    return merged


def _meant_for(job: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults without those that the job replaces under another name, such as `taskId` for `task`, and for
    a workflow without those that only its tasks can have.
    """
    meant = {name: value for name, value in defaults.items() if _INSTEAD.get(name) not in job}
    if isinstance(task := job.get("task"), dict) and task.get("kind") == "workflow":
        meant = {name: value for name, value in meant.items() if name not in OF_TASKS.values()}
    if any(name in job for name in _OTHER_SCHEDULES) and isinstance(shared := meant.pop("schedule", None), dict):
        meant |= {"timezone": shared["timezone"]} if "timezone" in shared else {}
    if "maxRetries" in job and isinstance(retry := meant.get("retry"), dict):
        meant["retry"] = {name: value for name, value in retry.items() if name != "maxRetries"}
    return meant


def _fitting(name: str, value: dict[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a default task or schedule that fit the kind of the job's own one: an interval, for example,
    gets no default time zone.
    """
    if name not in _TAGGED:
        return value
    tag_field, fields = _TAGGED[name]
    kind = own.get(tag_field, value.get(tag_field))
    if value.get(tag_field, kind) != kind:
        return {}
    known = fields.get(str(kind), frozenset())
    return {key: each for key, each in value.items() if key in known or key == tag_field}
