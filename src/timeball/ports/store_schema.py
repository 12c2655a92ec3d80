"""The schema of a store, compared with the one that this version knows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaState:
    found: int
    """The schema of the database; 0 if it has no tables of Timeball yet."""
    newest: int
    """The newest schema that this version knows."""
    oldest: int
    """The oldest schema whose servers can work on the database."""
    missing: tuple[str, ...]
    """The names of the migrations that are not applied yet."""

    @property
    def is_too_new(self) -> bool:
        """True if this version cannot work on the database."""
        return self.found > self.newest and self.oldest > self.newest
