"""Workers: sessions, their leases, and the attempts of sessions whose lease ended."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import starmap
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from timeball.domain import duration
from timeball.domain.audit_log.entry import SYSTEM_CHAIN
from timeball.domain.dispatch.placement import (
    KIND_MARK,
    PLAIN,
    TENANT_MARK,
    Need,
    kind_label,
    need_of,
    tenant_label,
    tenant_of,
    total,
)
from timeball.domain.dispatch.slot_pools import SlotPool
from timeball.domain.errors import Invalid
from timeball.domain.events import EventType
from timeball.domain.instant import Micros
from timeball.domain.run.lifecycle import LEASE, Lost, Outcome, Released, report_due_at
from timeball.domain.task.kinds import KINDS
from timeball.domain.task.task import DEFAULT_GRACE
from timeball.domain.tenant import DEFAULT_TENANT
from timeball.ports.store.runs import Settlement
from timeball.ports.store.workers import Lease, SessionEnd, Unreported, WorkerRecord
from timeball.ports.worker_protocol import LOCAL_KEY
from timeball.stores.sql.audit_log.recording import record
from timeball.stores.sql.changes import record_worker
from timeball.stores.sql.driver import Tx, scalar
from timeball.stores.sql.part import StorePart
from timeball.stores.sql.rows.unreadable import unread
from timeball.stores.sql.rows.values import LARGEST, as_json, plain
from timeball.stores.sql.runs import settling
from timeball.stores.sql.statements import query

REGISTER = query("register")
DRAIN = query("drain")
RENEW = query("renew")
LAPSE = query("lapse")
LOST_RUNS = query("lost_runs")
HELD_FOR_LONG = query("held_for_long")
END_SESSION = query("end_session")
HELD_BY = query("held_by")
FORGET_SESSIONS = query("forget_sessions")
WORKERS = query("workers")
GONE_WORKERS = query("gone_workers")
SHARES_USED = query("shares_used")

DEDICATED = 1
RESTRICTED = 2
"""Bit of the column `dedicated`: the worker accepts only some task kinds, which are stored among its labels. An older
server treats such a worker as a dedicated one, and assigns it no run without a label."""
BOUND = 4
"""Bit of the column `dedicated`: beside `DEDICATED`, of a worker that does not serve the default tenant, and is not
dedicated to labels that a user gave. Its tenants are stored among its labels. Every older server assigns it no run
without a label."""
UNLIMITED = -1
"""CPU or memory of a worker that declares no limit."""

_words = msgspec.json.Decoder(list[str]).decode
_decode_pools = msgspec.json.Decoder(tuple[SlotPool, ...]).decode


@lru_cache
def read_pools(pools: str | None) -> tuple[SlotPool, ...]:
    """Return the pools of a worker from the column in which they are stored. Each beat reads them, so they are decoded
    once."""
    return () if pools is None else _decode_pools(pools)


class Workers(StorePart):
    async def register(self, worker: WorkerRecord, lease: Micros, *, after: str | None = None) -> bool:
        async def work(tx: Tx) -> bool:
            registered = await tx.fetch(
                REGISTER,
                session=worker.session,
                name=plain(worker.name),
                slots=min(worker.slots, LARGEST),
                labels=as_json(_labels(worker)),
                tasks=as_json(worker.tasks),
                version=plain(worker.version),
                lease=lease,
                cpu=UNLIMITED if worker.cpu is None else min(round(worker.cpu * 1000), LARGEST),
                memory=UNLIMITED if worker.memory_mb is None else min(worker.memory_mb, LARGEST),
                dedicated=_dedicated(worker),
                key=worker.key,
                after=after,
                pools=None if not worker.pools else msgspec.json.encode(worker.pools).decode(),
            )
            record_worker(tx, EventType.WORKER_REGISTERED, worker.session, worker.name, worker.tenants)
            return scalar(registered) is not None

        return await self._db.write(work)

    async def drain(self, session: str) -> bool:
        async def work(tx: Tx) -> bool:
            drained = bool(await tx.fetch(DRAIN, session=session))
            if drained:
                record(tx, "worker", session, after={"draining": True}, chain=SYSTEM_CHAIN)
            return drained

        return await self._db.write(work)

    async def renew(self, sessions: Sequence[tuple[str, str]], lease: Micros) -> list[Lease | None]:
        async def work(tx: Tx) -> list[Lease | None]:
            rows = await tx.fetch(RENEW, b=sorted(set(sessions)), lease=lease)
            renewed = {
                session: Lease(name, key, since is not None, read_pools(pools))
                for session, name, key, since, pools in rows
            }
            return [
                found if (found := renewed.get(session)) is not None and found.key in (None, key) else None
                for session, key in sessions
            ]

        return await self._db.write(work) if sessions else []

    async def give_back(self, session: str, held: Sequence[int], poll: int) -> int:
        async def work(tx: Tx) -> int:
            return await _give_back(tx, session, frozenset(held), poll)

        return await self._db.write(work)

    async def lapsed(self, limit: int) -> list[Settlement]:
        async def mark(tx: Tx) -> None:
            for session, name, labels, dedicated in await tx.fetch(LAPSE):
                record_worker(tx, EventType.WORKER_LOST, session, name, split_labels(labels, dedicated).tenants)

        async def find(tx: Tx) -> list[Settlement]:
            lost = starmap(_LostAttempt, await tx.fetch(LOST_RUNS, limit=limit))
            return [_settlement(each, Lost(), started_at=each.started_at) for each in lost]

        await self._db.write(mark)
        return await self._db.read(find)

    async def unreported(self, after: tuple[str, str], limit: int) -> Unreported:
        last_session, last_run = after

        async def find(tx: Tx) -> Unreported:
            rows = await tx.fetch(HELD_FOR_LONG, session=last_session, id=last_run, lease=LEASE, limit=limit)
            held = list(starmap(_LongHeldAttempt, rows))
            overdue = [
                _settlement(each, Lost(unreported=True), started_at=each.started_at)
                for each in held
                if _is_overdue(each)
            ]
            return Unreported(overdue, (held[-1].session, held[-1].run_id) if len(held) == limit else None)

        return await self._db.read(find, slow=True)

    async def end_session(self, session: str, key: str = LOCAL_KEY) -> bool:
        async def work(tx: Tx) -> bool:
            ended = await tx.fetch(END_SESSION, session=session, key=key)
            if not ended:
                return False
            await _give_back(tx, session, frozenset(), LARGEST)
            ((labels, dedicated),) = ended
            record_worker(tx, EventType.WORKER_LEFT, session, tenants=split_labels(labels, dedicated).tenants)
            return True

        return await self._db.write(work)

    async def forget_sessions(self, seen_before: Micros) -> int:
        async def work(tx: Tx) -> int:
            return len(await tx.fetch(FORGET_SESSIONS, before=seen_before))

        return await self._db.write(work)

    async def workers(self, tenant: str | None = None) -> list[WorkerRecord]:
        async def work(tx: Tx) -> list[WorkerRecord]:
            found = await alive(tx, tenant)
            return found if tenant is None else [each.for_tenant(tenant) for each in found if each.serves(tenant)]

        return await self._db.read(work, slow=True)

    async def gone_workers(self, limit: int, tenant: str | None = None) -> list[WorkerRecord]:
        async def work(tx: Tx) -> list[WorkerRecord]:
            rows = await tx.fetch(GONE_WORKERS, lease=LEASE, limit=limit)
            gone = [
                msgspec.structs.replace(_worker(row, {}), ended=SessionEnd.LOST if was_lost else SessionEnd.LEFT)
                for *row, was_lost in rows
            ]
            return gone if tenant is None else [each.for_tenant(tenant) for each in gone if each.serves(tenant)]

        return await self._db.read(work, slow=True, may_lag=True)


async def alive(tx: Tx, tenant: str | None = None) -> list[WorkerRecord]:
    """Return the workers with a valid lease, newest first, without those whose API key was revoked. Given a tenant,
    what each worker uses is counted from the runs of this tenant only."""
    held: dict[str, list[tuple[Need, int]]] = {}
    for session, profile, count in await tx.fetch(SHARES_USED):
        if tenant is not None and tenant_of(profile) != tenant:
            continue
        held.setdefault(session, []).append((PLAIN if profile is None else need_of(profile), count))
    return [_worker(row, held) for row in await tx.fetch(WORKERS)]


async def _give_back(tx: Tx, session: str, held: Collection[int], before: int) -> int:
    found = starmap(_HeldAttempt, await tx.fetch(HELD_BY, session=session, before=before))
    unknown = [_settlement(each, Released(), started_at=None) for each in found if each.token not in held]
    return sum(each is not None for each in await settling.settle(tx, unknown)) if unknown else 0


class _HeldAttempt(Struct, frozen=True):
    """A row of the statement `held_by`."""

    run_id: str
    job_id: str
    attempt: int
    token: int
    session: str
    serial: int
    tenant: str
    ordering_key: str | None
    now: Micros


class _LostAttempt(_HeldAttempt, frozen=True):
    """A row of the statement `lost_runs`."""

    started_at: Micros | None


class _LongHeldAttempt(_LostAttempt, frozen=True):
    """A row of the statement `held_for_long`."""

    claimed_at: Micros
    timeout: str | None
    grace: str | None
    stood_still: Micros


def _is_overdue(held: _LongHeldAttempt) -> bool:
    if held.timeout is None:
        return False
    try:
        due = report_due_at(
            started_at=held.started_at,
            claimed_at=held.claimed_at,
            timeout=duration.parse(held.timeout),
            grace=duration.parse(DEFAULT_GRACE if held.grace is None else held.grace),
            stood_still=held.stood_still,
        )
    except Invalid as error:
        unread(held.job_id, error)
        return False
    return due <= held.now


def _settlement(held: _HeldAttempt, outcome: Outcome, started_at: Micros | None) -> Settlement:
    key = held.ordering_key
    return Settlement(
        run_id=held.run_id,
        job_id=held.job_id,
        attempt=held.attempt,
        token=held.token,
        session=held.session,
        serial=bool(held.serial),
        turn=None if key is None else (held.tenant, key),
        outcome=outcome,
        started_at=started_at,
        finished_at=held.now,
        spread=0.0,
    )


def _dedicated(worker: WorkerRecord) -> int:
    bound = worker.tenants is not None and DEFAULT_TENANT not in worker.tenants
    dedicated = DEDICATED if worker.dedicated else (DEDICATED + BOUND) * bound
    return dedicated + RESTRICTED * (worker.kinds is not None)


def _labels(worker: WorkerRecord) -> list[str]:
    """Return the labels to store: those of the worker, the task kinds that it accepts, and the tenants that it serves,
    if not all."""
    labels = [label for label in worker.labels if label[:1] not in (KIND_MARK, TENANT_MARK)]
    labels += [] if worker.kinds is None else [kind_label(kind) for kind in KINDS if kind in worker.kinds]
    return labels + ([] if worker.tenants is None else [tenant_label(tenant) for tenant in sorted(worker.tenants)])


class StoredLabels(NamedTuple):
    """What the columns `labels` and `dedicated` say of a worker."""

    labels: list[str]
    dedicated: bool
    kinds: list[str] | None
    tenants: list[str] | None


def split_labels(labels: str, dedicated: int) -> StoredLabels:
    """Return the labels of a worker, the task kinds that it accepts, and the tenants that it serves, from the columns
    in which they are stored."""
    words = _words(labels)
    kinds = [word[1:] for word in words if word.startswith(KIND_MARK)]
    tenants = [word[1:] for word in words if word.startswith(TENANT_MARK)]
    return StoredLabels(
        [word for word in words if word[:1] not in (KIND_MARK, TENANT_MARK)],
        bool(dedicated & DEDICATED) and not dedicated & BOUND,
        kinds if dedicated & RESTRICTED else None,
        tenants or None,
    )


def serves(tenant: str, labels: str, dedicated: int) -> bool:
    """True if a worker with these columns serves a tenant."""
    tenants = split_labels(labels, dedicated).tenants
    return tenants is None or tenant in tenants


def _worker(row: Sequence[Any], held_by_session: Mapping[str, Sequence[tuple[Need, int]]]) -> WorkerRecord:
    session, name, slots, labels, tasks, version, started_at, seen_at, lease_until, *offer = row
    cpu, memory, dedicated, reserved_for, key, draining_since, pools = offer
    held = held_by_session.get(session, ())
    stored = split_labels(labels, dedicated)
    return WorkerRecord(
        session=session,
        name=name,
        slots=slots,
        labels=stored.labels,
        tasks=_words(tasks),
        version=version,
        started_at=started_at,
        seen_at=seen_at,
        lease_until=lease_until,
        running=sum(count for _, count in held),
        used=total(held),
        cpu=None if cpu == UNLIMITED else cpu / 1000,
        memory_mb=None if memory == UNLIMITED else memory,
        dedicated=stored.dedicated,
        kinds=stored.kinds,
        tenants=stored.tenants,
        reserved_for=reserved_for,
        key=key,
        draining_since=draining_since,
        pools=read_pools(pools),
    )
