"""Processes a batch so that one bad item does not make the other items fail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from timeball.domain.errors import TimeballError

T = TypeVar("T")


async def in_halves(
    items: Sequence[T], act: Callable[[Sequence[T]], Awaitable[object]], failed: Callable[[T, Exception], None]
) -> None:
    """Call `act` with all items. If that raises an unexpected error, call it with each half of them, down to single
    items. `failed` is called for each item that fails by itself. Expected errors (`TimeballError`), such as a store
    that does not answer, are raised to the caller.
    """
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
