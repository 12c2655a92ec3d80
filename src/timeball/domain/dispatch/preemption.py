"""Preemption: a running attempt whose job allows it gives its slots to a waiting run of a higher priority class.

The worker suspends the process of the attempt, and resumes it when the other run has ended. An attempt that cannot be
suspended is released: its run becomes ready again, and the released attempt does not count. Preemption is bounded, so
that no run starves: a run is preempted at most `MAX_PREEMPTIONS` times, and suspended for at most
`MAX_PREEMPTION_DURATION` each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from timeball.domain.dispatch.placement import Need, Offer
from timeball.domain.dispatch.slot_pools import SlotPools
from timeball.domain.instant import MILLISECOND, MINUTE, SECOND, Micros
from timeball.domain.tenant import DEFAULT_TENANT

CLASS: Final = 3
"""Number of priority levels between two classes: from low to medium, and from medium to high."""
MAX_PREEMPTIONS: Final = 3
"""Maximum number of preemptions of one run."""
PREEMPTION_DELAY: Final = 500 * MILLISECOND
"""Microseconds that a run has to wait before another run is preempted for it, because a slot may become free by itself.
"""
MAX_PREEMPTION_DURATION: Final = 5 * MINUTE
"""Microseconds after which a suspended process is resumed in any case."""
UNUSED_SLOTS_TIMEOUT: Final = 5 * SECOND
"""Microseconds after which a suspended process is resumed if no run has used its slots."""

NO_POOLS: Final[Mapping[str, SlotPools]] = MappingProxyType({})


class Running(Struct, frozen=True):
    """A run that may be preempted, with the attempt that a worker executes."""

    run_id: str
    session: str
    attempt: int
    token: int
    priority: int
    need: Need
    started_at: Micros
    tenant: str = DEFAULT_TENANT
    pool: str | None = None
    """The slot pool of the worker of which the run uses a slot. Only known if a waiting run needs a slot of a pool."""

    @property
    def freed_resources(self) -> Need:
        """The resources that become free while the attempt is suspended: slots and CPU. A suspended process keeps its
        memory."""
        return Need(self.need.slots, self.need.cpu)


class PreemptingRun(Struct, frozen=True):
    """The first claimable run of a priority or of a placement profile. A running attempt may be preempted for it."""

    run_id: str
    priority: int
    profile: str | None
    need: Need
    eligible_at: Micros
    gated: bool
    """True if the run shares a limit with other runs, which may block its start although a worker has free slots."""
    tenant: str = DEFAULT_TENANT


class Preemption(Struct, frozen=True, kw_only=True):
    """One preemption of a run for the benefit of another run."""

    run_id: str
    number: int
    """The number of this preemption of the run, from 1 to `MAX_PREEMPTIONS`."""
    by_run: str
    """The id of the run that gets the slots."""
    token: int
    """The fencing token of the preempted attempt."""
    asked_at: Micros
    paused_at: Micros | None
    """The instant at which the attempt was suspended; None if it is not suspended yet, or was released instead."""
    ended_at: Micros | None
    """The instant at which the attempt was resumed or ended; None while the preemption is open."""

    @property
    def is_open(self) -> bool:
        return self.ended_at is None


def choose(
    waiting: Iterable[PreemptingRun],
    running: Iterable[Running],
    left: Mapping[str, Offer],
    idle: Mapping[str, Offer],
    now: Micros,
    pools: Mapping[str, SlotPools] = NO_POOLS,
) -> tuple[PreemptingRun, Running] | None:
    """Choose a waiting run and the running attempt to preempt for it. `waiting` is in the order of rank. `left` has the
    resources that each worker offers now, and `idle` those that it would offer without any run, both by session. Of the
    attempts that could be preempted, the one with the lowest priority is chosen, and among those the one that started
    last. A run preempts only runs of its own tenant: the priorities of a tenant do not concern the others. `pools` has
    the slot pools of each worker: a run that waits for a slot of a pool preempts only runs of this pool.

    A slot that becomes free goes to the run of the best rank that fits. So if a run cannot preempt (its class is not
    high enough, it has not waited long enough, or it is `gated`), no run of a worse rank preempts on a worker that
    could execute that run.
    """
    open_to = {each.session for each in running}
    closed: set[tuple[str, str | None]] = set()
    """Pools whose free slots go to a run of a better rank, each with the session of its worker."""
    for first in waiting:
        pool = first.need.pool
        full = {session for session, each in pools.items() if pool in each.slots}
        if any(_takes(offer, first, first.need) for session, offer in left.items() if session not in full):
            continue  # a worker has room for this run, so the next claim takes it
        own = [each for each in running if each.tenant == first.tenant]
        lower = [each for each in own if each.priority + CLASS <= first.priority and each.session in open_to]
        able = [
            each
            for each in lower
            if each.session in left
            and (each.session, each.pool) not in closed
            and (each.session not in full or _frees(each, pools[each.session], first.need))
            and _takes(_with(left[each.session], each), first, first.need)
        ]
        if able and not first.gated and now - first.eligible_at >= PREEMPTION_DELAY:
            return first, min(able, key=lambda each: (each.priority, -each.started_at, each.run_id))
        able_workers = {session for session, offer in idle.items() if offer.fits(first.need)}
        open_to -= able_workers - full
        closed |= {(session, pool) for session in able_workers & full}
    return None


def _frees(running: Running, pools: SlotPools, need: Need) -> bool:
    """True if the preemption of a run frees as many slots as these requirements need, in the pool that they name."""
    pool = need.pool
    return (
        pool is not None
        and running.pool == pool
        and pools.taken(pool, running.need.slots) >= pools.taken(pool, need.slots)
    )


def _takes(offer: Offer, waiting: PreemptingRun, need: Need) -> bool:
    return offer.fits(need) and offer.reserved_for in (None, waiting.profile)


def _with(offer: Offer, running: Running) -> Offer:
    """Return the offer of a worker as if this run were preempted."""
    freed = running.freed_resources
    return Offer(
        session=offer.session,
        slots=offer.slots + freed.slots,
        cpu=offer.cpu + freed.cpu,
        memory=offer.memory,
        labels=offer.labels,
        dedicated=offer.dedicated,
        reserved_for=offer.reserved_for,
        kinds=offer.kinds,
        tenants=offer.tenants,
    )
