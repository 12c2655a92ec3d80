"""Reading runs, live and finished alike.

Live rows are always read before finished ones: a run that ends between the two is then seen twice, never missed,
and told once, as finished. Lists are in the order of fire times, ties by id: neither ever changes, so that no run is
missed or told twice on the pages of a list, whatever becomes of it meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import repeat, starmap
from typing import Any, Final, Protocol

import msgspec
from msgspec import Struct

from timeball.domain.errors import Invalid
from timeball.domain.instant import DAY, Micros
from timeball.domain.job.job import decode_spec
from timeball.domain.run.ledger import Verdict
from timeball.domain.run.lifecycle import Failure
from timeball.domain.run.run import Attempt, Run
from timeball.domain.run.status import Status
from timeball.ports.store.paging import Page
from timeball.ports.store.queries import LedgerSums, LetterGroup, LetterGroups, LogLine, Match, RunFilter, RunSpec
from timeball.stores.sql.day_ranges import LATELY, DayRange, day_range, is_whole_life
from timeball.stores.sql.dialect import Query
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.names import resolve
from timeball.stores.sql.page_bytes import fitting
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.reading import run_filters
from timeball.stores.sql.reading.run_filters import FIRST, LAST, Meaning, Place
from timeball.stores.sql.rows import finished_run, live_run, plain, shown_as, unread
from timeball.stores.sql.schema import AttemptRow, ListedHistoryRow
from timeball.stores.sql.statements import query

LIVE_RUNS = query("live_runs")
FINISHED_RUNS = query("finished_runs")
LAST_STARTED = query("last_started")
ATTEMPTS_OF_RUN = query("attempts")
FIRST_ATTEMPTS = query("first_attempts")
LOGS_OF_RUN = query("logs")
LOGS_OF_ATTEMPT = query("logs_of_attempt")
SPECS_OF_RUNS = query("specs_of_runs")

MAX_GROUPED: Final = 20_000
"""Dead letters that are looked at to find what they have in common: the newest. On either store one or two microseconds
each."""
FEW_JOBS: Final = 100
"""Jobs whose runs are looked for job by job."""
NEARBY: Final = 1_000
"""The runs of more jobs than that are looked for among so many first: what is frequent is there."""
MAX_JOBS: Final = 2_000
"""If they are not, and the jobs are not more than this, job by job; else among all runs."""
ROW_BYTES: Final = 700
"""What a run is shown with beside texts that may be long."""
_NEWEST_FIRST: Final = "r.fire_time DESC, r.id DESC"
_OLDEST_FIRST: Final = "r.fire_time, r.id"

_DUE = resolve("r.origin IN ({origin.catch_up}, {origin.schedule})")
_OF_JOB = "r.job_id = :job_id AND r.fire_time < :until AND r.fire_time <= {now}"
_OF_LEDGER = f"{_OF_JOB} AND {_DUE}"
_IN_RANGE = f"{_OF_LEDGER} AND r.fire_time >= :since"
_OF_DAYS = "{{days r.id >= :{0} AND r.id < :made_until}}"
_INTO_RANGE = f"{_OF_LEDGER.replace('r.fire_time', '{unindexed r.fire_time}')} AND r.fire_time < :since"
_SHORT_INTO_RANGE = f"{_INTO_RANGE} AND r.fires > 1 AND r.fire_until >= :since AND {run_filters.SHORT}"
_LONG_INTO_RANGE = f"{_INTO_RANGE} AND r.fires > 1 AND r.fire_until >= :since AND {run_filters.LONG}"
_AFTER = "(r.fire_time, r.id) > (:after_time, :after_id)"

LEDGER_LIVE = query("live_of_job_where", where=f"{_OF_LEDGER} AND {_AFTER}", order=_OLDEST_FIRST)
LEDGER_DONE = query("list_finished", jobs="", where=f"{_OF_LEDGER} AND {_AFTER}", order=_OLDEST_FIRST)
LEDGER_INTO_SHORT = query("list_finished", jobs="", where=f"{_SHORT_INTO_RANGE} AND {_AFTER}", order=_OLDEST_FIRST)
LEDGER_INTO_LONG = query("list_finished", jobs="", where=f"{_LONG_INTO_RANGE} AND {_AFTER}", order=_OLDEST_FIRST)
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
"""Since the job was made: no span reaches into that, and three times less is to be planned."""
LIVE_OF_JOB = query(
    "live_of_job_where", where=resolve("r.job_id = :job_id AND r.origin <> {origin.task}"), order=_OLDEST_FIRST
)

_decode_failure = msgspec.json.Decoder(Failure).decode


class Reads(StorePart):
    async def runs(self, ids: Sequence[str]) -> dict[str, Run]:
        async def work(tx: Tx) -> dict[str, Run]:
            alive = await tx.fetch(LIVE_RUNS, b=list(ids))
            done = await tx.fetch(FINISHED_RUNS, b=list(ids))
            return _by_id(alive, done, self._db.now())

        return await self._db.read(work) if ids else {}

    async def list_runs(self, where: RunFilter, cursor: str | None, limit: int, *, may_lag: bool = False) -> Page[Run]:
        before = LAST if cursor is None else _place(cursor)

        async def work(tx: Tx) -> Page[Run]:
            jobs = await _chosen_jobs(tx, where)
            search = _Search(
                tx=tx, where=where, jobs=jobs, before=before, newest_first=True, most=limit + 1, now=self._db.now()
            )
            alive = await search.live("list_live")
            done = await search.finished("list_finished")
            if len(done) <= limit:  # they began before all others
                done += await search.reaching("list_finished")
            runs = _by_id(alive, done, self._db.now())
            return _page(sorted(runs.values(), key=_place_of, reverse=True), limit)

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
        begin = FIRST if after is None else Place(after.fire_time, after.run_id)

        async def work(tx: Tx) -> list[Match]:
            jobs = await _chosen_jobs(tx, where)
            search = _Search(
                tx=tx, where=where, jobs=jobs, after=begin, newest_first=False, most=limit, now=self._db.now()
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

    async def letter_groups(self, where: RunFilter, limit: int, *, may_lag: bool = False) -> LetterGroups:
        letters = msgspec.structs.replace(where, dead_letters=True)
        (condition,) = run_filters.finished(letters)
        grouping = run_filters.statement("letter_groups", where=condition, jobs=run_filters.jobs(letters))

        async def work(tx: Tx) -> LetterGroups:
            bounds = {"counted": MAX_GROUPED + 1, "most": limit}
            rows = await tx.fetch(grouping, **run_filters.parameters(letters), **bounds)
            groups = list(starmap(_LetterGroupRow, rows))
            counted = max((int(group.counted) for group in groups), default=0)
            return LetterGroups(list(map(_group, groups)), min(counted, MAX_GROUPED), counted > MAX_GROUPED)

        return await self._db.read(work, slow=True, may_lag=may_lag)

    async def current_run(self, job_id: str) -> Run | None:
        async def work(tx: Tx) -> Run | None:
            now = self._db.now()
            rows = await tx.fetch(LIVE_OF_JOB, job_id=job_id, most=1_000)
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

    async def ledger(
        self, job_id: str, since: Micros, until: Micros, cursor: str | None, limit: int, *, may_lag: bool = False
    ) -> Page[Run]:
        """A span that reaches into the range is part of it as a whole."""
        seen = FIRST if cursor is None else _place(cursor)
        parameters: dict[str, Any] = {"job_id": job_id, "since": since, "until": until, "most": limit + 1}

        async def work(tx: Tx) -> Page[Run]:
            inside = _named(max(seen, Place(since, "")))
            within_a_day = _named(max(seen, Place(since - DAY, "")))
            now = self._db.now()

            def made(fires_from: Micros) -> dict[str, str]:
                return day_range(now, fires_from=fires_from, job_id=job_id)._asdict()

            alive = await tx.fetch(LEDGER_LIVE, **parameters, **inside)
            done: list[Row] = []
            if seen.fire_time < since and not is_whole_life(job_id, since):
                done += await tx.fetch(LEDGER_INTO_LONG, **parameters, **_named(seen), **made(0))
                done += await tx.fetch(LEDGER_INTO_SHORT, **parameters, **within_a_day, **made(since - DAY))
            done += await tx.fetch(LEDGER_DONE, **parameters, **inside, **made(since))
            return _page(sorted(_by_id(alive, done, now).values(), key=_place_of), limit)

        return await self._db.read(work, slow=True, may_lag=may_lag)

    async def ledger_sums(self, job_id: str, since: Micros, until: Micros, *, may_lag: bool = False) -> LedgerSums:
        """A span that reaches into the range counts with all its instants."""

        async def work(tx: Tx) -> LedgerSums:
            within_a_day = _named(Place(since - DAY, ""))
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


class _Find(Protocol):
    async def __call__(self, fires_from: Micros) -> list[Row]: ...


class _Search(Struct, frozen=True, kw_only=True):
    """What is looked for among live and finished runs alike, between which places, and how it is found."""

    tx: Tx
    where: RunFilter
    jobs: int
    """How many jobs the filter chooses, up to `MAX_JOBS` and one more; 0: it says nothing about them."""
    after: Place = FIRST
    before: Place = LAST
    newest_first: bool
    most: int
    now: Micros

    async def live(self, name: str) -> list[Row]:
        of_jobs = 0 < self.jobs <= FEW_JOBS
        any_of = run_filters.live(self.where, of_jobs=of_jobs)
        if not any_of:
            return []
        how = {
            "jobs": run_filters.jobs(self.where),
            "chosen": run_filters.chosen_jobs(self.where),
            "order": self._order,
        }
        find = "find_live_of_jobs" if of_jobs else "find_live"
        found = " UNION ALL ".join(query(find, where=condition, **how).text for condition in any_of)
        return await self.fetch(run_filters.statement(name, found=found, order=self._order))

    async def finished(self, name: str) -> list[Row]:
        """Most lists find a page of these in a few days; what is rare is rather looked for in all of them at once."""
        is_frequent = not self.where.dead_letters and (not self.where.status or Status.SUCCEEDED in self.where.status)
        lately = is_frequent and self.newest_first and self.tx.has_days
        return await self._met(name, run_filters.finished, repeat(self.where.fire_from or 0), lately=lately)

    async def reaching(self, name: str) -> list[Row]:
        return await self._met(name, run_filters.reaching, ((self.where.fire_from or 0) - DAY, 0))

    async def _met(
        self, name: str, meaning: Meaning, fires_from: Iterable[Micros], *, lately: bool = False
    ) -> list[Row]:
        """Runs that meet the conditions; what meets one of them fires from a certain moment on."""
        rows: list[Row] = []
        anyones, of_jobs = meaning(run_filters.of_any_job(self.where)), meaning(self.where, of_jobs=True)
        found = zip(meaning(self.where), anyones, of_jobs, strict=True)
        for (condition, anyone, of_job), since in zip(found, fires_from, strict=False):
            some: list[Row] = []
            if self.jobs > FEW_JOBS:
                some = await self._find(f"{name}_nearby", nearby=anyone, where=run_filters.of_job(self.where))
            if len(some) < self.most:
                if 0 < self.jobs <= MAX_JOBS:
                    find = partial(self._of_jobs, name, where=of_job)
                else:
                    find = partial(self._find, name, where=condition)
                some = await (self._lately(find, since) if lately else find(since))
            rows += some
        return rows

    async def _find(self, name: str, fires_from: Micros = 0, **parts: str) -> list[Row]:
        finding = run_filters.statement(name, jobs=run_filters.jobs(self.where), order=self._order, **parts)
        return await self.fetch(finding, self._days(fires_from))

    async def _lately(self, find: _Find, fires_from: Micros) -> list[Row]:
        """Among runs that were made lately, if these are enough. All others fired before."""
        lately = min(self.now, run_filters.end(self.where, self.before).fire_time) - LATELY
        if self._days(lately) > self._days(fires_from):
            rows = await find(lately)
            if len(rows) == self.most and ListedHistoryRow(*rows[-1]).fire_time >= lately:
                return rows
        return await find(fires_from)

    def _days(self, fires_from: Micros) -> DayRange:
        return day_range(self.now, fires_from=fires_from, job_id=self.where.job_id)

    async def _of_jobs(self, name: str, fires_from: Micros, *, where: str) -> list[Row]:
        """A page has runs of no more jobs than there are runs on it: of those whose own first runs come first. If there
        are so many, nothing on it comes after the last of these."""
        chosen = run_filters.chosen_jobs(self.where)
        firsts = await self._find("first_of_jobs", fires_from, chosen=chosen, where=where)
        if not firsts:
            return []
        *_, (_, last, _) = firsts
        search = self._up_to(last) if len(firsts) == self.most else self
        finding = run_filters.statement(f"{name}_of_jobs", where=where, order=self._order)
        return await search.fetch(finding, self._days(fires_from), b=[job_id for job_id, _, _ in firsts])

    def _up_to(self, fire_time: Micros) -> _Search:
        if self.newest_first:
            return msgspec.structs.replace(self, after=max(self.after, Place(fire_time, "")))
        return msgspec.structs.replace(self, before=min(self.before, Place(fire_time + 1, "")))

    @property
    def _order(self) -> str:
        return _NEWEST_FIRST if self.newest_first else _OLDEST_FIRST

    async def fetch(self, statement: Query, made: DayRange | None = None, **batches: Any) -> list[Row]:
        parameters = run_filters.parameters(self.where, self.after, self.before) | (made or DayRange())._asdict()
        return await self.tx.fetch(statement, most=self.most, nearby=NEARBY, **parameters, **batches)


async def _chosen_jobs(tx: Tx, where: RunFilter) -> int:
    """How many jobs a filter chooses by what it says about them, counted up to one more than `MAX_JOBS`; at least one.
    0: it says nothing about them, or names the job."""
    chosen = run_filters.chosen_jobs(where)
    if not chosen:
        return 0
    counting = run_filters.statement("count_chosen_jobs", chosen=chosen)
    ((jobs,),) = await tx.fetch(counting, most=MAX_JOBS + 1, **run_filters.parameters(where))
    return max(1, int(jobs))


def _by_id(alive: Iterable[Row], done: Iterable[Row], now: Micros) -> dict[str, Run]:
    """Runs by their ids; one that ended between the two reads counts as finished."""
    found = {run.id: run for run in (live_run(row, now) for row in alive)}
    found.update((run.id, run) for run in map(finished_run, done))
    return found


class _LetterGroupRow(Struct, frozen=True):
    """A row of `letter_groups`."""

    fingerprint: str | None
    letters: int
    jobs: int
    first_at: Micros
    last_at: Micros
    newest: str
    failure: str | None
    counted: int


def _group(row: _LetterGroupRow) -> LetterGroup:
    return LetterGroup(
        fingerprint=row.fingerprint,
        letters=int(row.letters),
        jobs=row.jobs,
        first_at=row.first_at,
        last_at=row.last_at,
        newest=row.newest,
        failure=None if row.failure is None else _decode_failure(row.failure),
    )


def _page(runs: Sequence[Run], limit: int) -> Page[Run]:
    items = list(runs[: fitting(map(_weight, runs), limit)])
    return Page(items, f"{items[-1].fire_time}:{items[-1].id}" if len(runs) > len(items) > 0 else None)


def _weight(run: Run) -> int:
    """About how long it is when it is shown."""
    failure = run.failure
    size = ROW_BYTES if failure is None else ROW_BYTES + len(failure.message) + sum(map(len, failure.exceptions))
    return size + len(run.progress_note) + len(run.reason)


def _place_of(run: Run) -> Place:
    return Place(run.fire_time, run.id)


def _start(run: Run) -> Micros:
    """When a run started, as far as known; 0: it has not."""
    if run.started_at is not None:
        return run.started_at
    return (run.claimed_at or 0) if run.status is Status.RUNNING else 0


def _place(cursor: str) -> Place:
    time, colon, run_id = cursor.partition(":")
    if not colon or not time.isascii() or not time.isdigit() or len(time) > 18:
        raise Invalid(f"{cursor[:64]!r} is not a cursor; use the one of the page before")
    return Place(int(time), plain(run_id))


def _named(after: Place) -> dict[str, Any]:
    return {"after_time": after.fire_time, "after_id": after.run_id}


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
