"""Rules that exist in Python and in SQL have the same results on both databases.

Each test has the name of the rule in Python. It writes rows for every combination of what the rule looks at, asks the
statement, and compares its answer with that of the function.
"""

import itertools
import random
from collections.abc import Iterable
from typing import Any, get_args

import pytest
from msgspec import Struct, structs

from tests.conformance.conftest import Tamper
from tests.support.builders import TENANT, interval, job, one_shot, run
from timeball.domain.dispatch.priority import CREDIT, LEVELS, rank
from timeball.domain.instant import HOUR, MINUTE, SECOND, Micros
from timeball.domain.job.job import Job, JobState
from timeball.domain.run import follow, ledger, lifecycle
from timeball.domain.run.ledger import DUE, TOLERANCE, Origin
from timeball.domain.run.lifecycle import State, Succeeded
from timeball.domain.run.status import LIVE, RAN, TERMINAL, Status
from timeball.domain.schedule.schedule import Follow, Immediate, On
from timeball.ports.store.jobs import JobFilter, Submission
from timeball.ports.store.queries import RunFilter
from timeball.ports.store.runs import Settlement
from timeball.stores.sql.dialect import Query
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.reading import ledger as ledger_reads
from timeball.stores.sql.reading.run_filters import _SHOWN_AS
from timeball.stores.sql.rows.runs import ended, new_run_row
from timeball.stores.sql.runs import settle_plain_success
from timeball.stores.sql.runs.candidates import ID
from timeball.stores.sql.runs.claiming import _claimable
from timeball.stores.sql.runs.follows import record_upstream_ends
from timeball.stores.sql.schema.runs import RUNS, HistoryRow, NewHistoryRow, RunRow
from timeball.stores.sql.schema.table import as_tuple
from timeball.stores.sql.tenants.stored_bytes import Results

NOT_STARTED: dict[str, Any] = {
    "attempt": 0,
    "token": None,
    "session": None,
    "worker": None,
    "claimed_at": None,
    "started_at": None,
    "attempt_started_at": None,
    "cancel_requested_at": None,
    "progress": None,
    "progress_note": "",
    "failure": None,
    "spec": None,
    "task_id": None,
    "poll": None,
    "gate": None,
    "gate_rank": None,
    "let_at": None,
    "permit": None,
    "needs": None,
    "cancel_reason": None,
    "kill": 0,
}
"""The columns of a live run that a new run leaves empty."""


def live_row(of: Job, fire_time: Micros, **columns: Any) -> RunRow:
    """A live run, READY unless `columns` say otherwise."""
    new = new_run_row(run(of, fire_time), 0, serial=False, eligible_at=fire_time)
    rules = dict.fromkeys(("retry_of", "due_at", "start_by", "ordering_key", "profile", "preemptible"))
    return RunRow(**{**rules, "gated": 0, **structs.asdict(new), **NOT_STARTED, **columns})


async def write(store: Any, rows: Iterable[RunRow]) -> None:
    async def work(tx: Tx) -> None:
        await tx.insert(RUNS, [as_tuple(row) for row in rows])

    await store._db.write(work)


async def fetch(store: Any, query: Query, **parameters: Any) -> list[Row]:
    async def work(tx: Tx) -> list[Row]:
        return list(await tx.fetch(query, **parameters))

    found: list[Row] = await store._db.write(work)
    return found


def columns_of(table: type[Struct]) -> str:
    return ", ".join(f"h.{name}" for name in table.__struct_fields__)


# --- ledger.verdict -----------------------------------------------------------------------------------------------


