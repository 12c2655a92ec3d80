"""Lists, rendered row by row: a row that cannot be shown becomes a row with its id and an error, and costs no other."""

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
    """Why a row of a list is not shown. The other rows are."""

    code: str
    detail: str


def rows(items: Iterable[Item], view: Callable[[Item], object], name: str, ident: Callable[[Item], str]) -> list[Raw]:
    """What `view` makes of each item, as JSON. `name` and `ident` say what an item is called if that fails."""
    return [_row(item, view, name, ident) for item in items]


def _row(item: Item, view: Callable[[Item], object], name: str, ident: Callable[[Item], str]) -> Raw:
    try:
        return Raw(_encode(view(item)))
    except Exception as error:
        log.exception("a row of a list cannot be shown", **{name: ident(item)})
        detail = f"this row cannot be shown: {type(error).__name__}: {error}"[:500]
        return Raw(_encode({name: ident(item), "error": RowError("unrenderable", _plain(detail))}))


def _plain(text: str) -> str:
    """Without surrogates, which JSON cannot carry."""
    return text.encode("utf-8", "replace").decode()
