"""Reads sets of manifest files: from paths to the jobs that the files declare together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from timeball.jobspec.validation_text import did_you_mean, pointer
from timeball.manifests import parse
from timeball.manifests.errors import FilesRefused, ManifestProblem
from timeball.manifests.job import Declared, declare, path_of
from timeball.manifests.parse import Document

SUFFIXES: Final = (".yaml", ".yml", ".toml", ".json")
STANDARD_INPUT: Final = "-"
SET_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,79}", re.ASCII)
_KNOWN: Final = ("set", "defaults", "jobs")


@dataclass(frozen=True, slots=True)
class FileSet:
    """Jobs that are declared together."""

    jobs: tuple[Declared, ...]
    name: str | None = None
    """The name of the set. A server has it as a tag of each job of the set, so that a plan finds jobs that are no
    longer in the files. None: the files name no set, and a plan does not find such jobs.
    """


def find(paths: Sequence[str]) -> list[Path]:
    """Return the files of paths. A folder stands for all manifest files in it and below it, except hidden ones. Raise
    `FilesRefused` for paths that do not exist and folders without such files."""
    found: list[Path] = []
    wrong: list[ManifestProblem] = []
    for path in map(Path, paths):
        if path.is_dir():
            below = [each for each in sorted(path.rglob("*")) if each.suffix in SUFFIXES and each.is_file()]
            visible = [each for each in below if _is_meant(each.relative_to(path))]
            found += visible
            if not visible:
                wrong.append(
                    ManifestProblem(str(path), None, f"the folder has no file that ends in {', '.join(SUFFIXES)}")
                )
        elif path.is_file():
            found.append(path)
        else:
            wrong.append(ManifestProblem(str(path), None, "there is no such file or folder"))
    if wrong:
        raise FilesRefused(wrong)
    return list(dict.fromkeys(found))


def _is_meant(path: Path) -> bool:
    """Return True if a file of a folder is a manifest: it is not hidden, and not the settings file of Timeball."""
    return path.name != "timeball.toml" and not any(part.startswith(".") for part in path.parts)


def read(paths: Sequence[Path], name: str | None = None, standard_input: bytes | None = None) -> FileSet:
    """Return the jobs that files declare together. Raise `FilesRefused` with the problems of all files. `name` is the
    name of the set; it replaces the name in the files.
    """
    documents: list[Document] = []
    wrong: list[ManifestProblem] = []
    for path in paths:
        try:
            documents += parse.read(str(path), path.read_bytes())
        except FilesRefused as error:
            wrong += error.complaints
        except OSError as error:
            wrong.append(ManifestProblem(str(path), None, f"the file cannot be read: {error.strerror or error}"))
    if standard_input is not None:
        try:
            documents += parse.read("standard input", standard_input)
        except FilesRefused as error:
            wrong += error.complaints
    try:
        together = gather(documents, name)
    except FilesRefused as error:
        raise FilesRefused([*wrong, *error.complaints]) from None
    if wrong:
        raise FilesRefused(wrong)
    return together


def gather(documents: Iterable[Document], name: str | None = None) -> FileSet:
    """Return the jobs that documents declare together. Raise `FilesRefused` with all problems. `name` is as in
    `read`."""
    jobs: list[Declared] = []
    wrong: list[ManifestProblem] = []
    names: dict[str, str] = {}
    for document in documents:
        content = _content(document)
        if isinstance(content, ManifestProblem):
            wrong.append(content)
            continue
        wrong += _unknown(document, content)
        called = content.get("set")
        if called is not None and not (isinstance(called, str) and SET_NAME.fullmatch(called)):
            wrong.append(_complain(document, "/set", f"{called!r} is not a valid name of a set; {_NAMING}"))
        elif called is not None:
            names.setdefault(called, f"{document.file}:{document.line('/set')}")
        found, complaints = _jobs(document, content)
        jobs += found
        wrong += complaints
    wrong += _twice(jobs)
    if name is None and len(names) > 1:
        where = " and ".join(f"{called!r} ({place})" for called, place in names.items())
        wrong.append(
            ManifestProblem(next(iter(names.values())), None, f"the files name several sets: {where}; use --set")
        )
    if wrong:
        raise FilesRefused(wrong)
    return FileSet(tuple(jobs), name or next(iter(names), None))


_NAMING: Final = "use letters, digits and . _ / -, 80 characters at most"


def check_name(name: str) -> str | None:
    """Return the problem with the name of a set; None: it is valid."""
    return None if SET_NAME.fullmatch(name) else f"{name!r} is not a valid name of a set; {_NAMING}"


def _content(document: Document) -> dict[str, Any] | ManifestProblem:
    content = {} if document.value is None else document.value
    if not isinstance(content, dict):
        return _complain(document, "", "a file must be a mapping with jobs, and optionally defaults and set")
    if "apiVersion" in content:
        return _complain(
            document, "/apiVersion", "this is a Kubernetes manifest; use `timeball import kubernetes FILE`"
        )
    return content


def _unknown(document: Document, content: dict[str, Any]) -> list[ManifestProblem]:
    return [
        _complain(document, pointer([name]), f"there is no field {name!r}{did_you_mean(name, _KNOWN) or _HINT}")
        for name in content
        if name not in _KNOWN
    ]


_HINT: Final = "; write jobs as a list under `jobs`"


def _jobs(document: Document, content: dict[str, Any]) -> tuple[list[Declared], list[ManifestProblem]]:
    defaults = content.get("defaults") or {}
    listed = content.get("jobs") or []
    if not isinstance(defaults, dict):
        return [], [_complain(document, "/defaults", "defaults must be a mapping of fields of a job")]
    if "name" in defaults:
        return [], [_complain(document, "/defaults/name", "a name cannot be a default; leave it out")]
    if isinstance(listed, dict):
        places = [(pointer(["jobs", key]), _named(key, job)) for key, job in listed.items()]
    elif isinstance(listed, list):
        places = [(f"/jobs/{index}", job) for index, job in enumerate(listed)]
    else:
        return [], [_complain(document, "/jobs", "jobs must be a list of jobs, or a mapping from names to jobs")]
    jobs: list[Declared] = []
    wrong: list[ManifestProblem] = []
    for at, job in places:
        declared = declare(document, at, job, defaults)
        if isinstance(declared, Declared):
            jobs.append(declared)
        else:
            wrong += declared
    return jobs, list(dict.fromkeys(wrong))


def _named(key: str, job: Any) -> Any:
    return {"name": key, **job} if isinstance(job, dict) else job


def _twice(jobs: Iterable[Declared]) -> list[ManifestProblem]:
    first: dict[str, Declared] = {}
    wrong = []
    for job in jobs:
        known = first.setdefault(job.name, job)
        if known is not job:
            wrong.append(job.complaint(f"it is already declared at {known.place}; names are unique in a set"))
    return wrong


def _complain(document: Document, at: str, detail: str) -> ManifestProblem:
    return ManifestProblem(document.file, document.line(at), detail, path_of(at))
