"""Which kinds of jobs a load has: 40 % HTTP calls, 30 % plain functions, 20 % coroutines, 10 % commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bench.kinds.catalogue import BY_NAME
from bench.kinds.target import Target

MIXED: Final = ("http", "thread", "async", "http", "thread", "shell", "http", "thread", "async", "http")
"""The kinds of ten jobs, which repeat."""
ASYNC_ALONE: Final = ("async",)


@dataclass(frozen=True)
class Mix:
    kinds: tuple[str, ...]
    """The kinds of jobs in turn."""
    target: Target

    @property
    def tasks(self) -> list[Mapping[str, Any]]:
        """The tasks of jobs in turn. The result of each job is the time at which its work began."""
        return [self._task(name) for name in self.kinds]

    def _task(self, name: str) -> Mapping[str, Any]:
        task = BY_NAME[name].start_task
        return {**task, "url": self.target.url} if name == "http" else task


def shares(kinds: tuple[str, ...]) -> dict[str, float]:
    return {name: kinds.count(name) / len(kinds) for name in dict.fromkeys(kinds)}
