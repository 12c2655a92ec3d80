"""Writes jobs as YAML or TOML that is easy to read. Reading it again gives the same jobs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import yaml

from timeball.domain.errors import Invalid
from timeball.manifests import diff, parse
from timeball.manifests.diff import KnownJob

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_WIDTH: Final = 110


class _Dumper(yaml.SafeDumper):
    """Puts quotes around strings that a parser of YAML 1.1 or YAML 1.2, or the parser of Timeball, would take for
    another type.
    """

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    lines = text.split("\n")
    style = None
    if not all(line.isprintable() for line in lines):
        style = '"'  # with escapes: YAML folds some characters that are not printable, such as U+0085
    elif len(lines) > 1 and all(line == line.rstrip() for line in lines):
        style = "|"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
for _tag, _pattern, _first in parse.PLAIN:
    _Dumper.add_implicit_resolver(_tag, _pattern, _first)


def declaration(job: KnownJob) -> dict[str, Any]:
    """Return a job of a server as a file declares it. `paused` is left out for a one-shot job, because a file cannot
    declare it.
    """
    said = diff.document(job.spec)
    return {**said, "paused": True} if job.paused and not job.spec.one_shot else said


def contents(
    jobs: Iterable[Mapping[str, Any]], set_name: str | None, defaults: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the content of a file as a mapping."""
    head: dict[str, Any] = {} if set_name is None else {"set": set_name}
    if defaults:
        head["defaults"] = dict(defaults)
    return {**head, "jobs": [dict(job) for job in jobs]}


def write_yaml(content: Mapping[str, Any], heading: str = "") -> str:
    """Return the content of a file as YAML, with an empty line between two jobs."""
    head = {name: value for name, value in content.items() if name != "jobs"}
    parts = [_dump(head)] if head else []
    jobs = content.get("jobs") or []
    parts.append("jobs:\n" + "\n".join(_dump([job], indent=2) for job in jobs) if jobs else "jobs: []\n")
    return heading + "\n".join(parts)


def _dump(value: Any, indent: int = 0) -> str:
    text: str = yaml.dump(
        value if not indent else {"-": value}, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH
    )
    return text.partition("\n")[2] if indent else text


def write_toml(content: Mapping[str, Any], heading: str = "") -> str:
    lines = [f"{_key(name)} = {_toml(content[name], name)}\n" for name in ("set",) if name in content]
    if "defaults" in content:
        lines += ["\n[defaults]\n", *_entries(content["defaults"])]
    for job in content.get("jobs") or []:
        lines += ["\n[[jobs]]\n", *_entries(job)]
    return heading + "".join(lines)


def _entries(table: Mapping[str, Any]) -> list[str]:
    return [f"{_key(name)} = {_toml(value, name)}\n" for name, value in table.items()]


def _toml(value: Any, at: str) -> str:
    match value:
        case None:
            raise Invalid(f"{at} is null, which TOML does not have; write YAML instead")
        case bool():
            return "true" if value else "false"
        case str():
            return _quoted(value)
        case dict():
            inner = ", ".join(f"{_key(name)} = {_toml(each, f'{at}.{name}')}" for name, each in value.items())
            return f"{{ {inner} }}" if inner else "{}"
        case list():
            return f"[{', '.join(_toml(each, at) for each in value)}]"
        case _:
            return repr(value)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    """Return a string in quotes. JSON and TOML quote in the same way, except that TOML has to escape U+007F."""
    return msgspec.json.encode(text).decode().replace("\x7f", "\\u007f")
