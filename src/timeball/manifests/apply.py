"""Doing what was planned, one job after the other. Whatever breaks off, the same again does what is left."""

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
from timeball.manifests.diff import Known
from timeball.manifests.plan import Plan, Step
from timeball.manifests.remote import RemoteServer

# About one job, and no reason to leave the others undone.
_ITS_OWN = (Conflict, IdempotencyMismatch, Invalid, NotFound, PreconditionFailed, TooLarge)


@dataclass(frozen=True, slots=True)
class Done:
    step: Step
    job: Known | None = None
    """As it is now; None: it was cancelled, or refused."""
    error: TimeballError | None = None


def apply(plan: Plan, server: RemoteServer) -> Iterator[Done]:
    """What becomes of each step, as soon as it is known. A job that is refused keeps no other from being applied;
    a server that does not answer, or does not allow it, ends everything."""
    for step in plan.pending:
        try:
            yield Done(step, _do(step, plan, server))
        except _ITS_OWN as error:
            yield Done(step, error=_told(error))


def _do(step: Step, plan: Plan, server: RemoteServer) -> Known | None:
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


def _create(step: Step, plan: Plan, server: RemoteServer) -> Known:
    assert step.declared is not None
    spec = diff.marked(step.declared.spec, plan.set_name)
    create = server.create_paused if step.declared.paused else server.create
    return create(spec, plan.set_name, step.predecessor)


def _change(step: Step, plan: Plan, server: RemoteServer) -> Known:
    """A pause comes before the other changes, and a resumption after them: nothing fires by half of a change."""
    assert step.declared is not None
    assert step.known is not None
    job = step.known
    paused = next((bool(change.new) for change in step.changes if change.field == "paused"), None)
    if paused:
        job = server.pause(job)
    if body := diff.patch(_whole(step.known), _wanted(step, plan)):
        job = server.change(job, body)
    return server.resume(job) if paused is False else job


def _whole(known: Known) -> JobSpec:
    """With its marks."""
    spec = known.spec
    for name in known.sets:
        spec = diff.marked(spec, name)
    return spec


def _wanted(step: Step, plan: Plan) -> JobSpec:
    """Files without a set leave a job in the set that it is in."""
    assert step.declared is not None
    assert step.known is not None
    sets = step.known.sets if plan.set_name is None else (plan.set_name,)
    spec = step.declared.spec
    for name in sets:
        spec = diff.marked(spec, name)
    return spec


def _told(error: TimeballError) -> TimeballError:
    if isinstance(error, IdempotencyMismatch):
        return Conflict("somebody else creates it at the same time, and otherwise; plan again")
    if isinstance(error, PreconditionFailed):
        return PreconditionFailed("somebody else changed it meanwhile, and nothing of that was overwritten; plan again")
    return error
