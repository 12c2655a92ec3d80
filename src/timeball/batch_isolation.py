"""Keeps one item of a batch from failing the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from timeball.domain.errors import TimeballError

T = TypeVar("T")


async def in_halves(
    items: Sequence[T], act: Callable[[Sequence[T]], Awaitable[object]], failed: Callable[[T, Exception], None]
) -> None:
    """Act on all items at once; if that fails unexpectedly, on each half of them. `failed` gets the items that fail by
    themselves. Expected errors, such as a store that does not answer, are the caller's."""
    try:
        await act(items)
    except TimeballError:
        raise
    except Exception as error:
        if len(items) == 1:
            failed(items[0], error)
            return
        half = len(items) // 2
        await in_halves(items[:half], act, failed)
        await in_halves(items[half:], act, failed)
