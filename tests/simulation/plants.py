"""Bugs planted on purpose, in the real code while it runs: a checker that catches nothing proves nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from msgspec import structs

from tests.simulation.storage import Connection
from tests.simulation.world import World
from timeball.domain import lifecycle, planning
from timeball.domain.overlap import Admission
from timeball.ports.dispatch import Orders
from timeball.ports.store import Accepted, Settled, Settlement
from timeball.service import desk, worker_session
from timeball.service.rescuer import EVERY, Rescuer
from timeball.stores.sql import amending, overlapping, plans, runs, settling, workers
from timeball.stores.sql.dialect import Query
from timeball.stores.sql.driver import Tx

Patches = list[Any]


@dataclass(frozen=True)
class Plant:
    """One bug: what it is, the promises it may break first, and how it is put in."""

    name: str
    breaks: frozenset[str]
    patches: Callable[[World], Patches]
    theme: str | None = None
    """Where to look for it; None: in all worlds."""
    first: int = 0
    """The first seed that caught it when this was written: tests look from there on, to be quick."""

    @contextmanager
    def planted(self, world: World) -> Iterator[None]:
        patches = self.patches(world)
        for patch in patches:
            patch.start()
        try:
            yield
        finally:
            for patch in reversed(patches):
                patch.stop()


def _text(module: Any, name: str, old: str, new: str) -> Any:
    """Replace a part of a statement."""
    query: Query = getattr(module, name)
    assert old in query.text, f"{name} has changed: plant the bug anew"
    return mock.patch.object(module, name, Query(f"{query.name}_planted", query.text.replace(old, new)))


def _no_fencing(world: World) -> Patches:
    """Whoever reports an end is believed, whatever token and attempt it had."""
    real = settling.settle
    current = Query("current_claims", "SELECT id, attempt, token FROM runs WHERE state = 'running'")

    async def settle(tx: Tx, settlements: Sequence[Settlement]) -> list[Settled | None]:
        held = {run_id: (attempt, token) for run_id, attempt, token in await tx.fetch(current)}
        believed = [
            structs.replace(item, attempt=held[item.run_id][0], token=held[item.run_id][1])
            if item.run_id in held
            else item
            for item in settlements
        ]
        return await real(tx, believed)

    return [mock.patch.object(settling, "settle", settle)]


def _unguarded_settle(world: World) -> Patches:
    """A run that has ended is ended again by the next report."""
    real = settling.settle
    status = Query("ended_status", "SELECT status FROM history WHERE id = :id")
    overwrite = Query("overwrite", "UPDATE history SET status = 'succeeded' WHERE id = :id")

    async def settle(tx: Tx, settlements: Sequence[Settlement]) -> list[Settled | None]:
        answers = await real(tx, settlements)
        for index, item in enumerate(settlements):
            succeeded = isinstance(item.outcome, lifecycle.Succeeded)
            if answers[index] is None and succeeded and await tx.fetch(status, id=item.run_id):
                await tx.execute(overwrite, id=item.run_id)
                answers[index] = Settled(item.run_id, lifecycle.Status.SUCCEEDED)
        return answers

    return [mock.patch.object(settling, "settle", settle)]


def _answer_before_commit(world: World) -> Patches:
    """Submissions are acknowledged while their commit is still to come."""
    real = Connection._call

    async def call(self: Connection, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if name != "submit":
            return await real(self, name, args, named)

        async def later() -> None:
            try:
                await real(self, name, args, named)
            except Exception:
                return

        asyncio.get_running_loop().create_task(later())
        return [Accepted(submission.job.id) for submission in args[0]]

    return [mock.patch.object(Connection, "_call", call)]


def _no_rescue(world: World) -> Patches:
    async def turn(self: Rescuer) -> int:
        return EVERY

    return [mock.patch.object(Rescuer, "turn", turn)]


def _node_clock(world: World) -> Patches:
    """Servers decide by their own wall clocks, which are up to an hour apart."""
    return [mock.patch.object(world, "node_clocks", True)]


def _lower_bounded_scan(world: World) -> Patches:
    """What fell due more than 3 s ago is not looked for."""
    return [
        _text(plans, "DUE_JOBS", "j.plan_at <= {now}", "j.plan_at <= {now} AND j.plan_at > {now} - 3000000"),
        _text(plans, "NEXT_PLAN_AT", "plan_at IS NOT NULL", "plan_at > {now} - 3000000"),
    ]


def _no_once_only_guard(world: World) -> Patches:
    guard = "AND j.version = b.version AND j.next_fire_at {same} b.next_fire_at"
    return [_text(plans, "LOCK_PLANNED", guard, "")]


def _cancel_ignored(world: World) -> Patches:
    """A cancel of a running attempt is acknowledged and forgotten."""
    return [_text(runs, "ASK_TO_CANCEL", "WHERE", "WHERE 1 = 0 AND")]


def _cancel_undelivered(world: World) -> Patches:
    """The worker never hears of a cancel."""
    real = desk.Desk.beat

    async def beat(self: desk.Desk, message: Any) -> Orders:
        return Orders(lost=(await real(self, message)).lost)

    return [
        mock.patch.object(desk.Desk, "order_cancels", return_value=None),
        mock.patch.object(desk.Desk, "beat", beat),
    ]


def _careless_give_back(world: World) -> Patches:
    """What a worker does not mention is given back, however old its message is."""
    return [_text(workers, "HELD_BY", "AND r.poll < :before", "AND :before IS NOT NULL")]


def _overlap_unseen(world: World) -> Patches:
    """Whether another run is alive is not looked at."""
    return [
        mock.patch.object(overlapping.Crowd, "admit", return_value=Admission.RUN),
        mock.patch.object(overlapping.Crowd, "empty", True),
    ]


def _early_start(world: World) -> Patches:
    """What is claimed ahead starts at once."""
    real = desk._assignment
    return [mock.patch.object(desk, "_assignment", lambda claim, now: structs.replace(real(claim, now), delay=0))]


def _edit_keeps_future_run(world: World) -> Patches:
    """An update leaves the run alone that waits for its fire time."""
    return [_text(amending, "DELETE_RUNS", "WHERE", "WHERE 1 = 0 AND")]


def _late_self_kill(world: World) -> Patches:
    """A worker that cannot renew its lease lets its jobs run on after it."""
    return [mock.patch.object(worker_session, "MARGIN", -10_000_000)]


def _endless_retries(world: World) -> Patches:
    real = lifecycle.settle

    def settle(outcome: Any, *, attempt: int, **rest: Any) -> Any:
        return real(outcome, attempt=attempt - 1, **rest)

    return [mock.patch.object(lifecycle, "settle", settle)]


def _delivered_again(world: World) -> Patches:
    """Nobody looks at how often a run may be delivered."""
    real = lifecycle.settle

    def settle(outcome: Any, *, delivery: Any, **rest: Any) -> Any:
        return real(outcome, delivery="at_least_once", **rest)

    return [mock.patch.object(lifecycle, "settle", settle)]


def _starts_forgotten(world: World) -> Patches:
    """What is handed back counts as never started."""
    return [mock.patch.object(settling, "_may_have_started", return_value=False)]


def _catch_up_everything(world: World) -> Patches:
    return [
        mock.patch.object(planning._Judge, "verdict", return_value=None),
        mock.patch.object(planning, "_long_gone", lambda upcoming, ahead, *_: (mock.Mock(count=0), upcoming, ahead)),
    ]


PLANTS: dict[str, Plant] = {
    name: Plant(name, frozenset(breaks.split()), patches, theme, first)
    for name, breaks, patches, theme, first in (
        ("no-fencing", "I6 I7 I8", _no_fencing, None, 3),
        ("answer-before-commit", "I1 I14", _answer_before_commit, None, 0),
        ("no-rescue", "I26", _no_rescue, None, 3),
        ("node-clock", "I3 I4 I7 I20 I22", _node_clock, None, 0),
        ("unguarded-settle", "I6 I13", _unguarded_settle, None, 16),
        ("lower-bounded-scan", "I20", _lower_bounded_scan, None, 2),
        ("no-once-only-guard", "I5", _no_once_only_guard, None, 0),
        ("cancel-ignored", "I10", _cancel_ignored, None, 0),
        ("cancel-undelivered", "I10", _cancel_undelivered, None, 2),
        ("careless-give-back", "I7 I12", _careless_give_back, None, 16),
        ("overlap-unseen", "I16", _overlap_unseen, None, 4),
        ("early-start", "I3", _early_start, None, 0),
        ("edit-keeps-future-run", "I5 I11", _edit_keeps_future_run, None, 0),
        ("late-self-kill", "I7", _late_self_kill, "zombies", 6),
        ("endless-retries", "I12", _endless_retries, None, 0),
        ("delivered-again", "I12", _delivered_again, None, 0),
        ("starts-forgotten", "I12", _starts_forgotten, None, 22),
        ("catch-up-everything", "I20", _catch_up_everything, None, 2),
    )
}
