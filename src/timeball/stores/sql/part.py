"""The base class of the parts of the store."""

from __future__ import annotations

from copy import copy
from typing import Self

from timeball.domain.dispatch.fair_share import FairShares
from timeball.domain.dispatch.priority import CREDIT
from timeball.domain.instant import Micros
from timeball.domain.quota import KnownQuotas
from timeball.stores.sql.driver import Driver
from timeball.stores.sql.pool_queues import PoolQueues


class StorePart:
    """A part of the store's operations. All parts share one driver."""

    def __init__(self, driver: Driver, credit: Micros = CREDIT) -> None:
        self._db = driver
        self._credit = credit
        """Microseconds of waiting time that one level of priority is worth when runs are ranked."""
        self._sharing = FairShares()
        """How tenants share the workers. `share_workers` sets their shares."""
        self._pool_queues = PoolQueues()
        """The queues of slot pools that new runs join."""
        self._quotas = KnownQuotas()
        """The quotas of the tenants. `enforce_quotas` sets them."""

    def with_driver(self, driver: Driver) -> Self:
        """Return the same store with another driver."""
        twin = copy(self)
        vars(twin)["_db"] = driver
        return twin
