"""The usage of tenants: what the store says is what a recount of all attempts says, at every moment (I23).

Maintenance adds runs to the sums after a few seconds here, and its calls fail now and then, before or after they took
effect. Random sources of their own decide that, so that the traces of all other decisions stay the same.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

from tests.simulation.records import Micros, Violation
from tests.simulation.storage import at_once
from tests.simulation.weather import S
from timeball.domain.errors import Unavailable
from timeball.domain.instant import DAY
from timeball.domain.tenant import Prices
from timeball.domain.usage import PriceList, Usage
from timeball.ports.store.paging import Page
from timeball.ports.store.tenants import UsageFilter
from timeball.server.loops import maintenance
from timeball.stores.sql.maintenance import usage as sql_usage

if TYPE_CHECKING:
    from tests.simulation.checker import Checker
    from tests.simulation.world import World

FAILS: Final = 0.1
COUNT_DELAY: Final = 8 * S
"""Longer than from the moment in which an id is made to its commit, in spite of slow calls."""
FINISHED: Final = """
SELECT h.id, h.tenant, h.finished_at, h.started_at, h.attempt_started_at FROM history h
WHERE h.fires = 1 AND NOT EXISTS (SELECT 1 FROM workflow_runs w WHERE w.id = h.id)
"""
EARLIER: Final = """
SELECT a.run_id, a.attempt, COALESCE(h.tenant, r.tenant), a.finished_at, a.started_at FROM attempts a
LEFT JOIN history h ON h.id = a.run_id LEFT JOIN runs r ON r.id = a.run_id
"""
Amounts = dict[tuple[str, Micros], tuple[int, int, int]]
"""Runs, attempts and microseconds by tenant and day."""


def soon() -> list[Any]:
    """Return patches with which runs are added to the sums soon, a few at a time."""
    return [
        mock.patch.object(sql_usage, "COUNT_DELAY", COUNT_DELAY),
        mock.patch.object(sql_usage, "MAX_PENDING", 2),
        mock.patch.object(maintenance, "USAGE_ROWS", 3),
    ]


class Counting:
    """The calls of maintenance that count usage, and the rows that were deleted after they had been counted."""

    def __init__(self, world: World, seed: int, *, fails: bool) -> None:
        self._world = world
        self._rng = Random(f"usage {seed}")
        self._fails = fails
        self._finished: dict[str, Any] = {}
        self._earlier: dict[tuple[str, int], Any] = {}

    async def count(self, *args: Any) -> bool:
        """Execute one step without a delay."""
        if self._fails and self._rng.random() < FAILS:
            raise Unavailable("the store is away")
        is_more: bool = await self._world.store.count_usage(*args)
        if self._fails and self._rng.random() < FAILS:
            raise Unavailable("the answer was lost")
        return is_more

    def remember(self) -> None:
        """Remember the rows that the next step of pruning may delete."""
        self._finished |= {row[0]: row for row in self._world.rows(FINISHED)}
        self._earlier |= {row[:2]: row for row in self._world.rows(EARLIER)}

    def check(self) -> None:
        """Compare what the store says with a recount of the rows, deleted ones included."""
        self.remember()
        expected: dict[tuple[str, Micros], Counter[str]] = {}

        def add(tenant: str, at: Micros, runs: int, began: Micros | None) -> None:
            counts = expected.setdefault((tenant, at - at % DAY), Counter())
            counts["runs"] += runs
            if began is not None:
                counts["attempts"] += 1
                counts["micros"] += at - began

        for _, tenant, ended_at, started_at, began in self._finished.values():
            add(tenant, ended_at, int(started_at is not None), began)
        for _, _, tenant, ended_at, began in self._earlier.values():
            add(tenant, ended_at, 0, began)
        recount: Amounts = {key: (some["runs"], some["attempts"], some["micros"]) for key, some in expected.items()}
        said: Amounts = {}
        for each in self._usage():
            assert each.tenant is not None
            assert each.day is not None
            some = each.amounts
            said[each.tenant, each.day] = some.runs, some.attempts, some.micros
        nothing = 0, 0, 0
        for key in recount.keys() | said.keys():
            if said.get(key, nothing) != recount.get(key, nothing):
                raise Violation("I23", f"usage of {key}: {said.get(key)}, but a recount says {recount.get(key)}")

    def _usage(self) -> list[Usage]:
        tenants = {tenant for (tenant,) in self._world.rows("SELECT DISTINCT tenant FROM jobs")}
        tenants |= {tenant for (tenant,) in self._world.rows("SELECT DISTINCT tenant FROM usage_sums")}
        prices = PriceList((), Prices())
        where = UsageFilter(tenants=dict.fromkeys(tenants, prices), since=0, until=1 << 60, by=["tenant", "day"])
        page: Page[Usage] = at_once(self._world.store.usage(where, None, 1_000))
        assert page.next_cursor is None
        return page.items


def _recounted(checker: Checker) -> None:
    """I23: what the store says about usage is what all attempts used."""
    checker.world.counting.check()


PROMISES: Final = (_recounted,)