async def test_ledger_verdict(store: Any) -> None:
    """`record_successes` writes the row that `rows.runs.ended` makes, and with it the verdict of `ledger.verdict`."""
    now = store.now()
    submission = one_shot(now)
    await store.submit([Submission(submission.job, ())])
    fire_time = now - HOUR
    starts = (-SECOND, 0, TOLERANCE, TOLERANCE + 1, MINUTE)
    jitters = (None, 0, SECOND)
    earlier_starts = (None, TOLERANCE, TOLERANCE + 1)
    let_ats = (None, -SECOND, SECOND)
    rows: list[RunRow] = []
    settlements: list[Settlement] = []
    for token, (origin, start, jitter, earlier, let_at) in enumerate(
        itertools.product(Origin, starts, jitters, earlier_starts, let_ats), 1
    ):
        due = fire_time + (jitter or 0)
        row = live_row(
            submission.job,
            fire_time,
            state=State.RUNNING.value,
            origin=origin.value,
            attempt=1 if earlier is None else 2,
            token=token,
            session="w_1",
            worker="worker of w_1",
            claimed_at=fire_time,
            due_at=None if jitter is None else due,
            started_at=None if earlier is None else due + earlier,
            let_at=None if let_at is None else fire_time + let_at,
        )
        rows.append(row)
        settlements.append(
            Settlement(
                run_id=row.id,
                job_id=row.job_id,
                attempt=row.attempt,
                token=token,
                session="w_1",
                serial=False,
                outcome=Succeeded(),
                started_at=due + start,
                finished_at=due + start + MINUTE,
                spread=0.5,
            )
        )
    await write(store, rows)
    results = Results(store._quotas, now)
    await store._db.write(settle_plain_success.settling(settlements, results=results))

    stored = {
        found.id: found
        for found in itertools.starmap(
            HistoryRow, await fetch(store, Query("all", f"SELECT {columns_of(HistoryRow)} FROM history h"))
        )
    }
    assert len(stored) == len(rows)
    for row, settled in zip(rows, settlements, strict=True):
        assert settled.started_at is not None
        started_at = max(settled.started_at, row.due)  # a worker's clock may be behind the store's
        made = ended(row, Status.SUCCEEDED, max(settled.finished_at, started_at), started_at=started_at)
        found = stored[row.id]
        assert {name: getattr(found, name) for name in NewHistoryRow.__struct_fields__} == {
            name: getattr(made, name) for name in NewHistoryRow.__struct_fields__
        }
        first_start = started_at if row.started_at is None else row.started_at
        assert found.verdict == ledger.verdict(Status.SUCCEEDED, Origin(row.origin), row.due, first_start)


def test_ledger_due() -> None:
    """The statements of the ledger look at the origins in `ledger.DUE`, and at no other."""
    listed = ledger_reads._DUE.partition("IN (")[2].rstrip(")")
    assert {word.strip(" '") for word in listed.split(",")} == {origin.value for origin in DUE}


# --- lifecycle.status ---------------------------------------------------------------------------------------------


async def test_lifecycle_status(store: Any) -> None:
    """A filter by a live status finds exactly those runs that `lifecycle.status` shows as that status."""
    now = store.now()
    made = one_shot(now).job
    await store.submit([Submission(made, ())])
    times = (now - HOUR, now + HOUR)
    rows = [
        live_row(
            made,
            due - HOUR if has_jitter else due,
            state=state.value,
            attempt=attempt,
            eligible_at=eligible_at,
            due_at=due if has_jitter else None,
            session="w_1" if state is State.RUNNING else None,
        )
        for state, attempt, due, eligible_at, has_jitter in itertools.product(
            State, (0, 1, 2), times, times, (False, True)
        )
        if not is_ready_before_it_is_due(state, attempt, due, eligible_at, now)
    ]
    await write(store, rows)
    for status in LIVE:
        expected = {row.id for row in rows if status_of(row, now) is status}
        shown_as = Query("shown_as", f"SELECT r.id FROM runs r WHERE {_SHOWN_AS[status]}")
        assert {run_id for (run_id,) in await fetch(store, shown_as)} == expected, status
        page = await store.list_runs(RunFilter(tenant=TENANT, status=frozenset({status})), None, 1_000)
        assert {each.id: each.status for each in page.items} == dict.fromkeys(expected, status)
        assert await store.count_runs(RunFilter(tenant=TENANT, status=frozenset({status}))) == len(expected)


def is_ready_before_it_is_due(state: State, attempt: int, due: Micros, eligible_at: Micros, now: Micros) -> bool:
    """The store never makes a run eligible before it is due, and claims it at most a second before. If that attempt is
    lost within this second, the filter by `scheduled` finds the run until it is due, though it is shown as `retrying`:
    the one known difference between the two forms of the rule."""
    return state is State.READY and due > now and (attempt > 0 or eligible_at <= now)


def status_of(row: RunRow, now: Micros) -> Status:
    return lifecycle.status(State(row.state), attempt=row.attempt, due_at=row.due, eligible_at=row.eligible_at, now=now)


