"""What a server has, and what the files want: field by field, and the request that turns one into the other."""

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
"""Fields whose parts are told one by one."""
_TAG_FIELDS: Final = {"task": "kind", "schedule": "type"}


@dataclass(frozen=True, slots=True)
class Change:
    field: str
    """`schedule.expression`"""
    old: Any
    """None: there was nothing."""
    new: Any


@dataclass(frozen=True, slots=True)
class Known:
    """A job as a server told of it."""

    job_id: str
    name: str
    version: int
    status: str
    spec: JobSpec
    """Without the marks of sets."""
    sets: tuple[str, ...] = ()
    """To which it belongs, by its marks: one, or none."""

    @property
    def live(self) -> bool:
        return self.status in ("scheduled", "paused")

    @property
    def paused(self) -> bool:
        return self.status == "paused"


def known(answer: Mapping[str, Any]) -> Known:
    """From the JSON of a job. Fields that this version does not know are left alone."""
    spec = decode_spec(msgspec.json.encode({name: answer[name] for name in FIELDS if answer.get(name) is not None}))
    marks = [tag for tag in spec.tags if tag.startswith(MARK)]
    return Known(
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
    """What there is to say of a job, without what goes without saying. When it runs is always said."""
    said = _without_defaults(spec, msgspec.json.decode(encode_spec(spec)))
    said.setdefault("schedule", {"type": "immediate"})
    return {name: said[name] for name in FIELDS if name in said}


def _without_defaults(value: msgspec.Struct, said: dict[str, Any]) -> dict[str, Any]:
    """The JSON of a value without what is as it would be anyway: the encoder leaves that out only where it can tell at
    a glance, which for texts it cannot."""
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
    """The fields that differ, in the order of a job's fields. What is written otherwise but shown alike is the same."""
    was, wanted = shown(old), shown(new)
    return [change for name in FIELDS for change in _changes(name, was.get(name), wanted.get(name))]


def patch(old: JobSpec, new: JobSpec) -> dict[str, Any]:
    """The update that makes one of the other: fields that differ, null for those that are as if nothing was said."""
    was, wanted = shown(old), shown(new)
    body = {name: wanted.get(name) for name in FIELDS if was.get(name) != wanted.get(name)}
    if isinstance(retry := body.get("retry"), dict):
        body["retry"] = {"nonRetryable": {}, **retry}  # parts of it that are left out would stay
    for one, other in (("task", "taskId"), ("taskId", "task")):
        if body.get(one) is not None:
            body.pop(other, None)  # the one takes the place of the other
    return body


def shown(spec: JobSpec) -> dict[str, Any]:
    """Its fields as the API shows them, with the defaults filled in."""
    told = spec_view.spec_document(spec)
    return {name: told[name] for name in FIELDS if told.get(name) is not None}


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
    """A parameter may be null, which is not the same as none."""
    return "null" if name in value and value[name] is None else value.get(name)
