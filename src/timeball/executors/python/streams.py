"""Makes what a Python function prints the output of its attempt, even if many functions share a process.

While a worker runs, `sys.stdout` and `sys.stderr` look up the current attempt in a context variable. So the output of a
function, of tasks that it creates, and of `asyncio.to_thread` goes to its attempt; all other output goes to the
original stream. Output to a file descriptor is not captured here: a function in mode `process` has its own descriptors.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any, Final, Protocol, TextIO


class Reports(Protocol):
    def write(self, stream: str, text: str) -> None: ...


CURRENT_REPORTS: Final[ContextVar[Reports]] = ContextVar("timeball_speaker")


class _Stream:
    """Replaces a standard stream: text of a function goes to its attempt, all other text to the original stream."""

    def __init__(self, name: str, behind: TextIO) -> None:
        self._name = name
        self._behind = behind

    def write(self, text: str) -> int:
        current = CURRENT_REPORTS.get(None)
        if current is None or not isinstance(text, str):
            return self._behind.write(text)
        current.write(self._name, text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)


@contextlib.contextmanager
def listening() -> Iterator[None]:
    """Capture what functions print, until the block exits."""
    behind = sys.stdout, sys.stderr
    ours: tuple[Any, Any] = _Stream("stdout", sys.stdout), _Stream("stderr", sys.stderr)
    sys.stdout, sys.stderr = ours
    try:
        yield
    finally:
        if sys.stdout is ours[0]:
            sys.stdout = behind[0]
        if sys.stderr is ours[1]:
            sys.stderr = behind[1]
