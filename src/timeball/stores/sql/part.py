"""The base class of the parts of the store."""

from __future__ import annotations

from timeball.domain.dispatch.priority import CREDIT
from timeball.domain.instant import Micros
from timeball.stores.sql.driver import Driver


class StorePart:
    """A part of the store's operations. All parts share one driver."""

    def __init__(self, driver: Driver, credit: Micros = CREDIT) -> None:
        self._db = driver
        self._credit = credit
        """Microseconds of waiting time that one level of priority is worth when runs are ranked."""
