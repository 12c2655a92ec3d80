"""The result of the translation of a crontab or a Kubernetes manifest: declared jobs, and remarks for the user."""

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
    """True if the job on that line is not imported."""

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
    """The defaults of all jobs: the behaviour of the scheduler that they come from."""

    def lost(self, line: int, detail: str) -> None:
        self.remarks.append(Remark(line, detail, lost=True))

    def note(self, line: int, detail: str) -> None:
        self.remarks.append(Remark(line, detail))


def adapted(found: Translation, prefix: str, runs_on: Sequence[str]) -> Translation:
    """Return the translation with a prefix before all names, and with labels of workers for all jobs."""
    jobs = [Translated(each.line, {**each.document, "name": prefix + each.document["name"]}) for each in found.jobs]
    defaults = {**found.defaults, "runsOn": list(runs_on)} if runs_on else found.defaults
    return Translation(jobs, found.remarks, defaults)


def declared(found: Translation, file: str, set_name: str | None) -> FileSet:
    """Return the declared jobs. A job that is not valid becomes a remark and does not affect the others."""
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
                found.lost(each.line, _text(complaint))
    found.jobs = good
    found.remarks.sort(key=lambda remark: (remark.line, not remark.lost))
    return FileSet(tuple(jobs), set_name)


def _text(complaint: ManifestProblem) -> str:
    return f"{complaint.path}: {complaint.detail}" if complaint.path else complaint.detail


def slug(text: str) -> str:
    """Return a text as a name: `Back up the DB!` becomes `back-up-the-db`, and `Grüße` becomes `grusse`."""
    letters = (each for each in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(each))
    words = re.sub(r"[^a-z0-9]+", "-", "".join(letters)).strip("-")
    if len(words) <= MAX_NAME_LENGTH:
        return words
    return words[:MAX_NAME_LENGTH].rpartition("-")[0] or words[:MAX_NAME_LENGTH]


def unique(name: str, taken: Sequence[str] | set[str]) -> str:
    """Return the name, or the first of `name-2`, `name-3` and so on that is not taken."""
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name}-{number}"
    return found
