"""Attempts that succeeded and whose end concerns nobody else: their runs move to the history inside the database.

They are the most by far, and nothing about them has to be judged. `settling` takes all others, and these too once
something turns out to be special about them.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET

from timeball.domain.instant import MAX
from timeball.domain.ledger import TOLERANCE
from timeball.domain.lifecycle import Status, Succeeded
from timeball.ports.store import Settled, Settlement
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.library import query
from timeball.stores.sql.rows import bounded, plain

A_HOST_IS_UNWELL = query("a_host_is_unwell")
RECORD_SUCCESSES = query("record_successes")
DELETE_RUNS = query("delete_runs")


class Special(Exception):
    """One of them is not its holder's any more, or is to be cancelled, or somebody waits for its end."""


def is_simple(settlement: Settlement) -> bool:
    """Whether it can be one of these, as far as its holder knows."""
    return (
        type(settlement.outcome) is Succeeded
        and settlement.started_at is not None
        and not settlement.serial
        and settlement.turn is None
    )


async def settle(tx: Tx, settlements: Sequence[Settlement]) -> list[Settled]:
    """All of them, or `Special`, and then nothing may be committed."""
    ended = {each.run_id: _ended(each) for each in settlements}
    if len(ended) < len(settlements) or await _concerns_a_host(tx, settlements):
        raise Special
    # By their ids: that is the order in which everybody locks runs.
    if await tx.execute(RECORD_SUCCESSES, b=[ended[run_id] for run_id in sorted(ended)], tolerance=TOLERANCE) < len(
        ended
    ):
        raise Special
    await tx.execute(DELETE_RUNS, b=list(ended))
    return [Settled(run_id, Status.SUCCEEDED) for run_id in ended]


async def _concerns_a_host(tx: Tx, settlements: Sequence[Settlement]) -> bool:
    """Whether a success may be news of a host that was unwell."""
    if all(each.host is None for each in settlements):
        return False
    ((unwell,),) = await tx.fetch(A_HOST_IS_UNWELL)
    return bool(unwell)


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
