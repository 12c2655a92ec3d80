"""Reading runs, live and finished alike.

Live rows are always read before finished ones: a run that ends between the two reads is found twice, never missed, and
is shown once, as finished.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap

import msgspec

from timeball.domain.instant import Micros
from timeball.domain.job.job import decode_spec
from timeball.domain.run.lifecycle import Failure
from timeball.domain.run.run import Attempt, Run
from timeball.domain.run.status import Status
from timeball.ports.store.paging import Page
from timeball.ports.store.queries import LogLine, Match, RunFilter, RunSpec
from timeball.stores.sql.day_ranges import day_range
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.names import resolve
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.reading import run_filters
from timeball.stores.sql.reading.run_filters import FIRST, LAST, RunPosition
from timeball.stores.sql.reading.run_pages import by_id, page_of, place_at, place_of
from timeball.stores.sql.reading.run_search import OLDEST_FIRST, RunSearch, chosen_jobs
from timeball.stores.sql.rows.runs import finished_run, live_run, shown_as
from timeball.stores.sql.rows.unreadable import unread
from timeball.stores.sql.schema.runs import AttemptRow
from timeball.stores.sql.statements import query

LIVE_RUNS = query("live_runs")
FINISHED_RUNS = query("finished_runs")
LAST_STARTED = query("last_started")
ATTEMPTS_OF_RUN = query("attempts")
FIRST_ATTEMPTS = query("first_attempts")
LOGS_OF_RUN = query("logs")
LOGS_OF_ATTEMPT = query("logs_of_attempt")
SPECS_OF_RUNS = query("specs_of_runs")
LIVE_OF_JOB = query(
    "live_of_job_where", where=resolve("r.job_id = :job_id AND r.origin <> {origin.task}"), order=OLDEST_FIRST
)
_decode_failure = msgspec.json.Decoder(Failure).decode


class Reads(StorePart):
    async def runs(self, ids: Sequence[str]) -> dict[str, Run]:
        async def work(tx: Tx) -> dict[str, Run]:
            alive = await tx.fetch(LIVE_RUNS, b=list(ids))
            done = await tx.fetch(FINISHED_RUNS, b=list(ids))
            return by_id(alive, done, self._db.now())

        return await self._db.read(work) if ids else {}

    async def list_runs(self, where: RunFilter, cursor: str | None, limit: int, *, may_lag: bool = False) -> Page[Run]:
        before = LAST if cursor is None else place_at(cursor)

        async def work(tx: Tx) -> Page[Run]:
            jobs = await chosen_jobs(tx, where)
            search = RunSearch(
                tx=tx, where=where, jobs=jobs, before=before, newest_first=True, limit=limit + 1, now=self._db.now()
            )
            alive = await search.live("list_live")
            done = await search.finished("list_finished")
            if len(done) <= limit:  # else spans that began before the range are on later pages
                done += await search.reaching("list_finished")
            runs = by_id(alive, done, self._db.now())
            return page_of(sorted(runs.values(), key=place_of, reverse=True), limit)

        return await self._db.read(work, slow=True, may_lag=may_lag)

    async def count_runs(self, where: RunFilter) -> int:
        jobs = run_filters.jobs(where)
        finished = run_filters.finished(where) + run_filters.reaching(where)
        counts = [query("count_live", jobs=jobs, where=condition).text for condition in run_filters.live(where)]
        counts += [query("count_finished", jobs=jobs, where=condition).text for condition in finished]
        counting = run_filters.statement("count_runs", counts=" + ".join(counts) or "0")

        async def work(tx: Tx) -> int:
            ((count,),) = await tx.fetch(counting, **run_filters.parameters(where))
            return int(count)

        return await self._db.read(work, slow=True)

    async def match_runs(self, where: RunFilter, after: Match | None, limit: int) -> list[Match]:
        begin = FIRST if after is None else RunPosition(after.fire_time, after.run_id)

        async def work(tx: Tx) -> list[Match]:
            jobs = await chosen_jobs(tx, where)
            search = RunSearch(
                tx=tx, where=where, jobs=jobs, after=begin, newest_first=False, limit=limit, now=self._db.now()
            )
            alive = await search.live("match_live")
            done = await search.reaching("match_finished") + await search.finished("match_finished")
            now = self._db.now()
            found = {
                run_id: Match(run_id, job_id, fire_time, shown_as(now, state, attempt, due_at, eligible_at))
                for run_id, job_id, fire_time, state, attempt, due_at, eligible_at in alive
            }
            for run_id, job_id, fire_time, status in done:
                found[run_id] = Match(run_id, job_id, fire_time, Status(status))
            return sorted(found.values(), key=lambda match: (match.fire_time, match.run_id))[:limit]

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

    async def current_run(self, job_id: str) -> Run | None:
        async def work(tx: Tx) -> Run | None:
            now = self._db.now()
            rows = await tx.fetch(LIVE_OF_JOB, job_id=job_id, limit=1_000)
            live = [live_run(row, now) for row in rows]
            rows = await tx.fetch(LAST_STARTED, job_id=job_id, **day_range(now, job_id=job_id)._asdict())
            done = [finished_run(row) for row in rows]
            finished = {run.id for run in done}
            started = [run for run in live if run.id not in finished and _start(run)] + done
            return max(started, key=_start, default=next(iter(live), None))

        return await self._db.read(work, slow=True)

    async def attempts(self, run_id: str) -> list[Attempt]:
        async def work(tx: Tx) -> list[Attempt]:
            return [attempt_of(each) for each in starmap(AttemptRow, await tx.fetch(ATTEMPTS_OF_RUN, run_id=run_id))]

        return await self._db.read(work)

    async def first_attempts(self, run_ids: Sequence[str]) -> dict[str, Attempt]:
        async def work(tx: Tx) -> dict[str, Attempt]:
            found = starmap(AttemptRow, await tx.fetch(FIRST_ATTEMPTS, b=list(run_ids)))
            return {each.run_id: attempt_of(each) for each in found}

        return await self._db.read(work) if run_ids else {}

    async def logs(self, run_id: str, attempt: int | None, after: int, limit: int) -> list[LogLine]:
        seen_attempt, seen_seq = divmod(after, 1_000_000)
        seen = {"run_id": run_id, "attempt": seen_attempt, "seq": seen_seq, "limit": limit}

        async def work(tx: Tx) -> list[LogLine]:
            if attempt is None:
                rows = await tx.fetch(LOGS_OF_RUN, **seen)
            else:
                rows = await tx.fetch(LOGS_OF_ATTEMPT, only=attempt, **seen)
            return [LogLine(*row) for row in rows]

        return await self._db.read(work, slow=True)


def _start(run: Run) -> Micros:
    """Return when a run started, or was claimed if its start is not known; 0 if it has not started."""
    if run.started_at is not None:
        return run.started_at
    return (run.claimed_at or 0) if run.status is Status.RUNNING else 0


def attempt_of(found: AttemptRow) -> Attempt:
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
