"""The SQL statements, read once from `queries/*/*.sql`. Each begins with `-- name: ...` and a comment on its purpose.

Names of values in them (`{state.ready}`, see `names`) are resolved here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

from timeball.stores.sql.dialect import Query
from timeball.stores.sql.names import resolve

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*\n", re.MULTILINE)


def _read() -> dict[str, str]:
    texts: dict[str, str] = {}
    for file in files(resources.files("timeball.stores.sql").joinpath("queries")):
        _, *parts = _NAME.split(file.read_text("utf-8"))
        for name, text in zip(parts[::2], parts[1::2], strict=True):
            if name in texts:
                raise ValueError(f"two statements have the name {name!r}; the second is in {file.name}")
            texts[name] = resolve(_COMMENT.sub("", text).strip())
    return texts


def files(folder: Traversable) -> Iterator[Traversable]:
    """Yield all SQL files in the folder and its subfolders."""
    for each in folder.iterdir():
        if each.is_dir():
            yield from files(each)
        elif each.name.endswith(".sql"):
            yield each


_TEXTS: Final = _read()


def text(name: str) -> str:
    return _TEXTS[name]


def query(name: str, **parts: str) -> Query:
    """Return the statement of this name. `{part}` in it is replaced by SQL from this code, never by input of a user."""
    statement = _TEXTS[name]
    for part, sql in parts.items():
        statement = statement.replace(f"{{{part}}}", sql)
    return Query(name, statement)


def literals(words: Iterable[str]) -> str:
    """Return values of the domain, such as statuses, as literals for `IN (…)`."""
    return ", ".join(f"'{word}'" for word in words)


def many(found: Query) -> Query:
    """Mark a SELECT that may return many rows while other requests wait."""
    return replace(found, many=True)


def piecemeal(found: Query) -> Query:
    """Mark a statement whose batch may be executed in parts, because its rows are independent."""
    return replace(found, piecemeal=True)


def planned_once(found: Query) -> Query:
    """Mark a statement for which PostgreSQL keeps its plan. To plan a statement takes longer than to execute it for a
    few rows. Only for statements that find each row by its id, however large the table was when they were planned.
    """
    return replace(found, planned_once=True)
