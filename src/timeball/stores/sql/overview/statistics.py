"""Statistics of the last day: how runs ended, by intervals of time. All servers add their counts to the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from timeball.domain.instant import Micros
from timeball.domain.overview import tally
from timeball.domain.overview.tally import WIDTH_LIFE, WIDTHS, RunTallies, RunTally
from timeball.domain.run.lateness import split_times
from timeball.domain.run.status import Status
from timeball.ports.metrics import observe_delay
from timeball.ports.store.changes import UnwrittenEnds
from timeball.ports.store.maintenance import Lead
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.maintenance.maintenance import check
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.rows.unreadable import unread
from timeball.stores.sql.statements import many, query

COUNT_SUCCESSES = many(query("count_successes"))
BEGIN_BATCH = query("begin_batch")
LOCK_STATS = query("lock_stats", empty="'{}'")
WRITE_STATS = query("write_stats")
STATS_OF_TENANT = many(query("stats_of_tenant"))
FORGET_STATS = query("forget_stats")
FORGET_WRITERS = query("forget_writers")

MAX_SAMPLE: Final = 1_000
"""Maximum number of plain successes of a batch whose tenant and lateness are read from the store. If there are more, an
evenly spaced sample of them stands for all, so that the cost does not grow with their number."""
MAX_FORGOTTEN: Final = 500
"""Maximum number of intervals of each width that one transaction deletes."""

_Key = tuple[str, Micros, Micros]
_decode = msgspec.json.Decoder(RunTally).decode
_encode = msgspec.json.Encoder().encode


class Statistics(StorePart):
    async def record_statistics(self, writer: str, seq: int) -> UnwrittenEnds:
        ends = self._db.committed.ends(writer, seq)
        if ends.uncounted:
            await self._count(ends)
        if not ends.tallies:
            return ends

        async def work(tx: Tx) -> None:
            if not await tx.fetch(BEGIN_BATCH, writer=writer, seq=seq):
                return  # the answer to an earlier call was lost
            rows = _rows(ends.tallies)
            for tenant, width, at, text in await tx.fetch(LOCK_STATS, b=sorted(rows)):
                rows[tenant, width, at].add(_read(tenant, text))
            await tx.execute(WRITE_STATS, b=[(*key, _encode(each).decode()) for key, each in sorted(rows.items())])

        await self._db.write(work, once=True)
        return ends

    async def _count(self, ends: UnwrittenEnds) -> None:
        """Count the plain successes of which `ends` has only the ids. Their tenant and lateness are read from the store
        now."""
        runs = ends.uncounted
        sample = runs[:: -(-len(runs) // MAX_SAMPLE)]

        async def work(tx: Tx) -> list[Row]:
            return await tx.fetch(COUNT_SUCCESSES, b=sample)

        rows = await self._db.read(work)
        _add_sample(ends, rows, len(runs), len(sample))
        ends.uncounted = []

    async def statistics(self, tenant: str, width: Micros, since: Micros, until: Micros) -> dict[Micros, RunTally]:
        async def work(tx: Tx) -> dict[Micros, RunTally]:
            rows = await tx.fetch(STATS_OF_TENANT, tenant=tenant, width=width, since=since, until=until)
            return {at: _read(tenant, text) for at, text in rows}

        return await self._db.read(work, slow=True, may_lag=True)

    async def forget_statistics(self, lead: Lead) -> int:
        async def work(tx: Tx) -> int:
            await check(tx, lead)
            gone = 0
            for width, life in WIDTH_LIFE.items():
                gone += len(await tx.fetch(FORGET_STATS, width=width, before=now - life, limit=MAX_FORGOTTEN))
            await tx.execute(FORGET_WRITERS, before=now - max(WIDTH_LIFE.values()))
            return gone

        now = self._db.now()
        return await self._db.write(work)


def _add_sample(ends: UnwrittenEnds, rows: Sequence[Row], runs: int, sampled: int) -> None:
    """Count each row of a sample as several runs, so that all rows together count as the number of all runs. Rounding
    errors do not accumulate."""
    counted = 0
    for seen, (tenant, origin, attempt, due, created_at, eligible_at, claimed_at, started_at, finished_at) in enumerate(
        rows, start=1
    ):
        share = seen * runs // sampled - counted
        counted += share
        each = tally.tally_at(ends.tallies, tenant, finished_at)
        each.count(Status.SUCCEEDED.value, share)
        late = tally.lateness(origin, due, started_at)
        if late is not None:
            each.count_late(tally.bucket_of(late), share)
            if attempt == 1:
                split = split_times(due, created_at, eligible_at, claimed_at, started_at)
                observe_delay(ends.delays, tenant, split, share)


def _rows(tallies: RunTallies) -> dict[_Key, RunTally]:
    """Return the rows to store: the tallies, added up for each length of interval that the store keeps."""
    rows: dict[_Key, RunTally] = {}
    for (tenant, at), each in tallies.items():
        for width in WIDTHS:
            rows.setdefault((tenant, width, at // width * width), RunTally()).add(each)
    return rows


def _read(tenant: str, text: str) -> RunTally:
    try:
        return _decode(text)
    except msgspec.MsgspecError as error:
        unread(tenant, error)
        return RunTally()
