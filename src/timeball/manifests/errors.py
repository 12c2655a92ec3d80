"""What is wrong in a file, and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from timeball.domain.errors import Invalid, Problem


@dataclass(frozen=True, slots=True)
class ManifestProblem:
    file: str
    line: int | None
    detail: str
    path: str = ""
    """Of the field, as people write it: `jobs[2].schedule.expression`."""

    @property
    def place(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"

    def __str__(self) -> str:
        return f"{self.place}: {self.path}: {self.detail}" if self.path else f"{self.place}: {self.detail}"


class Refused(Invalid):
    """Files that cannot be used: everything that is wrong with them. Nothing was changed."""

    def __init__(self, complaints: Sequence[ManifestProblem]) -> None:
        self.complaints = tuple(complaints)
        things = "one thing is" if len(self.complaints) == 1 else f"{len(self.complaints)} things are"
        super().__init__(
            f"{things} wrong in these files, and nothing was done",
            problems=tuple(Problem(each.place, each.detail) for each in self.complaints),
        )
