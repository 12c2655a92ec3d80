"""Reads of finished runs for the archive. Each read has a bounded size."""

from __future__ import annotations

from collections import defaultdict
from itertools import starmap
from typing import Final

from timeball.domain.instant import Micros
from timeball.domain.run.archive_record import Finished
from timeball.domain.run.run import Attempt
from timeball.ports.store.queries import ArchivedLine, LogLine
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.reading.runs import attempt_of
from timeball.stores.sql.rows.runs import ended_run
from timeball.stores.sql.schema.runs import ArchivedHistoryRow, AttemptRow
from timeball.stores.sql.statements import query

SIZES = query("sizes_to_archive")
RUNS = query("runs_to_archive")
ATTEMPTS = query("attempts_to_archive")
TAGS = query("tags_to_archive")
LOGS = query("logs_to_archive")

MAX_AT_ONCE: Final = 8 * 1024 * 1024
"""Maximum number of characters of results in one read. A read has at least one run, whatever the size of its result."""


class Archiving(StorePart):
    async def finished_in(self, first: str, until: str, since: Micros, limit: int) -> list[Finished]:
        async def work(tx: Tx) -> list[Finished]:
            last, size = "", 0
            for run_id, weight in await tx.fetch(SIZES, first=first, until=until, since=since, limit=limit):
                size += weight
                if last and size > MAX_AT_ONCE:
                    break
                last = run_id
            found = await tx.fetch(RUNS, first=first, last=last, since=since) if last else []
            rows = list(starmap(ArchivedHistoryRow, found))
            attempts: dict[str, list[Attempt]] = defaultdict(list)
            for each in starmap(AttemptRow, await tx.fetch(ATTEMPTS, b=[row.id for row in rows]) if rows else []):
                attempts[each.run_id].append(attempt_of(each))
            tags: dict[str, list[str]] = defaultdict(list)
            for job_id, tag in await tx.fetch(TAGS, b=sorted({row.job_id for row in rows})) if rows else []:
                tags[job_id].append(tag)
            return [
                Finished(
                    ended_run(row, row.job_name),
                    attempts.get(row.id, []),
                    row.user_id or "",
                    row.task_id,
                    tags.get(row.job_id, []),
                )
                for row in rows
            ]

        return await self._db.read(work, slow=True)

    async def output_in(self, after: tuple[str, int, int], until: str, since: Micros, limit: int) -> list[ArchivedLine]:
        run_id, attempt, seq = after
        place = {"run_id": run_id, "attempt": attempt, "seq": seq}

        async def work(tx: Tx) -> list[ArchivedLine]:
            rows = await tx.fetch(LOGS, **place, until=until, since=since, limit=limit)
            return [ArchivedLine(tenant, run_id, LogLine(*line)) for tenant, run_id, *line in rows]

        return await self._db.read(work, slow=True)
