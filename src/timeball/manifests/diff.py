"""Compares the jobs of a server with the declared ones, field by field, and makes the request that changes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from timeball.domain.job.job import JobSpec, decode_spec, encode_spec
from timeball.jobspec import spec_view
from timeball.manifests.job import MARK

FIELDS: Final = JobSpec.__struct_encode_fields__
_WHOLE: Final = ("parameters", "retry", "schedule", "task", "resources", "concurrency", "rateLimit")
"""Fields whose parts are compared and listed one by one."""
_TAG_FIELDS: Final = {"task": "kind", "schedule": "type"}


@dataclass(frozen=True, slots=True)
class Change:
    field: str
    """The name of the field, such as `schedule.expression`."""
    old: Any
    """None: the field was not set."""
    new: Any


@dataclass(frozen=True, slots=True)
class KnownJob:
    """A job as a server shows it."""

    job_id: str
    name: str
    version: int
    status: str
    spec: JobSpec
    """The spec without the tags that mark sets."""
    sets: tuple[str, ...] = ()
    """The sets that the job belongs to, according to its tags: one or none."""

    @property
    def live(self) -> bool:
        return self.status in ("scheduled", "paused")

    @property
    def paused(self) -> bool:
        return self.status == "paused"


def known(answer: Mapping[str, Any]) -> KnownJob:
    """Return the job from its JSON. Fields that this version does not know are ignored."""
    spec = decode_spec(msgspec.json.encode({name: answer[name] for name in FIELDS if answer.get(name) is not None}))
    marks = [tag for tag in spec.tags if tag.startswith(MARK)]
    return KnownJob(
        job_id=answer["jobId"],
        name=spec.name,
        version=answer["version"],
        status=answer["status"],
        spec=msgspec.structs.replace(spec, tags=[tag for tag in spec.tags if tag not in marks]),
        sets=tuple(mark.removeprefix(MARK) for mark in marks),
    )


def marked(spec: JobSpec, set_name: str | None) -> JobSpec:
    return spec if set_name is None else msgspec.structs.replace(spec, tags=[*spec.tags, f"{MARK}{set_name}"])


def document(spec: JobSpec) -> dict[str, Any]:
    """Return the fields of a job that differ from the defaults. The schedule is always included."""
    said = _without_defaults(spec, msgspec.json.decode(encode_spec(spec)))
    said.setdefault("schedule", {"type": "immediate"})
    return {name: said[name] for name in FIELDS if name in said}


def _without_defaults(value: msgspec.Struct, said: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON of a value without fields that have their defaults. The encoder itself leaves out only some of
    them: it does not compare strings.
    """
    lean = dict(said)
    for field in msgspec.structs.fields(value):
        name = field.encode_name
        if name not in said:
            continue
        own = getattr(value, field.name)
        if own == field.default:
            del lean[name]
        elif isinstance(own, msgspec.Struct):
            lean[name] = _without_defaults(own, said[name])
    return lean


def changes(old: JobSpec, new: JobSpec) -> list[Change]:
    """Return the fields that differ, in the order of the fields of a job. Values that the API shows in the same way
    are the same, even if they are written differently.
    """
    was, wanted = shown(old), shown(new)
    return [change for name in FIELDS for change in _changes(name, was.get(name), wanted.get(name))]


def patch(old: JobSpec, new: JobSpec) -> dict[str, Any]:
    """Return the body of the update request that turns one spec into the other: the fields that differ, with null for
    fields that get their default.
    """
    was, wanted = shown(old), shown(new)
    body = {name: wanted.get(name) for name in FIELDS if was.get(name) != wanted.get(name)}
    if isinstance(retry := body.get("retry"), dict):
        body["retry"] = {"nonRetryable": {}, **retry}  # the server merges `retry`: an omitted field keeps its value
    for one, other in (("task", "taskId"), ("taskId", "task")):
        if body.get(one) is not None:
            body.pop(other, None)  # `task` and `taskId` replace each other
    return body


def shown(spec: JobSpec) -> dict[str, Any]:
    """Return the fields of a job as the API shows them, with defaults for those that are not set."""
    shown = spec_view.spec_document(spec)
    return {name: shown[name] for name in FIELDS if shown.get(name) is not None}


def _changes(name: str, old: Any, new: Any) -> Iterator[Change]:
    if old == new:
        return
    tag = _TAG_FIELDS.get(name, "")
    if name in _WHOLE and isinstance(old, dict) and isinstance(new, dict) and old.get(tag) == new.get(tag):
        for part in dict.fromkeys((*old, *new)):
            if (part in old, old.get(part)) != (part in new, new.get(part)):
                yield Change(f"{name}.{part}", _part(old, part), _part(new, part))
        return
    yield Change(name, old, new)


def _part(value: Mapping[str, Any], name: str) -> Any:
    """Return a part of a value. A part that is null is returned as text, because None means that it is not set."""
    return "null" if name in value and value[name] is None else value.get(name)
