"""Runs that could be claimed: the rows that a claim reads, with the gates and the capacity that each run needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, Final

import msgspec
from msgspec import Struct

from timeball.domain.dispatch import placement
from timeball.domain.dispatch.claim_rooms import TaskSort
from timeball.domain.dispatch.limits import Concurrency, RateLimit
from timeball.domain.dispatch.placement import PLAIN, Need
from timeball.domain.dispatch.slot_pools import PoolRoom
from timeball.domain.instant import Micros
from timeball.domain.task.task import Task, host_of
from timeball.ports.store.runs import Claim, SlotRequest
from timeball.stores.sql.driver import Row
from timeball.stores.sql.rows.unreadable import unread
from timeball.stores.sql.runs.claim_kinds import sort_of
from timeball.stores.sql.runs.claimants import LeasedSession
from timeball.stores.sql.runs.gates import FailingHosts, Gates


class ClaimCandidate(Struct, frozen=True):
    """A run that could be claimed: a row of the statements `claimable`, `claimable_of_level` and `fitting_runs`."""

    id: str
    job_id: str
    attempt: int
    fire_time: Micros
    eligible_at: Micros
    serial: int
    priority: int
    now: Micros
    spec: str
    task: str | None
    tenant: str
    ordering_key: str | None
    gated: int
    profile: str | None
    traceparent: str | None


_column = ClaimCandidate.__struct_fields__.index
ID, JOB_ID, FIRE_TIME, ELIGIBLE_AT = map(_column, ("id", "job_id", "fire_time", "eligible_at"))
PRIORITY, NOW, SPEC, TASK, GATED, PROFILE = map(_column, ("priority", "now", "spec", "task", "gated", "profile"))
"""Positions of these columns in the row of a candidate. Most candidates are assigned from their plain rows, because
creating a `ClaimCandidate` for each row would cost more than choosing among them.
"""
UNREADABLE: Final = Gates("")
"""Marks a run whose spec this version cannot decode. The claim postpones the run and assigns the others."""


class _Limits(Struct, rename="camel"):
    """The fields of a spec that name gates; the rest of the spec is not decoded."""

    concurrency: Concurrency | None = None
    rate_limit: RateLimit | None = None
    task: Task | None = None


_decode_limits = msgspec.json.Decoder(_Limits).decode
_decode_task: Any = msgspec.json.Decoder(Task).decode


def may_be_http(task: str) -> bool:
    """True if the JSON of a task, or of a spec, may be an HTTP call. This costs less than to decode it."""
    return '"http"' in task


def gates_of(each: ClaimCandidate, failing: FailingHosts) -> Gates | None:
    """Return the gates of a run; None if it has none. A host is a gate only if it is among the failing hosts."""
    if not each.gated and not may_be_http(each.task or each.spec):
        return None
    try:
        limits = _decode_limits(each.spec)
        task = limits.task if each.task is None else _decode_task(each.task)
    except msgspec.MsgspecError as error:
        unread(each.job_id, error)
        return UNREADABLE
    host = None if task is None else host_of(task)
    if host is not None and not failing.includes(each.tenant, host):
        host = None
    if limits.concurrency is None and limits.rate_limit is None and host is None:
        return None
    return Gates(each.tenant, limits.concurrency, limits.rate_limit, host)


def need_of_run(each: ClaimCandidate) -> Need:
    return PLAIN if each.profile is None else placement.need_of(each.profile)


def sort_of_run(each: ClaimCandidate) -> TaskSort:
    return sort_of(each.job_id, each.spec, each.task)


class Fit(IntEnum):
    """Whether the runs of a claim, each for the worker whose slot it got, fit into the pools of these workers."""

    UNBOUNDED = 0
    """No run is in a pool."""
    FITS = 1
    CROWDED = 2
    """A pool has fewer free slots than its runs."""


def fit(rows: Iterable[Row], slots: Iterable[SlotRequest]) -> Fit:
    rooms: dict[str, PoolRoom] = {}
    for row, want in zip(rows, slots, strict=False):
        if want.room is None or (pool := want.room.pools.of(*sort_of(row[JOB_ID], row[SPEC], row[TASK]))) is None:
            continue
        room = rooms.get(want.session)
        if room is None:
            room = rooms[want.session] = want.room.copy()
        if not room.has(pool):
            return Fit.CROWDED
        room.take(pool)
    return Fit.FITS if rooms else Fit.UNBOUNDED


def claim_row(
    row: Row, token: int, want: SlotRequest, leased: Mapping[str, LeasedSession]
) -> tuple[str, int, str, str, int]:
    return row[ID], token, want.session, leased[want.session].name, want.poll


def claim_of(row: Row, token: int, want: SlotRequest, pooled: bool) -> Claim:
    """Return the claim of a run. `pooled` is False if no run of the claim is in a slot pool."""
    run_id, job_id, attempt, fire_time, eligible_at, serial, _, _, spec, task, tenant, key, _, profile, trace = row
    pools = None if want.room is None or not pooled else want.room.pools
    return Claim(
        session=want.session,
        poll=want.poll,
        run_id=run_id,
        job_id=job_id,
        attempt=attempt + 1,
        token=token,
        fire_time=fire_time,
        eligible_at=eligible_at,
        serial=bool(serial),
        turn=None if key is None else (tenant, key),
        spec=spec.encode(),
        task=None if task is None else task.encode(),
        slots=1 if profile is None else placement.need_of(profile).slots,
        tenant=tenant,
        pool=None if pools is None else pools.of(*sort_of(job_id, spec, task)),
        traceparent=trace,
    )
