"""Pages of lists."""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")


class Page(Struct, Generic[T], frozen=True):
    """One page of a list."""

    items: list[T]
    next_cursor: str | None = None
    """The cursor to pass for the next page; None: this is the last page."""
