"""Applies a plan, one job after the other. After an interruption, the next plan has the steps that are missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from timeball.domain.errors import (
    Conflict,
    IdempotencyMismatch,
    Invalid,
    NotFound,
    PreconditionFailed,
    TimeballError,
    TooLarge,
)
from timeball.domain.job.job import JobSpec
from timeball.manifests import diff
from timeball.manifests.diff import KnownJob
from timeball.manifests.plan import ApplyStep, ManifestPlan
from timeball.manifests.remote import RemoteServer

# Errors that concern one job only: the others are still applied.
_ITS_OWN = (Conflict, IdempotencyMismatch, Invalid, NotFound, PreconditionFailed, TooLarge)


@dataclass(frozen=True, slots=True)
class Done:
    """The result of one step."""

    step: ApplyStep
    job: KnownJob | None = None
    """The job after the step; None: it was cancelled, or the server refused the step."""
    error: TimeballError | None = None


def apply(plan: ManifestPlan, server: RemoteServer) -> Iterator[Done]:
    """Apply the steps of a plan. Yield the result of each step when it is known. If the server refuses one job, the
    others are still applied. If it does not answer or denies permission, the error is raised and ends everything.
    """
    for step in plan.pending:
        try:
            yield Done(step, _do(step, plan, server))
        except _ITS_OWN as error:
            yield Done(step, error=_readable(error))


def _do(step: ApplyStep, plan: ManifestPlan, server: RemoteServer) -> KnownJob | None:
    match step.action:
        case "create":
            return _create(step, plan, server)
        case "change":
            return _change(step, plan, server)
        case "cancel":
            assert step.known is not None
            server.cancel(step.known)
            return None
        case "undeclared" | "unchanged":
            return step.known
        case _:
            assert_never(step.action)


def _create(step: ApplyStep, plan: ManifestPlan, server: RemoteServer) -> KnownJob:
    assert step.declared is not None
    spec = diff.marked(step.declared.spec, plan.set_name)
    create = server.create_paused if step.declared.paused else server.create
    return create(spec, plan.set_name, step.predecessor)


def _change(step: ApplyStep, plan: ManifestPlan, server: RemoteServer) -> KnownJob:
    """Change a job. A pause is applied before the other changes and a resume after them, so that no fire happens when
    only a part of the change is applied.
    """
    assert step.declared is not None
    assert step.known is not None
    job = step.known
    paused = next((bool(change.new) for change in step.changes if change.field == "paused"), None)
    if paused:
        job = server.pause(job)
    if body := diff.patch(_whole(step.known), _wanted(step, plan)):
        job = server.change(job, body)
    return server.resume(job) if paused is False else job


def _whole(known: KnownJob) -> JobSpec:
    """Return the spec of a job with the tags that mark its sets."""
    spec = known.spec
    for name in known.sets:
        spec = diff.marked(spec, name)
    return spec


def _wanted(step: ApplyStep, plan: ManifestPlan) -> JobSpec:
    """Return the declared spec with the tag of its set. If the files name no set, the job stays in the set that it is
    in.
    """
    assert step.declared is not None
    assert step.known is not None
    sets = step.known.sets if plan.set_name is None else (plan.set_name,)
    spec = step.declared.spec
    for name in sets:
        spec = diff.marked(spec, name)
    return spec


def _readable(error: TimeballError) -> TimeballError:
    if isinstance(error, IdempotencyMismatch):
        return Conflict("another request created it with other fields at the same time; plan again")
    if isinstance(error, PreconditionFailed):
        return PreconditionFailed("another request changed it after it was read; nothing was overwritten; plan again")
    return error
