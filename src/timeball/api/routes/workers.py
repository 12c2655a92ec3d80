"""Routes that list connected workers, and order one to drain."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from timeball.api.routing import Answer, Call, Route, answer_json
from timeball.api.rows import rows
from timeball.api.views import moment
from timeball.domain.dispatch import placement
from timeball.domain.identity.permission import Permission
from timeball.domain.instant import render
from timeball.operation.workers.drain_worker import drain_worker
from timeball.ports.store.workers import SessionEnd, WorkerRecord

MAX_GONE: Final = 200
"""Maximum number of workers in a list whose sessions have ended."""
WorkerStatus = Literal["live", "draining", "lost", "left"]


class InUse(Struct, frozen=True, rename="camel"):
    """The resources of a worker that its runs use. CPUs and memory are counted for runs that ask for them."""

    slots: int
    cpu: float
    memory_mb: int


class PoolView(Struct, frozen=True, rename="camel"):
    """How many of the worker's runs of one sort may execute at the same time."""

    name: str
    """`threads`: plain Python functions. `processes`: commands, scripts, and Python functions in processes."""
    slots: int


class WorkerView(Struct, frozen=True, rename="camel", kw_only=True):
    worker_id: str
    name: str
    status: WorkerStatus
    """`draining`: it was ordered to drain. It gets no new runs, and leaves when its runs have ended. `lost`: its lease
    ran out. `left`: it was stopped, or drained."""
    draining_since: str | None
    ended_at: str | None
    """When its lease ran out, or when it left; null while its lease is valid."""
    slots: int
    pools: list[PoolView]
    """Bounds for some of its runs; empty if runs of any kind may take all slots."""
    running: int
    """Number of runs that the worker executes now; for callers that may not manage the fleet, of their tenant."""
    cpu: float | None
    """CPUs for runs that ask for CPUs; null if there is no limit."""
    memory_mb: int | None
    in_use: InUse
    labels: list[str]
    dedicated: bool
    """True if it accepts only runs that ask for one of its labels."""
    kinds: list[str] | None
    """The task kinds that it accepts; null for all."""
    reserved_for: str | None
    """The requirements of a waiting run that needs this worker. Until it has room for that run, it accepts no other."""
    tasks: list[str]
    version: str
    started_at: str
    seen_at: str
    lease_until: str


class WorkerList(Struct, frozen=True, rename="camel"):
    items: list[WorkerView]
    next_cursor: str | None = None


class WorkersQuery(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    include: Annotated[
        Literal["", "gone"],
        Meta(description="`gone`: also workers that were lost or left within the last hour, at most 200."),
    ] = ""


class DrainAnswer(Struct, frozen=True, rename="camel"):
    worker_id: str
    status: Literal["draining"]


async def list_workers(call: Call) -> Answer:
    query: WorkersQuery = call.query
    tenant = None if call.caller.may(Permission.SYSTEM) else call.tenant
    workers = await call.context.store.workers(tenant)
    if query.include == "gone":
        workers += await call.context.store.gone_workers(MAX_GONE, tenant)
    return answer_json({"items": rows(workers, _view, "workerId", lambda worker: worker.session), "nextCursor": None})


async def drain(call: Call) -> Answer:
    await drain_worker(call.context, call.worker_id)
    return answer_json(DrainAnswer(call.worker_id, "draining"), 202)


def _status(worker: WorkerRecord) -> WorkerStatus:
    if worker.ended is not None:
        return "lost" if worker.ended is SessionEnd.LOST else "left"
    return "live" if worker.draining_since is None else "draining"


def _view(worker: WorkerRecord) -> WorkerView:
    return WorkerView(
        worker_id=worker.session,
        name=worker.name,
        status=_status(worker),
        draining_since=moment(worker.draining_since),
        ended_at=None if worker.ended is None else render(worker.lease_until),
        slots=worker.slots,
        pools=[PoolView(pool.name, pool.slots) for pool in worker.pools],
        running=worker.running,
        cpu=worker.cpu,
        memory_mb=worker.memory_mb,
        in_use=InUse(worker.used.slots, worker.used.cpu / 1000, worker.used.memory),
        dedicated=worker.dedicated,
        kinds=worker.kinds,
        reserved_for=None if worker.reserved_for is None else str(placement.need_of(worker.reserved_for)),
        labels=worker.labels,
        tasks=worker.tasks,
        version=worker.version,
        started_at=render(worker.started_at),
        seen_at=render(worker.seen_at),
        lease_until=render(worker.lease_until),
    )


ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/workers",
        permission=Permission.READ,
        summary="List workers, newest first",
        description=(
            "Workers with a valid lease; with `include=gone`, those that have gone follow them. A caller that may not"
            " manage the fleet gets those that serve its tenant, and what the runs of its tenant use."
        ),
        handle=list_workers,
        query=WorkersQuery,
        answer=WorkerList,
    ),
    Route(
        method="POST",
        path="/v1/workers/{workerId}/drain",
        permission=Permission.SYSTEM,
        summary="Drain a worker",
        audit="worker.drain",
        description=(
            "From now on the worker gets no new runs. It finishes those that it has, however long they take, and"
            " leaves: then it is not listed any more. Runs that it has not started return to the queue. The order is"
            " final; the process has to be started again to take runs."
        ),
        handle=drain,
        answer=DrainAnswer,
        status=202,
        problems=(404,),
    ),
)
