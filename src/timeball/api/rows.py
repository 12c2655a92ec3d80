"""Renders lists row by row. A row that cannot be rendered becomes a row with its id and an error; the others are not
affected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec
import structlog
from msgspec import Raw, Struct

log = structlog.get_logger("timeball.api")

Item = TypeVar("Item")
_encode = msgspec.json.Encoder().encode


class RowError(Struct, frozen=True):
    """Why a row of a list cannot be rendered. The other rows are not affected."""

    code: str
    detail: str


def rows(
    items: Iterable[Item], view: Callable[[Item], object], name: str, ident: Callable[[Item], str | int]
) -> list[Raw]:
    """Return each item as JSON, rendered by `view`. If that fails, the row has the field `name` with the id of the
    item.
    """
    return [_row(item, view, name, ident) for item in items]


def _row(item: Item, view: Callable[[Item], object], name: str, ident: Callable[[Item], str | int]) -> Raw:
    try:
        return Raw(_encode(view(item)))
    except Exception as error:
        log.exception("a row of a list cannot be rendered", **{name: ident(item)})
        detail = f"this row cannot be rendered: {type(error).__name__}: {error}"[:500]
        return Raw(_encode({name: ident(item), "error": RowError("unrenderable", _plain(detail))}))


def _plain(text: str) -> str:
    """Replace surrogates, which JSON cannot represent."""
    return text.encode("utf-8", "replace").decode()
