"""What the translation of a foreign file comes to: jobs as a file would declare them, and what is to be said of it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from timeball.manifests.errors import ManifestProblem
from timeball.manifests.files import FileSet
from timeball.manifests.job import Declared, declare
from timeball.manifests.parse import Document

MAX_NAME_LENGTH: Final = 60


@dataclass(frozen=True, slots=True)
class Remark:
    line: int
    detail: str
    lost: bool = False
    """Whether what stands there is not imported at all."""

    def __str__(self) -> str:
        return f"line {self.line}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Translated:
    line: int
    document: Mapping[str, Any]


@dataclass(slots=True)
class Translation:
    jobs: list[Translated] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """What all of them have in common: the ways of the scheduler that they come from."""

    def lost(self, line: int, detail: str) -> None:
        self.remarks.append(Remark(line, detail, lost=True))

    def note(self, line: int, detail: str) -> None:
        self.remarks.append(Remark(line, detail))


def adapted(found: Translation, prefix: str, runs_on: Sequence[str]) -> Translation:
    """The same under other names, and for certain workers."""
    jobs = [Translated(each.line, {**each.document, "name": prefix + each.document["name"]}) for each in found.jobs]
    defaults = {**found.defaults, "runsOn": list(runs_on)} if runs_on else found.defaults
    return Translation(jobs, found.remarks, defaults)


def declared(found: Translation, file: str, set_name: str | None) -> FileSet:
    """The jobs as files declare them. One that cannot be a job becomes a remark, and leaves the others alone."""
    jobs: list[Declared] = []
    good: list[Translated] = []
    for each in found.jobs:
        document = Document(file, each.document, {"": each.line})
        made = declare(document, "", each.document, found.defaults)
        if isinstance(made, Declared):
            jobs.append(made)
            good.append(each)
        else:
            for complaint in made:
                found.lost(each.line, _told(complaint))
    found.jobs = good
    found.remarks.sort(key=lambda remark: (remark.line, not remark.lost))
    return FileSet(tuple(jobs), set_name)


def _told(complaint: ManifestProblem) -> str:
    return f"{complaint.path}: {complaint.detail}" if complaint.path else complaint.detail


def slug(text: str) -> str:
    """A text as a name: `Back up the DB!` is `back-up-the-db`, and `Grüße` is `grusse`."""
    letters = (each for each in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(each))
    words = re.sub(r"[^a-z0-9]+", "-", "".join(letters)).strip("-")
    if len(words) <= MAX_NAME_LENGTH:
        return words
    return words[:MAX_NAME_LENGTH].rpartition("-")[0] or words[:MAX_NAME_LENGTH]


def unique(name: str, taken: Sequence[str] | set[str]) -> str:
    """The name, or the first of `name-2`, `name-3` and so on that nobody has."""
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name}-{number}"
    return found
