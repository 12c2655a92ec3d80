"""Parses files into plain values, with the line number of each value.

YAML is restricted to the types of JSON: strings, numbers, true, false, null, lists and mappings. `on`, `no`, `22:00`
and `2026-03-01` are strings, unlike in YAML 1.1.
"""

from __future__ import annotations

import datetime
import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import msgspec
import yaml

from timeball.jobspec.validation_text import pointer
from timeball.manifests.errors import FilesRefused, ManifestProblem

MAX_BYTES: Final = 32 * 1024 * 1024
MAX_VALUES: Final = 300_000
"""Maximum number of values in one document. With aliases, a page of YAML can stand for an astronomical number."""
MAX_DEPTH: Final = 64

_TAG: Final = "tag:yaml.org,2002:"
_MERGE: Final = f"{_TAG}merge"
PLAIN: Final = (
    (f"{_TAG}null", re.compile(r"(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]),
    (f"{_TAG}bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")),
    (f"{_TAG}int", re.compile(r"[-+]?[0-9]+$"), list("-+0123456789")),
    (f"{_TAG}float", re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$"), list("-+.0123456789")),
    (_MERGE, re.compile(r"<<$"), ["<"]),
)
"""Words without quotes that are not strings: the core schema of YAML 1.2, only decimal numbers, and the merge key."""


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a file."""

    file: str
    value: Any
    lines: Mapping[str, int] = field(default_factory=dict)
    """The line on which each value begins, by JSON pointer."""

    def line(self, at: str) -> int | None:
        """Return the line of a value, or of the innermost value around it whose line is known; None: none is known."""
        while at not in self.lines:
            if not at:
                return None
            at = at.rpartition("/")[0]
        return self.lines[at]


def read(file: str, raw: bytes) -> list[Document]:
    """Return the documents of a file. Its suffix determines the format. Raise `FilesRefused` if it cannot be parsed."""
    if len(raw) > MAX_BYTES:
        raise FilesRefused(
            [ManifestProblem(file, None, f"it has more than {MAX_BYTES >> 20} MiB; split it into several files")]
        )
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise FilesRefused([ManifestProblem(file, line, "it is not UTF-8 here; save the file as UTF-8")]) from None
    if file.endswith(".toml"):
        return [_toml(file, text)]
    return [_read_json(file, raw)] if file.endswith(".json") else list(read_yaml(file, text))


def _read_json(file: str, raw: bytes) -> Document:
    try:
        return Document(file, msgspec.json.decode(raw))
    except (msgspec.MsgspecError, RecursionError) as error:
        raise FilesRefused([ManifestProblem(file, None, f"this is not JSON: {error}")]) from None


# --- YAML ---------------------------------------------------------------------------------------------------------


_Loader: Any = type("_Loader", (getattr(yaml, "CSafeLoader", yaml.SafeLoader),), {"yaml_implicit_resolvers": {}})
"""A loader that knows only the types of JSON. It is used to get nodes with their positions, not Python objects."""

for _tag, _pattern, _first in PLAIN:
    _Loader.add_implicit_resolver(_tag, _pattern, _first)


def read_yaml(file: str, text: str) -> Iterator[Document]:
    try:
        _check_depth(file, text)
        nodes = list(yaml.compose_all(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = ", ".join(part for part in (error.context, error.problem) if part)
        raise FilesRefused(
            [ManifestProblem(file, None if mark is None else mark.line + 1, f"this is not YAML: {said}")]
        ) from None
    except yaml.YAMLError as error:
        raise FilesRefused([ManifestProblem(file, None, f"this is not YAML: {error}")]) from None
    for node in nodes:
        if node is not None:
            reader = _Reader(file)
            value = reader.value(node, ())
            yield Document(file, value, reader.lines)


def _check_depth(file: str, text: str) -> None:
    """Raise `FilesRefused` if the nesting is too deep. This runs before the recursive functions."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                line = event.start_mark.line + 1 if event.start_mark else None
                raise FilesRefused(
                    [ManifestProblem(file, line, f"lists and mappings are nested more than {MAX_DEPTH} deep")]
                )
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


class _Reader:
    """Turns the nodes of one document into values."""

    def __init__(self, file: str) -> None:
        self.lines: dict[str, int] = {}
        self._file = file
        self._values = 0
        self._open: set[int] = set()

    def value(self, node: yaml.Node, path: tuple[str, ...]) -> Any:
        self._values += 1
        if self._values > MAX_VALUES:
            self._refuse(node, f"with its aliases it has more than {MAX_VALUES:,} values")
        self.lines.setdefault(pointer(path), node.start_mark.line + 1)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if id(node) in self._open:
            self._refuse(node, "it contains itself through an alias")
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                self._expect(node, f"{_TAG}seq")
                return [self.value(item, (*path, str(index))) for index, item in enumerate(node.value)]
            self._expect(node, f"{_TAG}map")
            return self._mapping(node, path)
        finally:
            self._open.discard(id(node))

    def _mapping(self, node: yaml.Node, path: tuple[str, ...]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                several = value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
                for each in several:
                    value = self.value(each, path)
                    if not isinstance(value, dict):
                        self._refuse(value_node, "<< takes a mapping, or a list of mappings")
                    merged = {**value, **merged}
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                self._refuse(key_node, "a key must be a string")
            key = str(key_node.value)
            if key in found:
                self._refuse(key_node, f"the key {key!r} occurs twice; remove one of them")
            self.lines[pointer((*path, key))] = key_node.start_mark.line + 1
            found[key] = self.value(value_node, (*path, key))
        return {**merged, **found}

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        text = str(node.value)
        match node.tag.removeprefix(_TAG):
            case "str":
                return text
            case "null":
                return None
            case "bool" if text.lower() in ("true", "false"):
                return text.lower() == "true"
            case "int" if len(text) <= 19 and _is(text, "int"):
                return int(text)
            case "float" if _is(text, "float") and math.isfinite(float(text)):
                return float(text)
            case "int" | "float" | "bool":
                return self._refuse(node, f"{text[:40]!r} is not a number or a boolean that a job can have")
            case tag:
                return self._refuse(node, f"the tag {tag!r} is not supported; write the value without it")

    def _expect(self, node: yaml.Node, tag: str) -> None:
        if node.tag != tag:
            self._refuse(node, f"the tag {node.tag.removeprefix(_TAG)!r} is not supported; leave it out")

    def _refuse(self, node: yaml.Node, detail: str) -> NoReturn:
        raise FilesRefused([ManifestProblem(self._file, node.start_mark.line + 1, detail)])


def _is(text: str, kind: str) -> bool:
    return any(pattern.match(text) for tag, pattern, _ in PLAIN if tag == f"{_TAG}{kind}")


# --- TOML ---------------------------------------------------------------------------------------------------------

_WHERE: Final = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_KEY: Final = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_KEYS: Final = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_TABLES: Final = re.compile(rf"\s*\[\[\s*({_KEYS})\s*\]\]")
_TABLE: Final = re.compile(rf"\s*\[\s*({_KEYS})\s*\]")
_ENTRY: Final = re.compile(rf"\s*({_KEYS})\s*=")
_QUOTES: Final = re.compile(r'"""|\'\'\'')


def _toml(file: str, text: str) -> Document:
    try:
        value = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        said = str(error)
        found = _WHERE.search(said)
        line = int(found[1]) if found is not None and found[1] else text.count("\n") + 1
        raise FilesRefused([ManifestProblem(file, line, f"this is not TOML: {_WHERE.sub('', said)}")]) from None
    except RecursionError:
        raise FilesRefused([ManifestProblem(file, None, "arrays and tables are nested too deep")]) from None
    return Document(file, _json(value), _toml_lines(text))


def _json(value: Any) -> Any:
    """Return a TOML value as a JSON value. TOML has types for dates and times, which are strings in a job."""
    if isinstance(value, dict):
        return {key: _json(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_json(each) for each in value]
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat().replace("+00:00", "Z")
    return value


def _toml_lines(text: str) -> dict[str, int]:
    """Return the lines on which tables and entries begin, by JSON pointer. The standard library does not provide them.
    This function reads how each line begins, so it finds no entry of an inline table; an error in such an entry names
    the line of the table.
    """
    lines: dict[str, int] = {"": 1}
    counts: dict[str, int] = {}
    table: tuple[str, ...] = ()
    inside = ""
    for number, line in enumerate(text.splitlines(), 1):
        if inside:
            inside = "" if inside in line else inside
            continue
        if found := _TABLES.match(line):
            table = _resolved(_steps(found[1]), counts, into_last=True)
            at = pointer(table)
            counts[at] = counts.get(at, -1) + 1
            table = (*table, str(counts[at]))
            lines[pointer(table)] = number
        elif found := _TABLE.match(line):
            table = _resolved(_steps(found[1]), counts)
            lines.setdefault(pointer(table), number)
        elif found := _ENTRY.match(line):
            steps = _steps(found[1])
            for end in range(1, len(steps) + 1):
                lines.setdefault(pointer((*table, *steps[:end])), number)
            quotes = _QUOTES.findall(line)
            inside = quotes[0] if len(quotes) == 1 else ""
    return lines


def _resolved(steps: list[str], counts: Mapping[str, int], *, into_last: bool = False) -> tuple[str, ...]:
    """Return the path of a header with an index after each array of tables: that of the last table of the array. With
    `into_last` the last step gets no index, because the header adds a table to that array.
    """
    path: tuple[str, ...] = ()
    for index, step in enumerate(steps):
        path = (*path, step)
        if pointer(path) in counts and not (into_last and index == len(steps) - 1):
            path = (*path, str(counts[pointer(path)]))
    return path


def _steps(keys: str) -> list[str]:
    return [key.strip("\"'") for key in re.findall(_KEY, keys)]
