"""A table as the drivers see it: its name, and the names and types of its columns."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Struct

as_tuple: Callable[[Struct], Any] = msgspec.structs.astuple
"""Returns the values of a row, in the order of its columns."""
_DOCUMENTS: Final = ("spec", "answer")
"""Columns with documents that a client sent, of up to 1 MiB each."""
_KINDS: Final[dict[object, str]] = {str: "text", int: "bigint", float: "double precision", bytes: "bytea"}


class Table:
    """A table, or some of its columns, as `Tx.insert` sees it: names and types of the columns."""

    __slots__ = ("columns", "document", "kinds", "name", "row")

    def __init__(self, name: str, row: type[Struct]) -> None:
        hints = typing.get_type_hints(row)
        self.name = name
        self.row = row
        self.columns: tuple[str, ...] = row.__struct_fields__
        self.document: int | None = next((at for at, name in enumerate(self.columns) if name in _DOCUMENTS), None)
        """The position of the column with documents; None if the table has none."""
        self.kinds = tuple(_KINDS[_plain(hints[column])] for column in self.columns)


def _plain(hint: object) -> object:
    """Return the type without `| None`."""
    if isinstance(hint, types.UnionType):
        return next(part for part in typing.get_args(hint) if part is not type(None))
    return hint
