"""Runs that wait for time to pass: gates that open, and start deadlines that expire."""

from __future__ import annotations

from typing import Final

from timeball.domain.instant import DAY, MINUTE, Micros
from timeball.domain.run.lifecycle import State
from timeball.domain.run.status import Status
from timeball.stores.sql.driver import Tx, scalar
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.rows.runs import ended
from timeball.stores.sql.runs import gates, ordering_keys, settling
from timeball.stores.sql.runs.runs import lock_runs
from timeball.stores.sql.statements import query

NOW = query("now")
NEXT_LOOK_AT = query("next_look_at")
TOO_LATE = query("too_late")
NEXT_EXPIRY = query("next_expiry")
FORGET_GATES = query("forget_gates")
FORGET_TURNS = query("forget_turns")
FORGET_PROFILES = query("forget_profiles")
FORGET_PREEMPTIONS = query("forget_preemptions")
FORGET_PLANNING_FAILURES = query("forget_planning_failures")

EXPIRED: Final = "it did not start within its start deadline"


class Deadlines(StorePart):
    async def open_gates(self, limit: int) -> int:
        async def work(tx: Tx) -> int:
            ((now,),) = await tx.fetch(NOW)
            return await gates.open_due(tx, now, limit)

        return await self._db.write(work)

    async def next_look_at(self) -> Micros | None:
        async def work(tx: Tx) -> Micros | None:
            at: Micros | None = scalar(await tx.fetch(NEXT_LOOK_AT))
            return at

        return await self._db.read(work)

    async def expire(self, limit: int) -> int:
        async def find(tx: Tx) -> list[str]:
            return [run_id for (run_id,) in await tx.fetch(TOO_LATE, limit=limit)]

        async def end(tx: Tx) -> int:
            runs, now = await lock_runs(tx, late)
            over = [
                run
                for run in runs
                if run.state != State.RUNNING and run.attempt == 0 and run.start_by is not None and run.start_by < now
            ]
            await settling.finish(tx, [ended(run, Status.SKIPPED, now, reason=EXPIRED) for run in over])
            serial = {run.job_id for run in over if run.serial}
            await settling.close_spans(tx, serial)
            await settling.release(tx, serial)
            await ordering_keys.release(tx, [gone for run in over if (gone := ordering_keys.gone(run)) is not None])
            return len(over)

        late = await self._db.read(find)
        return await self._db.write(end) if late else 0

    async def next_expiry(self) -> Micros | None:
        async def work(tx: Tx) -> Micros | None:
            at: Micros | None = scalar(await tx.fetch(NEXT_EXPIRY))
            return at

        return await self._db.read(work)

    async def forget_unused(self, limit: int) -> None:
        async def work(tx: Tx) -> None:
            await tx.execute(FORGET_GATES, limit=limit, lately=10 * MINUTE)
            await tx.execute(FORGET_TURNS, limit=limit)
            await tx.execute(FORGET_PROFILES, limit=limit, long=DAY)
            await tx.execute(FORGET_PREEMPTIONS, long=90 * DAY)
            await tx.execute(FORGET_PLANNING_FAILURES, limit=limit)

        await self._db.write(work)
