"""Settles plain successes: attempts that succeeded, and whose end affects no other run.

Their runs move to the history with one statement, because no rule has to be evaluated for them. Most attempts are plain
successes. The module `settling` settles all other attempts, and also those for which the statement finds that a
condition does not hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from msgspec import UNSET

from timeball.domain.instant import MAX
from timeball.domain.run.ledger import TOLERANCE
from timeball.domain.run.lifecycle import Succeeded
from timeball.domain.run.status import Status
from timeball.ports.store.runs import Settled, Settlement
from timeball.stores.sql.changes import record_successes
from timeball.stores.sql.driver import Row, Tx, Work
from timeball.stores.sql.rows.values import bounded, plain
from timeball.stores.sql.runs.gates import FailingHosts, failing_hosts
from timeball.stores.sql.schema.runs import OFFLOADED_SIZES, OffloadedSizeRow
from timeball.stores.sql.schema.table import as_tuple
from timeball.stores.sql.statements import piecemeal, planned_once, query
from timeball.stores.sql.tenants.stored_bytes import Results

RECORD_SUCCESSES = planned_once(piecemeal(query("record_successes", session_column="", session=":session")))
"""The statement for attempts of one session, the usual case: its id is sent once, not with every row."""
RECORD_SUCCESSES_OF_SESSIONS = planned_once(
    piecemeal(query("record_successes", session_column=", session text", session="b.session"))
)
DELETE_RUNS = planned_once(query("delete_runs"))
_RUN_ID = attrgetter("run_id")


class NotPlain(Exception):
    """Raised when attempts cannot be settled as plain successes: one is reported twice, is not held by its session any
    more, or is to be cancelled, or its end affects another run."""


class CalledFailingHosts(Exception):
    """Raised when attempts called a host with recent failures: their success changes its circuit breaker. The other
    attempts are still plain successes."""

    def __init__(self, hosts: FailingHosts) -> None:
        self.hosts = hosts


def is_unconstrained(settlement: Settlement) -> bool:
    """True if the report of the worker allows a plain success. Conditions that only the store knows are checked by the
    statement.
    """
    return (
        type(settlement.outcome) is Succeeded
        and settlement.started_at is not None
        and not settlement.serial
        and settlement.turn is None
    )


def settling(settlements: Sequence[Settlement], *, results: Results) -> Work[list[Settled]]:
    """Return a transaction that settles all of these attempts as plain successes. It raises `NotPlain` or
    `CalledFailingHosts` if one of them is not, or `OutOfSpace`; then the transaction must be rolled back.
    """
    # Sorted by id, because every transaction locks runs in this order.
    ordered = sorted(settlements, key=_RUN_ID)
    sessions = {each.session for each in settlements}
    if len(sessions) == 1:
        ended, record = [*map(_ended, ordered)], RECORD_SUCCESSES
        same = {"tolerance": TOLERANCE, "session": sessions.pop()}
    else:
        ended = [(*_ended(each), each.session) for each in ordered]
        record, same = RECORD_SUCCESSES_OF_SESSIONS, {"tolerance": TOLERANCE}
    ids = [*map(_RUN_ID, ordered)]
    settled = [Settled(each.run_id, Status.SUCCEEDED) for each in settlements]
    called = {each.host for each in settlements if each.host is not None}
    repeats = len(set(ids)) < len(ids)
    sizes = [_offloaded_size(each) for each in ordered if each.offloaded]

    async def work(tx: Tx) -> list[Settled]:
        if repeats:
            raise NotPlain
        if called and any(map((failing := await failing_hosts(tx)).may_include, called)):
            raise CalledFailingHosts(failing)
        if await tx.execute(record, b=ended, **same) < len(ended):
            raise NotPlain
        await tx.execute(DELETE_RUNS, b=ids)
        if sizes:
            await tx.insert_missing(OFFLOADED_SIZES, sizes)
        await results.count(tx, settlements)
        record_successes(tx, settlements)
        return settled

    return work


def _offloaded_size(settlement: Settlement) -> Row:
    """Return the row for a result that is an object in the object storage."""
    return as_tuple(OffloadedSizeRow(settlement.run_id, settlement.attempt, "result", settlement.offloaded))


def _ended(settlement: Settlement) -> Row:
    outcome = settlement.outcome
    assert isinstance(outcome, Succeeded)
    result = None if outcome.result is UNSET else plain(bytes(outcome.result).decode("utf-8", "replace"))
    return (
        settlement.run_id,
        settlement.attempt,
        settlement.token,
        bounded(settlement.started_at),
        min(settlement.finished_at, MAX),
        result,
    )
