"""Fresh runs for workers that wait: what is due when it is submitted is born in the hands of a worker.

It is spared the way through the queue, which is half of its life's cost. That is fair only while nothing is ready that
may go first, and if it asks for nothing special; else a claim decides.
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
    """What is handed over, by run; the rows are still to be inserted."""

    claims: dict[str, Claim] = {}
    rows: dict[str, Row] = {}


async def hand_over(
    tx: Tx, submissions: Sequence[Submission], specs: Sequence[str], wants: Sequence[Want], credit: Micros
) -> Handed | None:
    """Decide what is handed to whom; None: a claim has to. `specs` are those of the jobs, encoded."""
    if not all(run.is_simple for each in submissions if each.runs for run in each.runs):
        return None
    if any(each.job.spec.task_id is not None for each in submissions if each.runs):
        return None
    waiting = await crew(tx, wants, 0)
    slots = interleaved(waiting.for_anybody)
    if waiting.unwell or waiting.fitted:
        return None
    ((now, outranked),) = await tx.fetch(WAITING_NOW)
    if outranked:
        return None
    due = [
        (run, spec)
        for submission, spec in zip(submissions, specs, strict=True)
        for run in submission.runs
        if run.eligible_at <= now
    ]
    due.sort(key=lambda each: (rank(each[0].eligible_at, each[0].priority, credit), each[0].fire_time, each[0].id))
    due = due[: len(slots)]
    handed = Handed({}, {})
    for (run, spec), token, want in zip(due, await tx.tokens(len(due)) if due else (), slots, strict=False):
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
