"""Reading runs, live and finished alike.

Live rows are always read before finished ones: a run that ends between the two is then seen twice, never missed,
and told once, as finished.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from timeball.domain.errors import Invalid
from timeball.domain.instant import Micros
from timeball.domain.job import decode_spec
from timeball.domain.ledger import DUE, Verdict
from timeball.domain.lifecycle import Failure, Status
from timeball.domain.run import Attempt, Run
from timeball.ports.store import LedgerSums, LetterGroup, LetterGroups, LogLine, Match, Page, RunFilter, RunSpec
from timeball.stores.sql import conditions
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.jobs import NEWEST
from timeball.stores.sql.library import query
from timeball.stores.sql.part import Part
from timeball.stores.sql.rows import finished_run, live_run, plain, shown_as, unread
from timeball.stores.sql.tables import AttemptRow

LIVE_RUNS = query("live_runs")
FINISHED_RUNS = query("finished_runs")
LAST_STARTED = query("last_started")
ATTEMPTS_OF_RUN = query("attempts")
FIRST_ATTEMPTS = query("first_attempts")
LOGS_OF_RUN = query("logs")
LOGS_OF_ATTEMPT = query("logs_of_attempt")
SPECS_OF_RUNS = query("specs_of_runs")

MOST_GROUPED: Final = 100_000
"""Dead letters that are looked at to find what they have in common: the newest."""
_NONE: Final = "1 = 0"

_DUE = "r.origin IN (" + ", ".join(f"'{origin.value}'" for origin in sorted(DUE)) + ")"
_SINCE = f"r.job_id = :job_id AND {_DUE} AND r.fire_time < :until AND r.fire_time <= {{now}}"
_LEDGER_LIVE = f"{_SINCE} AND r.fire_time >= :since"
_LEDGER_DONE = f"""{_SINCE} AND (r.fire_time >= :since OR r.id IN (
  SELECT s.id FROM history s WHERE s.job_id = :job_id AND s.fires > 1 AND s.fire_until >= :since
))"""
_AFTER = "(r.fire_time, r.id) > (:after_time, :after_id)"
_OLDEST_FIRST = "r.fire_time, r.id"

LEDGER_LIVE = query("list_live", where=f"{_LEDGER_LIVE} AND {_AFTER}", order=_OLDEST_FIRST)
LEDGER_DONE = query("list_finished", where=f"{_LEDGER_DONE} AND {_AFTER}", order=_OLDEST_FIRST)
LEDGER_SUMS = query("ledger_sums", live=_LEDGER_LIVE, finished=_LEDGER_DONE)
LIVE_OF_JOB = query("list_live", where="r.job_id = :job_id", order=_OLDEST_FIRST)

_decode_failure = msgspec.json.Decoder(Failure).decode


class Reads(Part):
    async def runs(self, ids: Sequence[str]) -> dict[str, Run]:
        async def work(tx: Tx) -> dict[str, Run]:
            found = {row[0]: live_run(row, self._db.now()) for row in await tx.fetch(LIVE_RUNS, b=list(ids))}
            found |= {row[0]: finished_run(row) for row in await tx.fetch(FINISHED_RUNS, b=list(ids))}
            return found

        return await self._db.read(work) if ids else {}

    async def list_runs(self, where: RunFilter, cursor: str | None, limit: int) -> Page[Run]:
        bounds = {"before": cursor or NEWEST, "most": limit + 1}

        async def work(tx: Tx) -> Page[Run]:
            alive = await _listed(tx, "list_live", conditions.live(where), where, **bounds)
            done: list[Row] = []
            for condition in conditions.finished_apart(where):
                done += await _listed(tx, "list_finished", condition, where, **bounds)
            return _page(alive, done, self._db.now(), limit)

        return await self._db.read(work, slow=True)

    async def count_runs(self, where: RunFilter) -> int:
        live, finished = conditions.live(where) or _NONE, conditions.finished(where) or _NONE
        counting = conditions.statement("count_runs", live=live, finished=finished, jobs=conditions.jobs(where))

        async def work(tx: Tx) -> int:
            ((count,),) = await tx.fetch(counting, **conditions.parameters(where))
            return int(count)

        return await self._db.read(work, slow=True)

    async def match_runs(self, where: RunFilter, after: str | None, limit: int) -> list[Match]:
        bounds = {"after": after or "", "most": limit}

        async def work(tx: Tx) -> list[Match]:
            alive = await _matched(tx, "match_live", conditions.live(where), where, **bounds)
            done: list[Row] = []
            for condition in conditions.finished_apart(where):
                done += await _matched(tx, "match_finished", condition, where, **bounds)
            now = self._db.now()
            found = {row[0]: Match(row[0], row[1], shown_as(now, *row[2:])) for row in alive}
            found |= {run_id: Match(run_id, job_id, Status(status)) for run_id, job_id, status in done}
            return [found[run_id] for run_id in sorted(found)[:limit]]

        return await self._db.read(work, slow=True)

    async def specs(self, run_ids: Sequence[str]) -> dict[str, RunSpec]:
        async def work(tx: Tx) -> dict[str, RunSpec]:
            found: dict[str, RunSpec] = {}
            for run_id, edited, of_job in await tx.fetch(SPECS_OF_RUNS, b=list(run_ids)):
                try:
                    found[run_id] = RunSpec(decode_spec(of_job if edited is None else edited), edited is not None)
                except msgspec.MsgspecError as error:
                    unread(run_id, error)
            return found

        return await self._db.read(work) if run_ids else {}

    async def letter_groups(self, where: RunFilter, limit: int) -> LetterGroups:
        letters = msgspec.structs.replace(where, dead_letters=True)
        condition = conditions.finished(letters) or _NONE
        grouping = conditions.statement("letter_groups", where=condition, jobs=conditions.jobs(letters))

        async def work(tx: Tx) -> LetterGroups:
            bounds = {"counted": MOST_GROUPED + 1, "most": limit}
            rows = await tx.fetch(grouping, **conditions.parameters(letters), **bounds)
            counted = int(rows[0][-1]) if rows else 0
            return LetterGroups([_group(row) for row in rows], min(counted, MOST_GROUPED), counted > MOST_GROUPED)

        return await self._db.read(work, slow=True)

    async def current_run(self, job_id: str) -> Run | None:
        async def work(tx: Tx) -> Run | None:
            now = self._db.now()
            rows = await tx.fetch(LIVE_OF_JOB, job_id=job_id, most=1_000)
            live = [live_run(row, now) for row in rows]
            done = [finished_run(row) for row in await tx.fetch(LAST_STARTED, job_id=job_id)]
            finished = {run.id for run in done}
            started = [run for run in live if run.id not in finished and _start(run)] + done
            return max(started, key=_start, default=live[0] if live else None)

        return await self._db.read(work, slow=True)

    async def attempts(self, run_id: str) -> list[Attempt]:
        async def work(tx: Tx) -> list[Attempt]:
            return [attempt_of(row) for row in await tx.fetch(ATTEMPTS_OF_RUN, run_id=run_id)]

        return await self._db.read(work)

    async def first_attempts(self, run_ids: Sequence[str]) -> dict[str, Attempt]:
        async def work(tx: Tx) -> dict[str, Attempt]:
            return {row[0]: attempt_of(row) for row in await tx.fetch(FIRST_ATTEMPTS, b=list(run_ids))}

        return await self._db.read(work) if run_ids else {}

    async def ledger(self, job_id: str, since: Micros, until: Micros, cursor: str | None, limit: int) -> Page[Run]:
        """A span that reaches into the range is part of it as a whole."""
        after_time, after_id = _position(cursor)

        async def work(tx: Tx) -> Page[Run]:
            parameters: dict[str, Any] = {"job_id": job_id, "since": since, "until": until, "most": limit + 1}
            parameters |= {"after_time": after_time, "after_id": after_id}
            now = self._db.now()
            runs = {row[0]: live_run(row, now) for row in await tx.fetch(LEDGER_LIVE, **parameters)}
            runs |= {row[0]: finished_run(row) for row in await tx.fetch(LEDGER_DONE, **parameters)}
            ordered = sorted(runs.values(), key=lambda run: (run.fire_time, run.id))
            items = ordered[:limit]
            more = f"{items[-1].fire_time}:{items[-1].id}" if len(ordered) > limit and items else None
            return Page(items, more)

        return await self._db.read(work, slow=True)

    async def ledger_sums(self, job_id: str, since: Micros, until: Micros) -> LedgerSums:
        """A span that reaches into the range counts with all its instants."""

        async def work(tx: Tx) -> LedgerSums:
            rows = await tx.fetch(LEDGER_SUMS, job_id=job_id, since=since, until=until)
            counts = {Verdict(verdict): int(fires) for verdict, fires in rows if fires}
            return LedgerSums(sum(counts.values()), counts)

        return await self._db.read(work, slow=True)

    async def logs(self, run_id: str, attempt: int | None, after: int, limit: int) -> list[LogLine]:
        seen_attempt, seen_seq = divmod(after, 1_000_000)
        seen = {"run_id": run_id, "attempt": seen_attempt, "seq": seen_seq, "most": limit}

        async def work(tx: Tx) -> list[LogLine]:
            if attempt is None:
                rows = await tx.fetch(LOGS_OF_RUN, **seen)
            else:
                rows = await tx.fetch(LOGS_OF_ATTEMPT, only=attempt, **seen)
            return [LogLine(*row) for row in rows]

        return await self._db.read(work, slow=True)


async def _listed(tx: Tx, name: str, condition: str | None, where: RunFilter, **bounds: Any) -> list[Row]:
    """Newest first; nothing, if there is no condition that could be met."""
    if condition is None:
        return []
    listing = conditions.statement(name, where=f"r.id < :before AND {condition}", order="r.id DESC")
    return await tx.fetch(listing, **conditions.parameters(where), **bounds)


async def _matched(tx: Tx, name: str, condition: str | None, where: RunFilter, **bounds: Any) -> list[Row]:
    if condition is None:
        return []
    matching = conditions.statement(name, where=condition, jobs=conditions.jobs(where))
    return await tx.fetch(matching, **conditions.parameters(where), **bounds)


def _group(row: Row) -> LetterGroup:
    fingerprint, letters, jobs, first_at, last_at, newest, failure, _ = row
    return LetterGroup(
        fingerprint=fingerprint,
        letters=letters,
        jobs=jobs,
        first_at=first_at,
        last_at=last_at,
        newest=newest,
        failure=None if failure is None else _decode_failure(failure),
    )


def _page(alive: Sequence[Row], done: Sequence[Row], now: Micros, limit: int) -> Page[Run]:
    runs = {row[0]: live_run(row, now) for row in alive}
    runs |= {row[0]: finished_run(row) for row in done}
    newest = sorted(runs, reverse=True)
    items = [runs[run_id] for run_id in newest[:limit]]
    return Page(items, items[-1].id if len(newest) > limit and items else None)


def _start(run: Run) -> Micros:
    """When a run started, as far as known; 0: it has not."""
    if run.started_at is not None:
        return run.started_at
    return (run.claimed_at or 0) if run.status is Status.RUNNING else 0


def _position(cursor: str | None) -> tuple[Micros, str]:
    if cursor is None:
        return -1, ""
    time, colon, run_id = cursor.partition(":")
    if not colon or not time.isascii() or not time.isdigit() or len(time) > 18:
        raise Invalid(f"{cursor[:64]!r} is not a cursor; use the one of the page before")
    return int(time), plain(run_id)


def attempt_of(row: Row) -> Attempt:
    found = AttemptRow(*row)
    return Attempt(
        attempt=found.attempt,
        token=found.token,
        worker=found.worker,
        started_at=found.started_at,
        finished_at=found.finished_at,
        failure=None if found.failure is None else _decode_failure(found.failure),
        claimed_at=found.claimed_at,
        eligible_at=found.eligible_at,
    )
