"""Gates: limits that runs share. Before a claim, a run passes all its gates or waits at one of them.

A concurrency limit has no stored permits: the running runs with its key are counted, so a permit cannot remain taken
after its run has ended. The tokens of a rate limit are stored as one instant in the row of the gate. The row of a host
is its circuit breaker.

Every check or change of a gate is made under the lock on its row. That lock is taken last: a transaction that ends runs
takes it after the locks on jobs, ordering keys and runs; a claim skips gates that are locked. A transaction that holds
a gate skips runs that are locked, and waits only for further gates, in the order of their keys, and for rows of
`profiles`, which a claim may write. PostgreSQL breaks a deadlock that results, and the driver repeats the transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import starmap
from typing import Final

import msgspec
from msgspec import Struct

from timeball.domain.dispatch.limits import Concurrency, RateLimit, TokenBucket
from timeball.domain.instant import MILLISECOND, SECOND, Micros
from timeball.domain.run import circuit_breaker
from timeball.domain.run.circuit_breaker import Circuit
from timeball.stores.sql.changes import record_holds
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.rows.values import plain
from timeball.stores.sql.schema.runs import GateRow
from timeball.stores.sql.schema.table import as_tuple
from timeball.stores.sql.statements import query

FAILING_HOSTS = query("failing_hosts")
GATES_THAT_EXIST = query("gates_that_exist")
TAKE_GATES = query("take_gates")
NEW_GATES = query("new_gates")
LOCK_GATES = query("lock_gates")
GATES_TO_OPEN = query("gates_to_open")
GATES_PROBED_BY = query("gates_probed_by")
WRITE_GATES = query("write_gates")
PERMITS = query("permits")
PARK = query("park")
FIRST_AT_GATE = query("first_at_gate")
QUEUE_AT_GATE = query("queue_at_gate")
LET_THROUGH = query("let_through")

SOON: Final = 20 * MILLISECOND
"""Microseconds until the next check of a gate whose first run is locked by another transaction, or which gets a token
soon."""
LATELY: Final = SECOND
"""If a run that passed a gate is not claimed within this time, in microseconds, the next run may pass in its place."""
MAX_AT_ONCE: Final = 500
"""Maximum number of runs that pass a gate in one transaction: thousands may wait for a host that recovered."""

MAX_FAILING_HOSTS = 200
"""Maximum number of hosts with recent failures that are listed. If there are more, the circuit breaker of every host is
checked."""

GateKey = tuple[str, str]
"""Tenant and name of a gate."""


class FailingHosts(Struct, frozen=True):
    """The hosts whose last call failed. Only runs that call one of them must check its circuit breaker."""

    keys: frozenset[GateKey] = frozenset()
    complete: bool = True
    """False if there are more such hosts than `keys` lists."""

    def includes(self, tenant: str, host: str) -> bool:
        return not self.complete or (tenant, host_gate(host)) in self.keys

    def may_include(self, host: str) -> bool:
        """True if the last call of some tenant to this host failed, and for every host if the list is not complete."""
        return not self.complete or any(gate == host_gate(host) for _, gate in self.keys)


NO_HOSTS: Final = FailingHosts()


async def failing_hosts(tx: Tx) -> FailingHosts:
    keys = [(tenant, gate) for tenant, gate in await tx.fetch_unlocked(FAILING_HOSTS, limit=MAX_FAILING_HOSTS + 1)]
    return FailingHosts(frozenset(keys), len(keys) <= MAX_FAILING_HOSTS)


class Gates(Struct, frozen=True):
    """The gates that a run must pass."""

    tenant: str
    concurrency: Concurrency | None = None
    rate: RateLimit | None = None
    host: str | None = None

    @property
    def permit(self) -> str | None:
        return None if self.concurrency is None else limit_gate(self.concurrency.key)

    @property
    def keys(self) -> list[GateKey]:
        names = [
            self.permit,
            None if self.rate is None else rate_gate(self.rate.key),
            None if self.host is None else host_gate(self.host),
        ]
        return [(self.tenant, name) for name in names if name is not None]


def limit_gate(key: str) -> str:
    return f"limit:{plain(key)}"


def rate_gate(key: str) -> str:
    return f"rate:{plain(key)}"


def host_gate(host: str) -> str:
    return f"host:{plain(host)}"


class GateBatch:
    """The gates of the candidates of one claim, except those that another transaction has locked."""

    def __init__(self, rows: Mapping[GateKey, GateRow], permits: Mapping[GateKey, int], latest: Micros) -> None:
        self._rows = dict(rows)
        self._latest = latest
        self._permits = dict(permits)
        self._changed: set[GateKey] = set()
        self.parked: list[tuple[str, str, int]] = []

    @classmethod
    async def take(cls, tx: Tx, wanted: Iterable[Gates], latest: Micros) -> GateBatch:
        """Lock the gates, except those that another transaction has locked. `latest` is the latest instant for which a
        rate limit may have given a token."""
        keys = sorted({key for gates in wanted for key in gates.keys})
        if not keys:
            return cls({}, {}, latest)
        # Insert missing gates first: an insert may wait for another transaction, which must not wait for a gate locked
        # here.
        known = {(tenant, gate) for tenant, gate in await tx.fetch(GATES_THAT_EXIST, b=keys)}
        if missing := [key for key in keys if key not in known]:
            await tx.execute(NEW_GATES, b=missing)
        rows = _by_key(await tx.fetch(TAKE_GATES, b=keys))
        limits = [(tenant, gate) for tenant, gate in rows if gate.startswith("limit:")]
        counted = await tx.fetch(PERMITS, b=limits) if limits else []
        return cls(rows, {(tenant, gate): count for tenant, gate, count in counted}, latest)

    def knows(self, gates: Gates) -> bool:
        """True if all gates of a run are locked here; False if another transaction has locked one of them."""
        return all(key in self._rows for key in gates.keys)

    def closed(self, gates: Gates, at: Micros) -> str | None:
        """Return the gate that blocks a run at an instant; None if the run may pass."""
        if gates.concurrency is not None:
            gate = limit_gate(gates.concurrency.key)
            key = (gates.tenant, gate)
            self._remember(key, capacity=max(gates.concurrency.limit, self._rows[key].capacity))
            if self._permits[key] >= gates.concurrency.limit:
                return gate
        if gates.host is not None:
            gate = host_gate(gates.host)
            if not circuit_breaker.lets_through(_circuit(self._rows[gates.tenant, gate]), at):
                return gate
        if gates.rate is not None:
            gate = rate_gate(gates.rate.key)
            key = (gates.tenant, gate)
            bucket = gates.rate.bucket(self._rows[key].spent_until, self._latest)
            self._remember(key, capacity=bucket.burst, pace=bucket.pace, spent_until=bucket.spent_until)
            if bucket.token_at > at:
                return gate
        return None

    def pass_through(self, run_id: str, gates: Gates, at: Micros) -> None:
        """Take a permit, a token and the host probe that a run needs. All its gates are open."""
        if gates.concurrency is not None:
            self._permits[gates.tenant, limit_gate(gates.concurrency.key)] += 1
        if gates.host is not None:
            key = (gates.tenant, host_gate(gates.host))
            if self._rows[key].open_until is not None:
                self._remember(key, probe=run_id)
        if gates.rate is not None:
            key = (gates.tenant, rate_gate(gates.rate.key))
            bucket = gates.rate.bucket(self._rows[key].spent_until, self._latest)
            self._remember(key, spent_until=bucket.take(at).spent_until)

    def park(self, run_id: str, gates: Gates, gate: str, rank: int) -> None:
        """Make a run wait at a gate."""
        row = self._rows[gates.tenant, gate]
        self.parked.append((run_id, gate, rank))
        if (opens_at := _opens_at(row)) is not None:
            look_at = opens_at if row.look_at is None else min(row.look_at, opens_at)
            self._remember((gates.tenant, gate), look_at=look_at)

    def _remember(self, key: GateKey, **changes: int | str) -> None:
        row = msgspec.structs.replace(self._rows[key], **changes)
        if row != self._rows[key]:
            self._rows[key] = row
            self._changed.add(key)

    async def write(self, tx: Tx) -> None:
        if self.parked:
            record_holds(tx, await tx.fetch(PARK, b=self.parked))
        await _write(tx, [self._rows[key] for key in sorted(self._changed)])


async def settle(
    tx: Tx, freed: Iterable[GateKey], answers: Sequence[GateAnswer], probing: Sequence[str], now: Micros
) -> None:
    """Update gates after runs ended: permits became free, and calls to hosts succeeded or failed. Waiting runs pass
    where there is room now. `probing` are runs that ended without an answer from a host; one of them may have been the
    probe of a host."""
    abandoned = [(tenant, gate) for tenant, gate in await tx.fetch(GATES_PROBED_BY, b=probing)] if probing else []
    called = {(each.tenant, host_gate(each.host)) for each in answers}
    keys = sorted({*freed, *called, *abandoned})
    if not keys:
        return
    rows = _by_key(await tx.fetch(LOCK_GATES, b=keys))
    before = dict(rows)
    for each in answers:
        key = (each.tenant, host_gate(each.host))
        known = _circuit(rows[key])
        rows[key] = _with(
            rows[key],
            circuit_breaker.failed(known, each.run_id, now) if each.some_failing else circuit_breaker.succeeded(),
        )
        if each.some_failing:
            rows[key] = msgspec.structs.replace(rows[key], failed_at=now)
    for key in abandoned:
        rows[key] = _with(rows[key], circuit_breaker.abandoned(_circuit(rows[key])))
    for key in keys:
        if key not in called or before[key].open_until is not None:
            rows[key] = await _let_through(tx, rows[key], now)
    await _write(tx, [row for key, row in rows.items() if row != before[key]])


class GateAnswer(Struct, frozen=True):
    """The result of a call to a host."""

    tenant: str
    host: str
    run_id: str
    some_failing: bool


async def open_due(tx: Tx, now: Micros, limit: int) -> int:
    """Let runs pass the gates whose check time has come, at most `limit` gates. Return the number of these gates."""
    rows = list(starmap(GateRow, await tx.fetch(GATES_TO_OPEN, limit=limit)))
    await _write(tx, [await _let_through(tx, row, now) for row in rows])
    return len(rows)


async def _let_through(tx: Tx, row: GateRow, now: Micros) -> GateRow:
    """Let as many runs pass a gate as it has room for, less those that passed it within `LATELY` and are not claimed
    yet. Return the gate with its next check time."""
    ((waits, unclaimed),) = await tx.fetch(QUEUE_AT_GATE, tenant=row.tenant, gate=row.gate, lately=LATELY)
    if not waits:
        return msgspec.structs.replace(row, look_at=None)
    room = min(await _room(tx, row, now), MAX_AT_ONCE)
    wanted = max(0, room - int(unclaimed))
    first: list[str] = []
    if wanted:
        found = await tx.fetch(FIRST_AT_GATE, tenant=row.tenant, gate=row.gate, limit=wanted)
        first = [run_id for (run_id,) in found]
    if first:
        record_holds(tx, await tx.fetch(LET_THROUGH, b=sorted(first)))
    look_at: Micros | None
    if room and len(first) == wanted:
        # Check again: a run that passed the gate is not claimed if it was cancelled, or if another rule delays it.
        look_at = now + (SOON if row.open_until is None and _kind(row) != "limit" else LATELY)
    elif room:
        look_at = now + SOON  # no run is left, or another transaction has locked them
    else:
        opens_at = _opens_at(row)
        look_at = None if opens_at is None else max(opens_at, now + SOON)
    return msgspec.structs.replace(row, look_at=look_at)


async def _room(tx: Tx, row: GateRow, now: Micros) -> int:
    """Return how many more runs may pass the gate. A run that passes takes no permit and no token; its claim takes
    them."""
    match _kind(row):
        case "limit":
            ((_, _, taken),) = await tx.fetch(PERMITS, b=[(row.tenant, row.gate)])
            # A gate that was deleted and created again has no capacity yet; the next claim sets it.
            return max(0, row.capacity - int(taken)) if row.capacity else 1
        case "rate":
            return TokenBucket(max(1, row.capacity), max(1, row.pace), row.spent_until).tokens(now)
        case _:
            if row.open_until is None:
                return MAX_AT_ONCE
            return 1 if circuit_breaker.lets_through(_circuit(row), now) else 0


def _opens_at(row: GateRow) -> Micros | None:
    """Return when a closed gate opens by itself; None if it opens when a run that passed it ends."""
    match _kind(row):
        case "rate":
            return TokenBucket(max(1, row.capacity), max(1, row.pace), row.spent_until).token_at
        case "host":
            return row.open_until if row.probe is None else None
        case _:
            return None


def _by_key(rows: Iterable[Row]) -> dict[GateKey, GateRow]:
    return {(gate.tenant, gate.gate): gate for gate in starmap(GateRow, rows)}


def _kind(row: GateRow) -> str:
    kind, _, _ = row.gate.partition(":")
    return kind


def _circuit(row: GateRow) -> Circuit:
    return Circuit(row.failures, row.open_until, row.rests, row.probe)


def _with(row: GateRow, known: Circuit) -> GateRow:
    return msgspec.structs.replace(
        row, failures=known.failures, open_until=known.open_until, rests=known.rests, probe=known.probe
    )


async def _write(tx: Tx, rows: Sequence[GateRow]) -> None:
    if rows:
        await tx.execute(WRITE_GATES, b=[as_tuple(row) for row in rows])
