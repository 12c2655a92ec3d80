"""The workers for which a claim is made, and the reservation of workers for runs that have waited long."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, repeat, zip_longest
from typing import Final, NamedTuple, Protocol

from msgspec import Struct, structs

from timeball.domain.dispatch import placement
from timeball.domain.dispatch.placement import UNLIMITED, Need, Offer, kind_label, tenant_label
from timeball.domain.dispatch.priority import bound
from timeball.domain.instant import MINUTE, Micros
from timeball.ports.store.runs import SlotRequest
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.runs.workers import RESTRICTED, split_labels
from timeball.stores.sql.statements import query

LEASED_SESSIONS = query("leased_sessions")
OFFERS = query("offers")
SHARES_HELD = query("shares_held")
RESERVED_PROFILES = query("reserved_profiles")
RESERVE = query("reserve")

RESERVED_FOR: Final = 15 * MINUTE
"""Microseconds for which a worker is reserved for a placement profile. After that, another worker may be reserved for
the profile."""


class ReadyRun(Protocol):
    """A run that could be claimed."""

    @property
    def tenant(self) -> str: ...

    @property
    def priority(self) -> int: ...

    @property
    def eligible_at(self) -> Micros: ...

    @property
    def profile(self) -> str | None: ...


class LeasedSession(NamedTuple):
    """A row of the statement `leased_sessions`. The columns after `reserved_for` describe the store as a whole and are
    the same in all rows."""

    session: str
    name: str
    dedicated: int
    """0 if the worker accepts every run. Otherwise it accepts only runs with one of its labels, only some task kinds,
    or no runs of the default tenant: bits, see `workers`."""
    reserved_for: str | None
    failing_host: int
    constrained: int
    lowest: int | None
    highest: int | None


class Claimants(Struct, frozen=True):
    """The workers with a valid lease that request runs, and the facts that decide which checks the claim needs."""

    sessions: dict[str, LeasedSession]
    wants: list[SlotRequest]
    failing_host: bool = False
    """True if a host has recent failures, so that circuit breakers must be checked."""
    constrained: bool = False
    """True if runs with a placement profile are ready. Not every worker can execute such runs."""
    unconstrained: bool = False
    """True if runs without a placement profile are ready, now or later."""
    level: int | None = None
    """The priority of the ready runs without a placement profile, if all of them have the same one; else None."""

    @property
    def for_all_kinds(self) -> list[SlotRequest]:
        """The requests of workers that accept every run and are not reserved."""
        found = [(want, self.sessions[want.session]) for want in self.wants]
        return [want for want, each in found if not each.dedicated and each.reserved_for is None]

    @property
    def for_some_kinds(self) -> list[SlotRequest]:
        """The requests of workers that accept every run of certain task kinds and are not reserved."""
        found = [(want, self.sessions[want.session]) for want in self.wants]
        return [want for want, each in found if each.dedicated == RESTRICTED and each.reserved_for is None]


async def claimants(tx: Tx, wants: Sequence[SlotRequest], ahead: Micros) -> Claimants:
    rows = await tx.fetch(LEASED_SESSIONS, b=[want.session for want in wants], ahead=ahead)
    if not rows:
        return Claimants({}, [])
    sessions = {each.session: each for each in map(LeasedSession._make, rows)}
    any_of_them = next(iter(sessions.values()))
    return Claimants(
        sessions,
        [want for want in wants if want.session in sessions],
        bool(any_of_them.failing_host),
        bool(any_of_them.constrained),
        any_of_them.lowest is not None,
        any_of_them.lowest if any_of_them.lowest == any_of_them.highest else None,
    )


def interleaved(wants: Sequence[SlotRequest], limit: int) -> list[SlotRequest]:
    """Return one slot request per free slot, at most `limit`, alternating between workers, so that a few runs are
    spread over all workers."""
    if len(wants) == 1:
        (only,) = wants
        return [only] * min(only.slots, limit)
    turns = zip_longest(*(repeat(want, want.slots) for want in wants))
    return list(islice((want for turn in turns for want in turn if want is not None), limit))


def slots_only(wants: Iterable[SlotRequest], leased: Mapping[str, LeasedSession]) -> list[Offer]:
    """Return the free slots of workers as offers with unlimited CPU and memory, for candidates that need no more than
    slots."""
    return [
        Offer(
            session=want.session,
            slots=want.slots,
            cpu=UNLIMITED,
            memory=UNLIMITED,
            dedicated=bool(leased[want.session].dedicated),
            reserved_for=leased[want.session].reserved_for,
        )
        for want in wants
    ]


async def lock_offers(
    tx: Tx, wants: Mapping[str, SlotRequest], leased: Mapping[str, LeasedSession]
) -> tuple[dict[str, Offer], list[Offer]]:
    """Lock the workers of these requests, except those that another server claims for. Return the capacity that each
    would have if it executed no run, by session, and their free capacity."""
    idle: dict[str, Offer] = {}
    for session, slots, labels, cpu, memory, dedicated in await tx.fetch(OFFERS, b=list(wants)):
        stored = split_labels(labels, dedicated)
        idle[session] = Offer(
            session=session,
            slots=slots,
            cpu=UNLIMITED if cpu < 0 else cpu,
            memory=UNLIMITED if memory < 0 else memory,
            labels=frozenset(stored.labels),
            dedicated=stored.dedicated,
            reserved_for=leased[session].reserved_for,
            kinds=None if stored.kinds is None else frozenset(map(kind_label, stored.kinds)),
            tenants=None if stored.tenants is None else frozenset(map(tenant_label, stored.tenants)),
        )
    free = {session: structs.replace(offer, slots=wants[session].slots) for session, offer in idle.items()}
    for session, held in await tx.fetch(SHARES_HELD, b=list(free)):
        cpu, memory = map(int, held.split("|"))
        free[session].take(Need(0, cpu, memory))
    return idle, list(free.values())


async def reserve(
    tx: Tx,
    now: Micros,
    credit: Micros,
    offers: Sequence[Offer],
    idle: Mapping[str, Offer],
    chosen: Sequence[tuple[ReadyRun, Offer]],
    unfit: Mapping[str, ReadyRun],
) -> None:
    """Reserve a worker for each placement profile with a run that did not fit and that no younger run can outrank any
    more. End the reservations for profiles whose run was assigned. `idle` has the capacity that each worker would have
    if it executed no run."""
    found = {offer.session for each, offer in chosen if offer.reserved_for == each.profile is not None}
    kept: dict[str, tuple[str | None, Micros]] = dict.fromkeys(found, (None, 0))
    late = [
        profile
        for profile, each in unfit.items()
        if now - each.eligible_at > bound(each.priority, credit)
        and not placement.need_of(profile).is_met_by_any_slot(each.tenant)
    ]
    if late:
        taken = {profile for (profile,) in await tx.fetch(RESERVED_PROFILES)}
        taken -= {offer.reserved_for for _, offer in chosen}
        free = {offer.session: offer for offer in offers if offer.reserved_for is None or offer.session in found}
        for profile in late:
            need = placement.need_of(profile)
            able = [offer for session, offer in free.items() if idle[session].fits(need)]
            if profile not in taken and able:
                session = max(able, key=lambda offer: offer.slots).session
                kept[session] = (profile, RESERVED_FOR)
                del free[session]
    if kept:
        await tx.execute(RESERVE, b=[(session, *kept[session]) for session in sorted(kept)])
