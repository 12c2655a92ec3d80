"""The ledger of a job: the verdict on each of its fires, as a list and as sums."""

from __future__ import annotations

from collections import Counter
from typing import Any

from timeball.domain.instant import DAY, Micros
from timeball.domain.run.ledger import Verdict
from timeball.domain.run.run import Run
from timeball.ports.store.paging import Page
from timeball.ports.store.queries import LedgerSums
from timeball.stores.sql.day_ranges import day_range, is_whole_life
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.names import resolve
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.reading import run_filters
from timeball.stores.sql.reading.run_filters import FIRST, RunPosition
from timeball.stores.sql.reading.run_pages import after_parameters, by_id, page_of, place_at, place_of
from timeball.stores.sql.reading.run_search import OLDEST_FIRST
from timeball.stores.sql.statements import query

_DUE = resolve("r.origin IN ({origin.catch_up}, {origin.schedule})")
_OF_JOB = "r.job_id = :job_id AND r.fire_time < :until AND r.fire_time <= {now}"
_OF_LEDGER = f"{_OF_JOB} AND {_DUE}"
_IN_RANGE = f"{_OF_LEDGER} AND r.fire_time >= :since"
_OF_DAYS = "{{days r.id >= :{0} AND r.id < :made_until}}"
_INTO_RANGE = f"{_OF_LEDGER.replace('r.fire_time', '{unindexed r.fire_time}')} AND r.fire_time < :since"
_SHORT_INTO_RANGE = f"{_INTO_RANGE} AND r.fires > 1 AND r.fire_until >= :since AND {run_filters.SHORT}"
_LONG_INTO_RANGE = f"{_INTO_RANGE} AND r.fires > 1 AND r.fire_until >= :since AND {run_filters.LONG}"
_AFTER = "(r.fire_time, r.id) > (:after_time, :after_id)"
LEDGER_LIVE = query("live_of_job_where", where=f"{_OF_LEDGER} AND {_AFTER}", order=OLDEST_FIRST)
LEDGER_DONE = query("list_finished", jobs="", where=f"{_OF_LEDGER} AND {_AFTER}", order=OLDEST_FIRST)
LEDGER_INTO_SHORT = query("list_finished", jobs="", where=f"{_SHORT_INTO_RANGE} AND {_AFTER}", order=OLDEST_FIRST)
LEDGER_INTO_LONG = query("list_finished", jobs="", where=f"{_LONG_INTO_RANGE} AND {_AFTER}", order=OLDEST_FIRST)
LEDGER_SUMS = query(
    "ledger_sums",
    due=_DUE,
    live=_IN_RANGE,
    finished=f"{_OF_JOB} AND r.fire_time >= :since AND {_OF_DAYS.format('made_from')}",
    short=f"{_SHORT_INTO_RANGE} AND {_AFTER} AND {_OF_DAYS.format('short_made_from')}",
    long=f"{_LONG_INTO_RANGE} AND {_OF_DAYS.format('long_made_from')}",
    departing=f"{_OF_LEDGER} AND r.fire_until >= :since",
)
LEDGER_SUMS_OF_LIFE = query(
    "ledger_sums",
    due=_DUE,
    live=_IN_RANGE,
    finished=f"{_OF_JOB} AND r.fire_time >= :since AND {_OF_DAYS.format('made_from')}",
    short="false",
    long="false",
    departing=f"{_OF_LEDGER} AND r.fire_until >= :since",
)
"""The statement for a range that begins at or before the creation of the job. No ledger row can begin before such a
range, so the statement is three times shorter, and the database plans it faster."""


class LedgerReads(StorePart):
    async def ledger(
        self, job_id: str, since: Micros, until: Micros, cursor: str | None, limit: int, *, may_lag: bool = False
    ) -> Page[Run]:
        """Return a page of the ledger. A ledger row of several fires that reaches into the range is listed as a
        whole."""
        seen = FIRST if cursor is None else place_at(cursor)
        parameters: dict[str, Any] = {"job_id": job_id, "since": since, "until": until, "limit": limit + 1}

        async def work(tx: Tx) -> Page[Run]:
            inside = after_parameters(max(seen, RunPosition(since, "")))
            within_a_day = after_parameters(max(seen, RunPosition(since - DAY, "")))
            now = self._db.now()

            def made(fires_from: Micros) -> dict[str, str]:
                return day_range(now, fires_from=fires_from, job_id=job_id)._asdict()

            alive = await tx.fetch(LEDGER_LIVE, **parameters, **inside)
            done: list[Row] = []
            if seen.fire_time < since and not is_whole_life(job_id, since):
                done += await tx.fetch(LEDGER_INTO_LONG, **parameters, **after_parameters(seen), **made(0))
                done += await tx.fetch(LEDGER_INTO_SHORT, **parameters, **within_a_day, **made(since - DAY))
            done += await tx.fetch(LEDGER_DONE, **parameters, **inside, **made(since))
            return page_of(sorted(by_id(alive, done, now).values(), key=place_of), limit)

        return await self._db.read(work, slow=True, may_lag=may_lag)

    async def ledger_sums(self, job_id: str, since: Micros, until: Micros, *, may_lag: bool = False) -> LedgerSums:
        """Return the number of fires by verdict. A ledger row of several fires that reaches into the range counts with
        all its fires."""

        async def work(tx: Tx) -> LedgerSums:
            within_a_day = after_parameters(RunPosition(since - DAY, ""))
            now = self._db.now()
            made = day_range(now, fires_from=since, job_id=job_id)._asdict()
            made["short_made_from"] = day_range(now, fires_from=since - DAY, job_id=job_id).made_from
            made["long_made_from"] = day_range(now, job_id=job_id).made_from
            summing = LEDGER_SUMS_OF_LIFE if is_whole_life(job_id, since) else LEDGER_SUMS
            rows = await tx.fetch(summing, job_id=job_id, since=since, until=until, **within_a_day, **made)
            counts = Counter({Verdict(verdict): int(fires) for verdict, fires, _ in rows if verdict is not None})
            counts[Verdict.ON_TIME] -= sum(int(taken_off) for _, _, taken_off in rows)
            return LedgerSums(counts.total(), dict(+counts))

        return await self._db.read(work, slow=True, may_lag=may_lag)
