"""What every part of the store starts from."""

from __future__ import annotations

from timeball.domain.dispatch.priority import CREDIT
from timeball.domain.instant import Micros
from timeball.stores.sql.driver import Driver


class StorePart:
    """A share of the store's operations, all on the same driver."""

    def __init__(self, driver: Driver, credit: Micros = CREDIT) -> None:
        self._db = driver
        self._credit = credit
        """What one level of priority is worth in waiting time."""
