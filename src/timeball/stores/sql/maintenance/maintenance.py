"""Maintenance: its lease, and the removal of old history.

All work is done in small transactions, each of which checks the lease first. A transaction locks jobs before it deletes
their runs: every transaction takes locks in this order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from timeball.domain import ids, retention
from timeball.domain.instant import DAY, Micros
from timeball.domain.run.ledger import DUE
from timeball.domain.schedule.schedule import Immediate, Schedule, is_one_shot
from timeball.ports.store.maintenance import Deposed, Lead
from timeball.stores.sql.driver import Row, Tx, scalar
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.statements import query

LEAD = query("lead")
STILL_LEADS = query("still_leads")
OLDEST_TO_PRUNE = query("oldest_to_prune")
PRUNE_LOGS = query("prune_logs")
PRUNE_ATTEMPTS = query("prune_attempts")
RUNS_TO_PRUNE = query("runs_to_prune")
PRUNE_RUNS = query("prune_runs")
DROP_WHAT_RUNS_HAD = tuple(
    map(query, ("drop_edited", "drop_offloaded_sizes", "drop_tasks_of_flows", "drop_nodes_of_flows", "drop_flows"))
)
LOCK_IDLE_JOBS = query("lock_idle_jobs")
JOBS_WITHOUT_RUNS = query("jobs_without_runs")
ADD_SUMS = query("add_sums")
KEYS_TO_FORGET = query("keys_to_forget")
DROP_KEYS = query("drop_keys")
VERSIONS_TO_PRUNE = query("versions_to_prune")
PRUNE_VERSIONS = query("prune_versions")
DROP_WHAT_JOBS_HAD = tuple(
    map(
        query,
        (
            "merge_usage_of_jobs",
            "drop_usage_of_jobs",
            "drop_jobs",
            "drop_tags_of_jobs",
            "drop_calendars_of_jobs",
            "drop_versions_of_jobs",
            "drop_sums_of_jobs",
        ),
    )
)
_DUE: Final = frozenset(origin.value for origin in DUE)


class _When(Struct):
    """The schedule of a spec. The other fields of the spec are not decoded."""

    schedule: Schedule = Immediate()


_decode_when = msgspec.json.Decoder(_When).decode


class Maintenance(StorePart):
    async def lead(self, name: str, holder: str, for_: Micros) -> Lead | None:
        async def work(tx: Tx) -> Lead | None:
            epoch = scalar(await tx.fetch(LEAD, name=name, holder=holder, lasts=for_))
            return None if epoch is None else Lead(name, holder, epoch)

        return await self._db.write(work)

    async def prepare_days(self, lead: Lead, days: Sequence[Micros]) -> None:
        """Do nothing: SQLite keeps all days in one table."""

    async def days_to_prune(self, before: Micros, limit: int) -> list[Micros]:
        until = ids.first_run(retention.day_of(before))

        async def work(tx: Tx) -> list[Micros]:
            days: list[Micros] = []
            since = ""
            while len(days) < limit:
                oldest = scalar(await tx.fetch(OLDEST_TO_PRUNE, since=since, until=until, before=before))
                if oldest is None:
                    break
                days.append(retention.day_of(ids.made_at(oldest)))
                since = ids.first_run(days[-1] + DAY)
            return days

        return await self._db.read(work, slow=True)

    async def prune_day(self, lead: Lead, day: Micros, before: Micros, limit: int) -> bool:
        assert retention.is_over(day, before)
        of_day = {"since": ids.first_run(day), "until": ids.first_run(day + DAY)}

        async def work(tx: Tx) -> bool:
            await check(tx, lead)
            if await tx.execute(PRUNE_LOGS, **of_day, before=before, limit=limit):
                return True
            if await tx.execute(PRUNE_ATTEMPTS, **of_day, before=before, limit=limit):
                return True
            found = await tx.fetch(RUNS_TO_PRUNE, **of_day, before=before, limit=limit)
            if not found:
                return False
            over = await lock_one_shots(tx, {job_id for _, job_id in found})
            rows = await tx.fetch(PRUNE_RUNS, **of_day, before=before, b=[run_id for run_id, _ in found])
            gone = {run_id: summed for run_id, *summed in rows}
            await drop_what_runs_had(tx, list(gone))
            await add_sums(tx, gone.values(), await drop_jobs(tx, over))
            return True

        return await self._db.write(work)

    async def forget_keys(self, lead: Lead, before: Micros, limit: int) -> int:
        async def find(tx: Tx) -> list[Row]:
            return [tuple(row) for row in await tx.fetch(KEYS_TO_FORGET, before=before, limit=limit)]

        async def drop(tx: Tx) -> int:
            await check(tx, lead)
            return await tx.execute(DROP_KEYS, b=found)

        found = await self._db.read(find, slow=True)
        return await self._db.write(drop) if found else 0

    async def forget_versions(self, lead: Lead, before: Micros, limit: int) -> int:
        async def find(tx: Tx) -> list[Row]:
            rows = await tx.fetch(VERSIONS_TO_PRUNE, before=before, until=ids.first_run(before), limit=limit)
            return [tuple(row) for row in rows]

        async def drop(tx: Tx) -> int:
            await check(tx, lead)
            return await tx.execute(PRUNE_VERSIONS, b=found) if found else 0

        found = await self._db.read(find, slow=True)
        return await self._db.write(drop)


async def check(tx: Tx, lead: Lead) -> None:
    """Raise `Deposed` unless the server still holds the maintenance lease."""
    if not await tx.execute(STILL_LEADS, **msgspec.structs.asdict(lead)):
        raise Deposed(f"{lead.holder} does not hold the lease {lead.name!r} any more")


async def drop_what_runs_had(tx: Tx, run_ids: Sequence[str]) -> None:
    """Delete the rows that belong to deleted runs, such as those of their attempts and output."""
    for drop in DROP_WHAT_RUNS_HAD:
        await tx.execute(drop, b=run_ids)


async def lock_one_shots(tx: Tx, job_ids: Iterable[str]) -> list[str]:
    """Lock those of the given jobs that will not fire again, are not paused, and have no job that follows them. Return
    the one-shot jobs among them."""
    idle = await tx.fetch(LOCK_IDLE_JOBS, b=sorted(job_ids))
    return [job_id for job_id, spec in idle if is_one_shot(_decode_when(spec).schedule)]


async def drop_jobs(tx: Tx, job_ids: Sequence[str]) -> frozenset[str]:
    """Delete those of the locked jobs that have no runs left, with all rows that belong to them. Return their ids."""
    over = [job_id for (job_id,) in await tx.fetch(JOBS_WITHOUT_RUNS, b=list(job_ids))] if job_ids else []
    if over:
        for drop in DROP_WHAT_JOBS_HAD:
            await tx.execute(drop, b=over)
    return frozenset(over)


async def add_sums(tx: Tx, gone: Iterable[Row], jobs_gone: frozenset[str]) -> None:
    """Add the fires of deleted runs to the daily sums of their jobs, except jobs that were deleted with their runs.
    Runs that no schedule caused, such as manual runs, do not count."""
    sums: Counter[tuple[Any, ...]] = Counter()
    for job_id, day, verdict, fires, origin in gone:
        if origin in _DUE and job_id not in jobs_gone:
            sums[job_id, day, verdict] += fires
    if sums:
        await tx.execute(ADD_SUMS, b=[(*key, fires) for key, fires in sorted(sums.items())])
