"""Execution: claims, ends of attempts, cancelling, and what held attempts say of themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice, repeat, zip_longest

from timeball.domain.instant import Micros
from timeball.domain.lifecycle import State, Status
from timeball.domain.priority import CREDIT, LEVELS, rank
from timeball.ports.dispatch import LogChunk, Progress, Started
from timeball.ports.store import Cancelling, Claim, Claimed, Settled, Settlement, Want, Wanted
from timeball.stores.sql import settling
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.library import query, text
from timeball.stores.sql.part import Part
from timeball.stores.sql.rows import bounded, ended, fits, plain
from timeball.stores.sql.tables import LOGS, LogRow, RunRow, as_tuple


def _per_level(name: str) -> str:
    return "\n  UNION ALL ".join(text(name).replace("{level}", str(level)) for level in LEVELS)


LEASED_SESSIONS = query("leased_sessions")
CLAIMABLE = query("claimable", levels=_per_level("claimable_level"), credit=str(CREDIT))
CLAIM = query("claim")
NEXT_ELIGIBLE_AT = query("next_eligible_at", levels=_per_level("next_of_level"))
LOCK_HOLDERS = query("lock_holders")
NOTE_STARTS = query("note_starts")
NOTE_PROGRESS = query("note_progress")
SERIAL_JOBS_OF = query("serial_jobs_of")
LOCK_RUNS = query("lock_runs")
RUN_STATUSES = query("run_statuses")
ASK_TO_CANCEL = query("ask_to_cancel")
HOLDING = query("holding")
CANCEL_ORDERS = query("cancel_orders")
HURRY = query("hurry")

MOST_CLAIMS = 5_000
"""Runs one claim hands out at most, whatever capacity the workers say they have."""


class Runs(Part):
    async def claim(self, wants: Sequence[Want], ahead: Micros) -> Claimed:
        async def work(tx: Tx) -> Claimed:
            leased: dict[str, str] = dict(await tx.fetch(LEASED_SESSIONS, b=[want.session for want in wants]))
            slots = _interleaved([want for want in wants if want.session in leased])
            rows = await tx.fetch(CLAIMABLE, ahead=ahead, free=len(slots)) if slots else []
            if not rows:
                return Claimed([], before)
            now: Micros = rows[0][7]
            rows.sort(key=lambda row: (row[4] > now, rank(row[4], row[6]), row[3], row[0]))
            handed = list(zip(rows, await tx.tokens(len(rows)), slots, strict=False))
            await tx.execute(CLAIM, b=[_handed(*each, leased) for each in handed], at=now)
            return Claimed([_claim(*each) for each in handed], now)

        before = self._db.now()
        wants = [want for want in wants if want.slots > 0]
        return await self._db.write(work) if wants else Claimed([], before)

    async def next_eligible_at(self) -> Micros | None:
        async def work(tx: Tx) -> Micros | None:
            earliest: Micros | None = (await tx.fetch(NEXT_ELIGIBLE_AT))[0][0]
            return earliest

        return await self._db.read(work)

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled | None]:
        async def work(tx: Tx) -> list[Settled | None]:
            return await settling.settle(tx, settlements)

        return await self._db.write(work) if settlements else []

    async def note(
        self, session: str, started: Sequence[tuple[Started, Micros]], progress: Sequence[Progress]
    ) -> list[int]:
        said = dict.fromkeys([(start.run_id, start.token) for start, _ in started])
        said |= dict.fromkeys([(step.run_id, step.token) for step in progress])

        async def work(tx: Tx) -> list[int]:
            rows = await tx.fetch(LOCK_HOLDERS, b=[run_id for run_id, _ in said])
            held = {(run_id, token) for run_id, _, token, holder in rows if holder == session}
            starts = {start.run_id: bounded(at) for start, at in started if (start.run_id, start.token) in held}
            steps = {
                step.run_id: (step.run_id, step.fraction, plain(step.note))
                for step in progress
                if (step.run_id, step.token) in held
            }
            if starts:
                await tx.execute(NOTE_STARTS, b=list(starts.items()))
            if steps:
                await tx.execute(NOTE_PROGRESS, b=list(steps.values()))
            return [token for run_id, token in said if (run_id, token) not in held]

        return await self._db.write(work) if said else []

    async def append_logs(self, chunks: Sequence[LogChunk], now: Micros) -> list[int]:
        said = dict.fromkeys((each.run_id, each.attempt, each.token) for each in chunks)

        async def work(tx: Tx) -> list[int]:
            rows = await tx.fetch(LOCK_HOLDERS, b=[run_id for run_id, _, _ in said])
            held = {(run_id, attempt, token) for run_id, attempt, token, _ in rows}
            kept = [
                as_tuple(LogRow(each.run_id, each.attempt, each.seq, plain(each.stream), now, plain(each.text)))
                for each in chunks
                if (each.run_id, each.attempt, each.token) in held and fits(each.seq)
            ]
            if kept:
                await tx.insert(LOGS, kept, ignore=True)
            return list(dict.fromkeys(key[2] for key in said if key not in held))

        return await self._db.write(work) if chunks else []

    async def request_cancel(self, run_ids: Sequence[str]) -> list[Cancelling | None]:
        ids = list(dict.fromkeys(run_ids))

        async def work(tx: Tx) -> list[Cancelling | None]:
            locked = {job_id for (job_id,) in await tx.fetch(SERIAL_JOBS_OF, b=ids)}
            await settling.lock_jobs(tx, locked)
            rows = await tx.fetch(LOCK_RUNS, b=ids)
            runs = [RunRow(*row[:-1]) for row in rows]
            await settling.lock_jobs(tx, {run.job_id for run in runs if run.serial} - locked)
            found = await cancel(tx, runs, rows[0][-1] if rows else 0)
            if missing := [run_id for run_id in ids if run_id not in found]:
                for run_id, status in await tx.fetch(RUN_STATUSES, b=missing):
                    found[run_id] = Cancelling(run_id, Status(status))
            return [found.get(run_id) for run_id in run_ids]

        return await self._db.write(work) if ids else []

    async def holding(self, session: str) -> dict[int, Wanted]:
        async def work(tx: Tx) -> dict[int, Wanted]:
            rows = await tx.fetch(HOLDING, session=session)
            return {token: _wanted(asked, kill) for token, asked, kill in rows}

        return await self._db.read(work)

    async def cancel_orders(self) -> list[tuple[str, int, bool]]:
        async def work(tx: Tx) -> list[tuple[str, int, bool]]:
            return [(session, token, bool(kill)) for session, token, kill in await tx.fetch(CANCEL_ORDERS)]

        return await self._db.read(work)

    async def hurry(self, run_id: str) -> bool:
        async def work(tx: Tx) -> bool:
            return bool(await tx.fetch(HURRY, id=run_id))

        return await self._db.write(work)


async def cancel(tx: Tx, runs: Sequence[RunRow], now: Micros) -> dict[str, Cancelling]:
    """End waiting runs, ask the holders of running ones. The runs are locked, and the jobs of serial ones."""
    found: dict[str, Cancelling] = {}
    over: list[Row] = []
    for run in runs:
        if run.state == State.RUNNING:
            started = run.attempt_started_at is not None
            found[run.id] = Cancelling(run.id, Status.RUNNING, run.token, started)
        else:
            over.append(ended(run, Status.CANCELLED, now))
            found[run.id] = Cancelling(run.id, Status.CANCELLED)
    if asked := [run_id for run_id, each in found.items() if each.status is Status.RUNNING]:
        await tx.execute(ASK_TO_CANCEL, b=asked)
    await settling.finish(tx, over)
    serial = {run.job_id for run in runs if run.serial and run.state != State.RUNNING}
    await settling.close_spans(tx, serial)
    await settling.release(tx, serial)
    return found


def _wanted(asked: Micros | None, kill: int) -> Wanted:
    if asked is None:
        return Wanted.GO_ON
    return Wanted.DIE if kill else Wanted.STOP


def _interleaved(wants: Sequence[Want]) -> list[Want]:
    """A want per free slot, taking turns, so that work is shared when there is less than capacity."""
    turns = zip_longest(*(repeat(want, want.slots) for want in wants))
    return list(islice((want for turn in turns for want in turn if want is not None), MOST_CLAIMS))


def _handed(row: Row, token: int, want: Want, names: Mapping[str, str]) -> tuple[str, int, str, str, int]:
    return row[0], token, want.session, names[want.session], want.poll


def _claim(row: Row, token: int, want: Want) -> Claim:
    run_id, job_id, attempt, fire_time, eligible_at, serial, _, _, spec, task = row
    return Claim(
        session=want.session,
        poll=want.poll,
        run_id=run_id,
        job_id=job_id,
        attempt=attempt + 1,
        token=token,
        fire_time=fire_time,
        eligible_at=eligible_at,
        serial=bool(serial),
        spec=spec.encode(),
        task=None if task is None else task.encode(),
    )
