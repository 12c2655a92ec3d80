"""What long answers come in."""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")


class Page(Struct, Generic[T], frozen=True):
    items: list[T]
    next_cursor: str | None = None
