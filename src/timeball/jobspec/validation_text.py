"""Turns the validation errors of msgspec into JSON pointers and messages that users understand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Any, Final

import msgspec
from msgspec import inspect

from timeball.domain.errors import WrongValue
from timeball.domain.spelling import Spelling
from timeball.domain.task import kinds

_PATH = re.compile(r" - at `(?:key` in `)?\$(.*)`$", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`$", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`$", re.DOTALL)
_NAMED = re.compile(r"(\w+): (.*)$", re.DOTALL)
_CHOICE = re.compile(r"Invalid (?:enum )?value (.*)$", re.DOTALL)
_PATTERN = re.compile(r"Expected str matching regex ['\"](.*?)(?:\(\?!.*\))?['\"]$")
_OWN_WORDS: Final = ("Expected", "Object", "Invalid", "Number", "Integer", "Str", "Can't")

SHOWN: Final = 100
"""Maximum number of characters of a wrong value in an error message."""

MAIN_FIELDS: Final = {
    **kinds.MAIN_FIELDS,
    "date": "expression",
    "cron": "expression",
    "interval": "expression",
}
"""The field that an error points to if a whole task or schedule was refused, by kind or type."""


# Cached: each call takes half a millisecond, and ten thousand wrong items of a batch would stop the server for seconds.
_type_info = cache(inspect.type_info)


def pointer(steps: Iterable[str]) -> str:
    """Return the JSON pointer (RFC 6901) of a path."""
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps)


def explain(
    error: msgspec.ValidationError, kind: Any, document: Any, also: Mapping[str, str] | None = None
) -> WrongValue:
    """Return the pointer and the message for the value of a document because of which msgspec could not convert the
    document to the type `kind`. `also` has further fields of the top level, each with its error message; an empty
    message marks a field that is accepted there.
    """
    message = str(error)
    found = _PATH.search(message)
    steps: list[str] = []
    if found is not None:
        message = message[: found.start()]
        steps = [name or index for name, index in _STEP.findall(found[1].partition("[...]")[0])]
    info, value = _walk(_type_info(kind), steps, document)
    fields = {field.encode_name for struct in _structs(info, value) for field in struct.fields}

    if unknown := _UNKNOWN.match(message):
        extra = also if also is not None and not steps else {}
        return WrongValue(pointer([*steps, unknown[1]]), _unknown_field(unknown[1], fields, extra))
    if missing := _MISSING.match(message):
        return WrongValue(pointer([*steps, missing[1]]), f"{missing[1]!r} is missing")
    if choice := _CHOICE.match(message):
        return WrongValue(pointer(steps), _wrong_choice(choice[1], kind, steps, document))
    if (named := _NAMED.match(message)) and named[1] in fields:
        return WrongValue(pointer([*steps, named[1]]), named[2])
    if steps and not message.startswith(_OWN_WORDS):
        steps += _culprit(value, message)
    return WrongValue(pointer(steps), _with_value(message.replace("`", ""), value))


def _with_value(message: str, value: Any) -> str:
    """Return the message about a value that is too large, too small or malformed, with the value if it is short."""
    if pattern := _PATTERN.match(message):
        message = f"Expected str that matches {pattern[1]}"
    named = not message.startswith("Expected") or " got " in message
    if named or value is None or isinstance(value, dict | list) or len(str(value)) > SHOWN:
        return message
    return f"{message}, got {value!r}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a suggestion to append to an error message, with the most similar known word; empty if none is similar."""
    return _suggestion(word[:100], tuple(sorted(known)))


@lru_cache(maxsize=1_024)
def _suggestion(word: str, known: tuple[str, ...]) -> str:
    meant = _spelling(known).closest(word.lower().replace("_", ""))
    return "" if meant is None else f"; did you mean {meant!r}?"


@lru_cache(maxsize=256)
def _spelling(known: tuple[str, ...]) -> Spelling:
    return Spelling({name.lower(): name for name in known})


def _unknown_field(name: str, fields: set[str], also: Mapping[str, str]) -> str:
    if remark := also.get(name):
        return f"{name!r} {remark}"
    accepted = fields | {other for other, remark in also.items() if not remark}
    suggestion = did_you_mean(name, accepted)
    return f"there is no field {name[:100]!r}{suggestion or '; known fields are ' + ', '.join(sorted(accepted))}"


def _wrong_choice(value: str, kind: Any, steps: list[str], document: Any) -> str:
    parent, _ = _walk(_type_info(kind), steps[:-1], document)
    info, _ = _walk(_type_info(kind), steps, document)
    choices = _choices(info) or [
        str(struct.tag) for struct in _all_structs(parent) if steps and struct.tag_field == steps[-1]
    ]
    value = value if len(value) <= SHOWN else f"{value[:SHOWN]}…"
    suggestion = did_you_mean(value.strip("'\""), choices)
    return f"{value} is not one of {', '.join(choices)}{suggestion}" if choices else f"{value} is not allowed here"


def _culprit(value: Any, message: str) -> list[str]:
    """Return the path from a task or schedule to the field that its own check refused."""
    if "time zone" in message:
        return ["timezone"]
    if not isinstance(value, dict):
        return []
    field = MAIN_FIELDS.get(str(value.get("kind", value.get("type"))))
    return [field] if field else []


def _walk(info: inspect.Type, steps: list[str], value: Any) -> tuple[inspect.Type, Any]:
    """Return the type and the value at a path, as far as the path exists in both."""
    for step in steps:
        field = next((f for s in _structs(info, value) for f in s.fields if f.encode_name == step), None)
        items = _plain(info)
        if field is not None:
            info = field.type
        elif isinstance(items, inspect.ListType):
            info = items.item_type
        else:
            info = inspect.AnyType()
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            value = None
    return info, value


def _plain(info: inspect.Type) -> inspect.Type:
    while isinstance(info, inspect.Metadata):
        info = info.type
    return info


def _members(info: inspect.Type) -> list[inspect.Type]:
    info = _plain(info)
    return [_plain(member) for member in info.types] if isinstance(info, inspect.UnionType) else [info]


def _all_structs(info: inspect.Type) -> list[inspect.StructType]:
    return [member for member in _members(info) if isinstance(member, inspect.StructType)]


def _structs(info: inspect.Type, value: Any) -> list[inspect.StructType]:
    """Return the struct types that a value may have: only the one with its tag, if it has a tag."""
    structs = _all_structs(info)
    if isinstance(value, dict):
        tagged = [struct for struct in structs if struct.tag_field and value.get(struct.tag_field) == struct.tag]
        return tagged or structs
    return structs


def _choices(info: inspect.Type) -> list[str]:
    choices: list[str] = []
    for member in _members(info):
        if isinstance(member, inspect.LiteralType):
            choices += [str(value) for value in member.values]
        elif isinstance(member, inspect.EnumType):
            choices += [str(value.value) for value in member.cls]
    return choices
