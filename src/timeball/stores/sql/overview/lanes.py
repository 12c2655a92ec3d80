"""Jobs, runs and counts for the lanes of the timeline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

from timeball.domain.instant import DAY, Micros
from timeball.domain.job.job import Job, JobState
from timeball.domain.overview.lanes import LaneCounts, LaneJob, LaneRun, LaneVerdict, Sample, shown
from timeball.domain.run.ledger import Origin, Verdict
from timeball.domain.run.status import GAVE_UP, Status
from timeball.stores.sql.day_ranges import day_range
from timeball.stores.sql.dialect import Query
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.jobs.text_search import TEXT_IN_NAME, text_parameters
from timeball.stores.sql.names import resolve
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.reading import run_filters
from timeball.stores.sql.rows.jobs import read_jobs
from timeball.stores.sql.rows.runs import shown_as
from timeball.stores.sql.rows.values import plain
from timeball.stores.sql.statements import many, query

_SHOWN: Final = (
    "r.id, r.job_id, r.fire_time, r.fire_until, r.fires, r.origin, r.status, r.verdict,"
    " COALESCE(r.due_at, r.fire_time), r.started_at, r.finished_at"
)
SAMPLED_FINISHED = many(query("sampled_finished", shown_as_lane=_SHOWN))
FINISHED_OF_LANES = many(query("finished_of_lanes", shown_as_lane=_SHOWN))
SHORT_SPANS_OF_LANES = query("short_spans_of_lanes", shown_as_lane=_SHOWN, length=run_filters.SHORT)
LAST_SPANS = query("last_spans")
LONG_SPANS_OF_LANES = query("long_spans_of_lanes", shown_as_lane=_SHOWN)
LIVE_OF_LANES = many(query("live_of_lanes"))
LIVE_OF_TENANT = tuple(
    query("live_of_tenant", found_by=resolve(found_by))
    for found_by in (
        "r.state = {state.running} AND r.session > ''",
        "r.state = {state.ready} AND r.state <> {state.running}",
        "r.state = {state.blocked} AND r.state <> {state.running}",
    )
)
NEWEST_WITH_TAG = query("newest_with_tag")
TAGS_OF_JOBS = query("tags_of_jobs")
NEWEST_FIRES = query("newest_fires")
COUNTED_OF_LANES = query("counted_of_lanes")
FIRES_OF_LANES = query("fires_of_lanes")
JOBS_BY_ID = query("jobs_by_id")
_NOTABLE: Final = resolve("(r.verdict <> {verdict.on_time} OR r.origin <> {origin.schedule})")
_PLAIN_FAILURE: Final = resolve(
    "r.status <> {status.succeeded} AND r.verdict = {verdict.on_time} AND r.origin = {origin.schedule}"
)
EXCEPTIONS_OF_LANES = (
    query("exceptions_of_lanes", listed=_NOTABLE),
    *(query("exceptions_of_lanes", listed=f"r.status = '{status.value}' AND {_PLAIN_FAILURE}") for status in GAVE_UP),
)
"""Statements for runs that are not plain successes. The first one finds runs with another verdict than on time, or with
another origin than the schedule. The others find scheduled runs that started on time and ended with one of the statuses
in `GAVE_UP`."""

MAX_LIVE: Final = 500
"""Maximum number of live runs of each state whose jobs may get a lane."""
MAX_FIRING_NEXT: Final = 300
"""Maximum number of jobs that may get a lane because they fire next."""
MAX_LOOKED_AT: Final = 10_000
"""Maximum number of jobs, in the order of their next fires, whose names are compared with the text of a search."""
MAX_WITH_TAG: Final = 1_000
MAX_EXCEPTIONS: Final = 10_000
"""Maximum number of exceptions that each statement of `EXCEPTIONS_OF_LANES` counts in all lanes together. The jobs get
equal parts of it, but at least 10 each."""
MAX_SPANS: Final = 5
"""Maximum number of spans of each job that began less than a day before the range and reach into it."""


_ORIGINS: Final = {origin.value: origin for origin in Origin}
_STATUSES: Final = {status.value: status for status in Status}
_VERDICTS: Final = {verdict.value: verdict for verdict in Verdict}
"""The verdicts by value. A lookup in a dictionary is much faster than a call of the enum class."""


class Lanes(StorePart):
    async def sampled_runs(self, tenant: str, edges: Sequence[Micros], limit: int) -> Sample:
        async def work(tx: Tx) -> Sample:
            made = day_range(self._db.now(), fires_from=edges[0])._asdict()
            places = [(place, since, until) for place, (since, until) in enumerate(pairwise(edges))]
            rows = await tx.fetch(SAMPLED_FINISHED, b=places, tenant=tenant, limit=limit, **made)
            counts: dict[int, int] = {}
            for row in rows:
                counts[row[0]] = counts.get(row[0], 0) + 1
            runs = [_finished(row[1:]) for row in rows]
            return Sample(runs, frozenset(place for place, count in counts.items() if count >= limit))

        return await self._db.read(work, slow=True, may_lag=True)

    async def lane_jobs(
        self, tenant: str, ids: Sequence[str], since: Micros, *, text: str | None = None, tag: str | None = None
    ) -> list[LaneJob]:
        given = _given(tenant, text, tag)

        async def work(tx: Tx) -> list[LaneJob]:
            now = self._db.now()
            live = await _live(tx, tenant)
            wanted = dict.fromkeys((*ids, *live))
            limits = {"looked_at": MAX_FIRING_NEXT if text is None else MAX_LOOKED_AT, "limit": MAX_FIRING_NEXT}
            firing = [job_id for (job_id,) in await tx.fetch(_firing_next(text is not None), **given, **limits)]
            if tag is not None:
                firing += [job_id for (job_id,) in await tx.fetch(NEWEST_WITH_TAG, **given, limit=MAX_WITH_TAG)]
            rows = await tx.fetch(
                _lane_jobs(text is not None, tag is not None), **given, b=[*(wanted | dict.fromkeys(firing))]
            )
            unknown = [job_id for job_id, *_ in rows if job_id not in wanted]
            made = day_range(now, fires_from=since)._asdict()
            newest = dict(await tx.fetch(NEWEST_FIRES, b=unknown, since=since, **made)) if unknown else {}
            tags: dict[str, list[str]] = {}
            for job_id, each in await tx.fetch(TAGS_OF_JOBS, b=[job_id for job_id, *_ in rows]):
                tags.setdefault(job_id, []).append(each)
            found: list[LaneJob] = []
            for job_id, name, state, next_fire_at, size, follows in rows:
                first, last = live.get(job_id, (None, None))
                coming = [at for at in (next_fire_at, last) if at is not None and at > now]
                found.append(
                    LaneJob(
                        id=job_id,
                        name=name,
                        state=JobState(state),
                        next_fire_at=min(coming, default=next_fire_at),
                        last_at=now if first is not None and first <= now else newest.get(job_id),
                        size=size,
                        goes_on=bool(follows) or next_fire_at is not None or job_id in live,
                        tags=tuple(tags.get(job_id, ())),
                    )
                )
            return found

        return await self._db.read(work, slow=True, may_lag=True)

    async def lane_runs(self, job_ids: Sequence[str], since: Micros | None, until: Micros, limit: int) -> list[LaneRun]:
        async def work(tx: Tx) -> list[LaneRun]:
            now = self._db.now()
            alive = await tx.fetch(LIVE_OF_LANES, b=list(job_ids), until=min(until, now + 1), limit=limit)
            done = [] if since is None else await _ended(tx, job_ids, since, until, limit, now)
            found = {run.id: run for run in (_live_run(row, now) for row in alive)}
            found.update((run.id, run) for run in map(_finished, done))
            return list(found.values())

        return await self._db.read(work, slow=True, may_lag=True) if job_ids else []

    async def lane_counts(
        self, job_ids: Sequence[str], edges: Sequence[Micros], limit: int
    ) -> dict[str, list[LaneCounts]]:
        async def work(tx: Tx) -> dict[str, list[LaneCounts]]:
            parts, made = len(edges) - 1, _made(self._db.now(), edges[0])
            span = {"since": edges[0], "until": edges[-1], "parts": parts, "length": edges[-1] - edges[0]}
            share = max(parts, limit // len(job_ids))
            whole = [(job_id, 0, edges[0], edges[-1]) for job_id in job_ids]
            runs = await tx.fetch(COUNTED_OF_LANES, b=whole, limit=share, **made)
            busy = [job_id for job_id, _, count in runs if count >= share]
            others = [job_id for job_id, _, count in runs if 0 < count < share]
            totals = await tx.fetch(FIRES_OF_LANES, b=others, **span, **made) if others else []
            if busy:
                ranges = [(job_id, at, *ends) for job_id in busy for at, ends in enumerate(pairwise(edges))]
                totals += await tx.fetch(COUNTED_OF_LANES, b=ranges, limit=share // parts, **made)
            few = max(10, MAX_EXCEPTIONS // len(job_ids))
            exceptions: list[Row] = []
            for each in EXCEPTIONS_OF_LANES:
                exceptions += await tx.fetch(each, b=list(job_ids), limit=few, **span, **made)
            return _lane_counts(job_ids, parts, totals, exceptions, {*busy}, share // parts)

        return await self._db.read(work, slow=True, may_lag=True) if job_ids else {}

    async def schedules_of(self, job_ids: Sequence[str]) -> list[Job]:
        async def work(tx: Tx) -> list[Job]:
            return await read_jobs(tx, await tx.fetch(JOBS_BY_ID, b=list(job_ids)))

        return await self._db.read(work, slow=True, may_lag=True) if job_ids else []


async def _ended(tx: Tx, job_ids: Sequence[str], since: Micros, until: Micros, limit: int, now: Micros) -> list[Row]:
    """Return finished runs whose fires are in a range, and spans (ledger rows of several fires) that began before the
    range and reach into it. An index finds spans that began less than a day before the range; of longer spans, only the
    newest ledger row of each job is checked."""
    lanes: dict[str, Any] = {"b": list(job_ids), "since": since}
    rows = await tx.fetch(FINISHED_OF_LANES, **lanes, until=until, limit=limit, **_made(now, since))
    begins = since - DAY
    rows += await tx.fetch(SHORT_SPANS_OF_LANES, **lanes, begins=begins, limit=MAX_SPANS, **_made(now, begins))
    if last := [span_id for (span_id,) in await tx.fetch(LAST_SPANS, b=list(job_ids))]:
        rows += await tx.fetch(LONG_SPANS_OF_LANES, b=last, since=since, begins=begins)
    return rows


def _made(now: Micros, fires_from: Micros) -> dict[str, str]:
    return day_range(now, fires_from=max(0, fires_from))._asdict()


def _given(tenant: str, text: str | None, tag: str | None) -> dict[str, str]:
    given = {"tenant": tenant}
    if text is not None:
        given |= text_parameters(text)
    if tag is not None:
        given["tag"] = plain(tag)
    return given


_TAGGED: Final = "EXISTS (SELECT 1 FROM job_tags t WHERE t.job_id = j.id AND t.tag = :tag)"


@lru_cache(maxsize=4)
def _firing_next(has_text: bool) -> Query:
    return query("firing_next", where=TEXT_IN_NAME if has_text else "true")


@lru_cache(maxsize=8)
def _lane_jobs(has_text: bool, has_tag: bool) -> Query:
    conditions = [*([TEXT_IN_NAME] if has_text else []), *([_TAGGED] if has_tag else [])]
    return query("lane_jobs", where=" AND ".join(conditions) or "true")


async def _live(tx: Tx, tenant: str) -> dict[str, tuple[Micros, Micros]]:
    """Return jobs of a tenant with live runs, each with the first and the last fire of these. Of each state, at most
    `MAX_LIVE` runs are read."""
    found: dict[str, tuple[Micros, Micros]] = {}
    for each in LIVE_OF_TENANT:
        for job_id, first, last in await tx.fetch(each, tenant=tenant, limit=MAX_LIVE):
            known = found.get(job_id, (first, last))
            found[job_id] = (min(first, known[0]), max(last, known[1]))
    return found


def _finished(row: Row) -> LaneRun:
    run_id, job_id, fire_time, fire_until, fires, origin, status, verdict, due, started_at, finished_at = row
    return LaneRun(
        id=run_id,
        job_id=job_id,
        fire_time=fire_time,
        fire_until=fire_until,
        fires=fires,
        origin=_ORIGINS[origin],
        status=_STATUSES[status],
        verdict=_VERDICTS[verdict],
        due=due,
        started_at=started_at,
        finished_at=finished_at,
    )


def _live_run(row: Row, now: Micros) -> LaneRun:
    run_id, job_id, fire_time, origin, state, attempt, due, eligible_at, started_at = row
    return LaneRun(
        id=run_id,
        job_id=job_id,
        fire_time=fire_time,
        fire_until=fire_time,
        fires=1,
        origin=Origin(origin),
        status=shown_as(now, state, attempt, due, eligible_at),
        verdict=Verdict.OPEN,
        due=due,
        started_at=started_at,
        finished_at=None,
    )


def _lane_counts(
    job_ids: Iterable[str],
    parts: int,
    totals: Iterable[Row],
    exceptions: Iterable[Row],
    busy: Set[str],
    limit: int,
) -> dict[str, list[LaneCounts]]:
    """Return the counts of each lane. The number of runs on time is the number of all counted runs minus the
    exceptions. For jobs in `busy`, at most `limit` runs of each part were counted, and parts that reach the limit are
    marked as `capped`.
    """
    found = {job_id: [LaneCounts({}) for _ in range(parts)] for job_id in job_ids}

    def count(job_id: str, place: int, what: LaneVerdict, times: int) -> None:
        counts = found[job_id][place].counts
        counts[what] = counts.get(what, 0) + times

    for job_id, place, runs in totals:
        count(job_id, place, LaneVerdict.ON_TIME, runs)
        found[job_id][place].capped = job_id in busy and runs >= limit
    for job_id, place, status, verdict, fires, runs in exceptions:
        count(job_id, place, LaneVerdict.ON_TIME, -runs)
        count(job_id, place, shown(Status(status), Verdict(verdict)), int(fires))
    for stretches in found.values():
        for stretch in stretches:
            stretch.counts = {what: times for what, times in stretch.counts.items() if times > 0}
    return found
