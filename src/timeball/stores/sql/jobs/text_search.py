"""The search for jobs whose name contains a text, without regard to case."""

from __future__ import annotations

from typing import Final

from timeball.stores.sql.rows.values import plain

TEXT_IN_NAME: Final = "(j.id = :exact OR j.name LIKE :part ESCAPE '!' OR lower(j.name) LIKE :lower_part ESCAPE '!')"
"""The SQL condition on a job `j`: its name contains the text, or its id is the text. SQLite converts only ASCII letters
to lower case, so on SQLite other letters have to be given in the case in which they are stored."""


def text_parameters(text: str) -> dict[str, str]:
    """Return the parameters of `TEXT_IN_NAME`."""
    escaped = plain(text).replace("!", "!!").replace("%", "!%").replace("_", "!_")
    return {"exact": plain(text), "part": f"%{escaped}%", "lower_part": f"%{escaped.lower()}%"}
