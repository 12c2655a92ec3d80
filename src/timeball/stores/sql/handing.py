"""Fresh runs for workers that wait: what is due when it is submitted is born in the hands of a worker.

It is spared the way through the queue, which is the half of its life's cost. Only a run that asks for nothing special
is, and only while nothing is ready that would go first.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from timeball.domain.instant import Micros
from timeball.domain.priority import rank
from timeball.domain.run import NewRun
from timeball.ports.store import Claim, Submission, Want
from timeball.stores.sql.claiming import crew, interleaved, per_level
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.library import query
from timeball.stores.sql.rows import handed_run_row

WAITING_NOW = query("waiting_now", levels=per_level("waiting_of_level"))


class Handed(Struct, frozen=True):
    """What is handed over, by run."""

    claims: dict[str, Claim] = {}
    rows: dict[str, Row] = {}


async def hand_over(
    tx: Tx, submissions: Sequence[Submission], specs: Sequence[str], wants: Sequence[Want], credit: Micros
) -> Handed:
    """Decide what is handed to whom; the rows are still to be inserted. `specs` are those of the jobs, encoded."""
    fresh = [
        (run, spec)
        for submission, spec in zip(submissions, specs, strict=True)
        if submission.job.spec.task_id is None
        for run in submission.runs
        if run.is_simple
    ]
    if not fresh or not wants:
        return Handed()
    waiting = await crew(tx, wants, 0)
    slots = interleaved(waiting.for_anybody)
    if not slots or waiting.unwell or waiting.fitted:
        return Handed()
    ((now, outranked),) = await tx.fetch(WAITING_NOW)
    due = [each for each in fresh if each[0].eligible_at <= now]
    if outranked:
        return Handed()
    special = sum(len(each.runs) for each in submissions) - len(fresh)
    due.sort(key=lambda each: (rank(each[0].eligible_at, each[0].priority, credit), each[0].fire_time, each[0].id))
    due = due[: max(0, len(slots) - special)]  # a slot is left to each that a claim looks at: it may be the better one
    handed = Handed({}, {})
    if not due:
        return handed
    for (run, spec), token, want in zip(due, await tx.tokens(len(due)), slots, strict=False):
        worker = waiting.rows[want.session][1]
        handed.rows[run.id] = handed_run_row(run, token, want.session, worker, want.poll, now)
        handed.claims[run.id] = _claim(run, spec, token, want)
    return handed


def _claim(run: NewRun, spec: str, token: int, want: Want) -> Claim:
    return Claim(
        session=want.session,
        poll=want.poll,
        run_id=run.id,
        job_id=run.job_id,
        attempt=1,
        token=token,
        fire_time=run.fire_time,
        eligible_at=run.eligible_at,
        serial=False,
        spec=spec.encode(),
        task=None,
    )
