"""A text in the name of a job, in upper or lower case."""

from __future__ import annotations

from typing import Final

from timeball.stores.sql.rows.values import plain

TEXT_IN_NAME: Final = "(j.id = :exact OR j.name LIKE :part ESCAPE '!' OR lower(j.name) LIKE :lower_part ESCAPE '!')"
"""The condition on a job `j` whose name contains a text, or whose id it is. SQLite knows lower case of ASCII only, so
that other letters have to be written as they are."""


def text_parameters(text: str) -> dict[str, str]:
    """Return the parameters of `TEXT_IN_NAME`."""
    escaped = plain(text).replace("!", "!!").replace("%", "!%").replace("_", "!_")
    return {"exact": plain(text), "part": f"%{escaped}%", "lower_part": f"%{escaped.lower()}%"}
