"""The statements, read from `queries/*/*.sql` once. Each begins with `-- name: ...` and a line that says what for.

Values are mentioned by their names (`{state.ready}`, see `names`), which are resolved here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
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
                raise ValueError(f"two statements are called {name!r}; the second is in {file.name}")
            texts[name] = resolve(_COMMENT.sub("", text).strip())
    return texts


def files(folder: Traversable) -> Iterator[Traversable]:
    """All files with statements, in all folders below."""
    for each in folder.iterdir():
        if each.is_dir():
            yield from files(each)
        elif each.name.endswith(".sql"):
            yield each


_TEXTS: Final = _read()


def text(name: str) -> str:
    return _TEXTS[name]


def query(name: str, **parts: str) -> Query:
    """The statement of this name; `{part}` in it is replaced by SQL made here, never by a user's words."""
    statement = _TEXTS[name]
    for part, sql in parts.items():
        statement = statement.replace(f"{{{part}}}", sql)
    return Query(name, statement)


def literals(words: Iterable[str]) -> str:
    """Words of the domain, such as statuses, for an `IN (…)`."""
    return ", ".join(f"'{word}'" for word in words)


def many(found: Query) -> Query:
    """A SELECT that may answer many rows while others are busy."""
    return Query(found.name, found.text, many=True)


def piecemeal(found: Query) -> Query:
    """One whose batch may come in pieces: its rows have nothing to do with each other."""
    return Query(found.name, found.text, piecemeal=True)
