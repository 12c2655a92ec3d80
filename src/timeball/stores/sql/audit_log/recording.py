"""Adds what a transaction changes to `tx.audited`, for the audit log. It costs nothing if no request asked for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

import msgspec

from timeball.domain.audit_log.change import AuditedChange
from timeball.domain.audit_log.entry import Actor
from timeball.domain.audit_log.values import Values
from timeball.domain.instant import render
from timeball.domain.job.job import Job, encode_spec
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.rows.values import plain


def record(
    tx: Tx,
    resource: str,
    ident: str,
    *,
    before: Values | None = None,
    after: Values | None = None,
    size: int = 0,
    chain: str = "",
    actor: Actor | None = None,
) -> None:
    """Record that one thing was created, changed or deleted. Three things are given only where the request does not
    determine them: `size`, the number of characters of the values, if they may be large; `chain`, the chain of the
    entry, if it may not be that of the tenant of the request; and `actor`, the caller, if only the change shows it."""
    if tx.audited is not None:
        tx.audited.append(AuditedChange(resource, plain(ident), lambda: (before, after), size, chain, actor))


def record_jobs(tx: Tx, jobs: Iterable[tuple[Job | None, Job]]) -> None:
    """Record jobs, each before and after the change; before is None if it is new."""
    if tx.audited is not None:
        found = list(jobs)
        tx.audited += [job_change(before, after, is_only=len(found) == 1) for before, after in found]


def record_runs(tx: Tx, runs: Mapping[str, Values]) -> None:
    """Record runs that a user started, cancelled, retried, replayed or discarded: by run id, the values that the
    audit log shows after the action."""
    if tx.audited is not None:
        for run_id, after in runs.items():
            record(tx, "run", run_id, after=after)


def job_change(before: Job | None, after: Job, *, is_only: bool) -> AuditedChange:
    """Return the change of a job. Only the entry of a request on one job has the values, which take time to measure."""
    size = len(encode_spec(after.spec)) if is_only else 0
    return AuditedChange("job", after.id, partial(_describe_job, before, after), size)


def _describe_job(before: Job | None, after: Job) -> tuple[Values | None, Values | None]:
    return None if before is None else _job_values(before), _job_values(after)


def _job_values(job: Job) -> Values:
    values = {**msgspec.json.decode(encode_spec(job.spec)), "state": job.state.value}
    if job.pause_reason:
        values["pauseReason"] = job.pause_reason
    if job.paused_until is not None:
        values["pausedUntil"] = render(job.paused_until)
    return values
