"""One real store, and a connection to it per server that is slow, fails before or after the effect, or is cut.

A request of a server may take effect although the server has died. The auditor sees every effect.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine
from functools import cache
from typing import TYPE_CHECKING, Any
from unittest import mock

from tests.simulation.loop import Micros
from tests.simulation.node import Node
from tests.simulation.weather import MS, S
from timeball.domain.errors import Unavailable
from timeball.stores.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from tests.simulation.world import World


def at_once(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    coroutine.close()
    raise AssertionError("the inline store waited for something")


def open_migrated(store: SqliteStore) -> None:
    """Open a store in memory that has its schema and its prepared statements already: making these takes longer than
    many a world lasts.
    """
    with mock.patch("sqlite3.connect", return_value=_reopened()):
        at_once(store.open())


class _Kept(sqlite3.Connection):
    """A connection that is used again in the next world."""

    def close(self) -> None:
        pass


_connect = sqlite3.connect


def _reopened() -> sqlite3.Connection:
    """Return the connection, reset to its state directly after the migration."""
    connection, tables, rows = _kept()
    if connection.in_transaction:
        connection.rollback()
    for table in tables:
        connection.execute(f"DELETE FROM {table}")
    for table, row in rows:
        connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
    return connection


@cache
def _kept() -> tuple[sqlite3.Connection, list[str], list[tuple[str, tuple[Any, ...]]]]:
    """Return the connection, its tables, and the rows that these have directly after the migration."""
    made: list[sqlite3.Connection] = []

    def connect(name: str, **options: Any) -> sqlite3.Connection:
        made.append(_connect(name, factory=_Kept, **options))
        return made[0]

    with mock.patch("sqlite3.connect", connect):
        at_once(SqliteStore(":memory:", wall=lambda: 0, monotonic=lambda: 0, inline=True).open())
    tables = [name for (name,) in made[0].execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    return made[0], tables, [(table, row) for table in tables for row in made[0].execute(f"SELECT * FROM {table}")]


class Connection:
    """Implements `ports.store.store.Store` as one server sees it."""

    def __init__(self, world: World, node: Node) -> None:
        self._world = world
        self._node = node
        self._lag: Micros = world.rng.choice((0, 0, world.rng.randrange(2 * MS), world.rng.randrange(30 * MS)))
        self._hear: Callable[[str], None] | None = None
        self.cut_until: Micros = 0

    def now(self) -> Micros:
        """Return a lower bound of the store's time, as a store on another machine would."""
        return self._world.seen_time(self._node) - self._lag

    def verdicts_until(self) -> Micros:
        return self._world.store.verdicts_until()

    def planning_held(self) -> bool:
        return self._world.store.planning_held()

    def listen(self, hint: Callable[[str], None]) -> None:
        self._hear = hint

    def hear(self, topic: str) -> None:
        if self._hear is not None:
            self._node.call(self._hear, topic)

    def wake_all(self, topic: str) -> None:
        self._world.wake_all(self._node, topic)

    async def count_usage(self, *args: Any) -> bool:
        return await self._world.counting.count(*args)

    async def usage_counted_until(self) -> Micros:
        return await self._world.store.usage_counted_until()

    def listen_to_servers(self, listener: Callable[[str | None], None]) -> None:
        """No client listens to events in the simulator."""

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def call(*args: Any, **named: Any) -> Any:
            return await self._call(name, args, named)

        setattr(self, name, call)
        return call

    async def _call(self, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        world = self._world
        weather, rng, damage = world.weather, world.rng, world.damage
        answer: asyncio.Future[Any] = world.loop.create_future()
        there = int(weather.store_delay * (0.2 + rng.random()))
        back = int(weather.store_delay * rng.random())
        before = after = False
        if weather.slow_store and rng.random() < weather.slow_store:
            damage.count("slow store call")
            there += int(rng.random() ** 3 * 3 * S)
            back += int(rng.random() ** 3 * 3 * S)
        if world.loop.now < self.cut_until:
            damage.count("store call while cut off")
            before = rng.random() < 0.7
            after = not before
            there += rng.randrange(S)
        elif weather.store_fails_before and rng.random() < weather.store_fails_before:
            damage.count("store call fails before")
            before = True
        elif weather.store_fails_after and rng.random() < weather.store_fails_after:
            damage.count("store call fails after")
            after = True
        world.after(there, self._effect, name, args, named, answer, back, before, after)
        return await answer

    def _effect(
        self,
        name: str,
        args: tuple[Any, ...],
        named: dict[str, Any],
        answer: asyncio.Future[Any],
        back: Micros,
        before: bool,
        after: bool,
    ) -> None:
        world = self._world
        if before:
            world.after(back, _fail, answer, Unavailable("the store did not answer"))
            return
        if not self._node.alive and world.rng.random() < 0.5:
            return  # the server died before the request left the machine
        world.acting = self._node
        try:
            result = world.auditor.watch(name, args, named)
        except Exception as error:
            world.after(back, _fail, answer, error)
            return
        finally:
            world.acting = None
        if after:
            world.after(back, _fail, answer, Unavailable("the store's answer was lost"))
        else:
            world.after(back, _answer, answer, result)


def _answer(future: asyncio.Future[Any], result: Any) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # the task that waited may have been dropped
