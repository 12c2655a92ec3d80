"""What every part of the store starts from."""

from __future__ import annotations

from timeball.stores.sql.driver import Driver


class Part:
    """A share of the store's operations, all on the same driver."""

    def __init__(self, driver: Driver) -> None:
        self._db = driver
