"""`python -m timeball.chaos.planted BUG server …`: starts Timeball with a planted bug.

A checker is trusted only if it finds bugs that are known to exist. The bugs are in this module, not in the modules that
they break, so no setting of a production server can enable them.
"""

from __future__ import annotations

import asyncio
import contextlib
import runpy
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import structs

from timeball.domain.instant import SECOND
from timeball.domain.run.lifecycle import Succeeded
from timeball.domain.run.status import Status
from timeball.ports.store.jobs import Accepted
from timeball.ports.store.runs import Settled, Settlement
from timeball.server.loops.lease_rescuer import LeaseRescuer
from timeball.server.worker_gateway import assignments
from timeball.stores.sql.dialect import Query
from timeball.stores.sql.planning import plans
from timeball.stores.sql.store import SqlStore

FORGETFUL: Final = 50
"""With the bug `forgotten-end`, one of this many successes is not stored."""


def _early_start() -> None:
    real = assignments.assignment_of
    _replace(assignments, "assignment_of", lambda claim, now: structs.replace(real(claim, now), delay=0))


def _no_rescue() -> None:
    async def turn(self: LeaseRescuer) -> int:
        return SECOND

    _replace(LeaseRescuer, "turn", turn)


def _no_once_only_guard() -> None:
    query: Query = plans.LOCK_PLANNED
    guard = "AND j.version = b.version AND j.next_fire_at {same} b.next_fire_at"
    if guard not in query.text:
        raise AssertionError("the statement has changed: adapt the planted bug")
    _replace(plans, "LOCK_PLANNED", Query(f"{query.name}_planted", query.text.replace(guard, "")))


def _answer_before_commit() -> None:
    real = SqlStore.submit_and_claim
    under_way: set[asyncio.Task[None]] = set()

    async def later(call: Callable[[], Any]) -> None:
        await asyncio.sleep(1)
        with contextlib.suppress(Exception):
            await call()

    async def submit_and_claim(self: SqlStore, submissions: Sequence[Any], *rest: Any, **named: Any) -> Any:
        task = asyncio.create_task(later(lambda: real(self, submissions, *rest, **named)))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
        return [Accepted(submission.job.id) for submission in submissions], []

    _replace(SqlStore, "submit_and_claim", submit_and_claim)


def _forgotten_end() -> None:
    real = SqlStore.settle
    seen = 0

    async def settle(self: SqlStore, settlements: Sequence[Settlement]) -> list[Settled | None]:
        nonlocal seen
        forgotten: dict[int, Settled] = {}
        for place, item in enumerate(settlements):
            seen += isinstance(item.outcome, Succeeded)
            if isinstance(item.outcome, Succeeded) and seen % FORGETFUL == 0:
                forgotten[place] = Settled(item.run_id, Status.SUCCEEDED)
        kept = iter(await real(self, [item for place, item in enumerate(settlements) if place not in forgotten]))
        return [forgotten[place] if place in forgotten else next(kept) for place in range(len(settlements))]

    _replace(SqlStore, "settle", settle)


def _replace(owner: object, name: str, by: object) -> None:
    if not hasattr(owner, name):
        raise AssertionError(f"{owner} has no {name} any more: adapt the planted bug")
    setattr(owner, name, by)


PLANTS: Final[dict[str, Callable[[], None]]] = {
    "early-start": _early_start,
    "no-rescue": _no_rescue,
    "no-once-only-guard": _no_once_only_guard,
    "answer-before-commit": _answer_before_commit,
    "forgotten-end": _forgotten_end,
}


def main() -> None:
    PLANTS[sys.argv.pop(1)]()
    runpy.run_module("timeball", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
