"""Errors in manifest files, with their positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from timeball.domain.errors import Invalid, WrongValue


@dataclass(frozen=True, slots=True)
class ManifestProblem:
    file: str
    line: int | None
    detail: str
    path: str = ""
    """The path of the field, such as `jobs[2].schedule.expression`."""

    @property
    def place(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"

    def __str__(self) -> str:
        return f"{self.place}: {self.path}: {self.detail}" if self.path else f"{self.place}: {self.detail}"


class FilesRefused(Invalid):
    """Raised if files cannot be used, with all their problems. Nothing was changed."""

    def __init__(self, complaints: Sequence[ManifestProblem]) -> None:
        self.complaints = tuple(complaints)
        things = "one problem" if len(self.complaints) == 1 else f"{len(self.complaints)} problems"
        super().__init__(
            f"{things} in these files; nothing was changed",
            problems=tuple(WrongValue(each.place, each.detail) for each in self.complaints),
        )