# --- priority.rank ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("credit", [0, 1, SECOND, CREDIT, HOUR])
async def test_priority_rank(store: Any, credit: Micros) -> None:
    """A claim for some slots gets the due runs of the lowest rank, then those of the lowest rank that are not due."""
    now = store.now()
    made = one_shot(now).job
    await store.submit([Submission(made, ())])
    chance = random.Random(credit)
    waits = (-30 * SECOND, -1, 0, 1, SECOND, CREDIT, 2 * CREDIT, 9 * CREDIT, HOUR, 9 * HOUR)
    rows = [
        live_row(made, eligible_at - chance.choice((0, SECOND)), priority=priority, eligible_at=eligible_at)
        for priority, wait in itertools.product(LEVELS, waits)
        for eligible_at in [now - MINUTE - wait if wait >= 0 else now + HOUR - wait]
    ]
    await write(store, rows)
    ordered = sorted(
        rows,
        key=lambda row: (
            row.eligible_at > now,
            rank(row.eligible_at, row.priority, credit),
            row.fire_time,
            row.id,
        ),
    )
    for free in (1, 2, 7, 50, len(rows) - 1, len(rows)):
        found = await fetch(store, _claimable(credit, False), ahead=2 * HOUR, free=free, level=None)
        assert {row[ID] for row in found} == {row.id for row in ordered[:free]}, free


async def test_priority_rank_within_one_level(store: Any) -> None:
    """Among runs of one priority the order of the index is the order of rank."""
    now = store.now()
    made = one_shot(now).job
    await store.submit([Submission(made, ())])
    waits = (0, 0, 1, SECOND, MINUTE, HOUR)
    rows = [live_row(made, now - wait, priority=5) for wait in waits]
    await write(store, rows)
    ordered = sorted(rows, key=lambda row: (rank(row.eligible_at, row.priority, CREDIT), row.fire_time, row.id))
    for free in range(1, len(rows) + 1):
        found = await fetch(store, _claimable(CREDIT, True), ahead=0, free=free, level=5)
        assert {row[ID] for row in found} == {row.id for row in ordered[:free]}


# --- follow.wants -------------------------------------------------------------------------------------------------


async def test_follow_wants(store: Any) -> None:
    """The end of a run is stored for exactly those followers whose schedule wants a run with that status."""
    now = store.now()
    followed = one_shot(now).job
    followers: dict[On, Job] = {on: job(now, schedule=Follow(job=followed.id, on=on)) for on in get_args(On)}
    await store.submit([Submission(each, ()) for each in (followed, *followers.values())])
    ends = {status: ended(live_row(followed, now), status, now) for status in TERMINAL}

    async def work(tx: Tx) -> set[str]:
        return await record_upstream_ends(tx, ends.values())

    answered = await store._db.write(work)
    stored = {
        (follower, cause) for follower, cause in await fetch(store, Query("all", "SELECT follower, cause FROM echoes"))
    }
    expected = {
        (follower.id, row.id)
        for (on, follower), (status, row) in itertools.product(followers.items(), ends.items())
        if follow.wants(on, status)
    }
    assert stored == expected
    assert answered == {cause for _, cause in expected} == {ends[status].id for status in RAN}


# --- the status of a job ------------------------------------------------------------------------------------------


async def test_status_of_a_job(store: Any, tamper: Tamper) -> None:
    """A filter by a status finds exactly those jobs that `jobs._status` shows with that status."""
    now = store.now()
    followed = one_shot(now).job
    await store.submit([Submission(followed, ())])
    schedules = (Immediate(), interval(), Follow(job=followed.id))
    for schedule, state, fires, is_alive in itertools.product(schedules, JobState, (False, True), (False, True)):
        made = job(now, schedule=schedule).with_(next_fire_at=now + HOUR if fires else None, plan_at=None)
        await store.submit([Submission(made, (run(made, now + HOUR),) if is_alive else ())])
        await tamper(f"UPDATE jobs SET state = '{state.value}' WHERE id = '{made.id}'")
    every = (await store.list_jobs(JobFilter(tenant=TENANT), None, 1_000)).items
    assert len(every) == 1 + len(schedules) * len(JobState) * 4
    statuses = ("scheduled", "paused", "completed", "cancelled")
    assert {each.status for each in every} == set(statuses)
    for count in range(1, len(statuses) + 1):
        for wanted in itertools.combinations(statuses, count):
            page = await store.list_jobs(JobFilter(tenant=TENANT, status=frozenset(wanted)), None, 1_000)
            assert {(each.job.id, each.status) for each in page.items} == {
                (each.job.id, each.status) for each in every if each.status in wanted
            }, wanted
