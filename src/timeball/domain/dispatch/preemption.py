"""Preemption: a run of low priority that allows it makes room for a waiting one of a higher class.

Its process is stopped where it is, and goes on when the other has ended; what cannot be stopped is handed back, at no
cost. It is bounded, so that nobody starves: a run is asked so many times, and stops for so long at a time, at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from timeball.domain.dispatch.placement import Need, Offer
from timeball.domain.instant import MILLISECOND, MINUTE, SECOND, Micros

CLASS: Final = 3
"""Levels from one class of priority to the next: from low to medium, from medium to high."""
MOST: Final = 3
"""How often a run makes room for others."""
PREEMPTION_DELAY: Final = 500 * MILLISECOND
"""A run has to wait this long before another makes room for it: a slot may get free by itself."""
LONGEST: Final = 5 * MINUTE
"""A process that was stopped goes on after this long at the latest."""
LENDING: Final = 5 * SECOND
"""A process that was stopped goes on after this long if nobody came to use its slot."""


class Running(Struct, frozen=True):
    """A run that allows to be preempted, and that a worker has."""

    run_id: str
    session: str
    attempt: int
    token: int
    priority: int
    need: Need
    started_at: Micros

    @property
    def lends(self) -> Need:
        """What it gives away while it is stopped: a process that stands still keeps its memory."""
        return Need(self.need.slots, self.need.cpu)


class WaitingRun(Struct, frozen=True):
    """The first run of its kind that could be claimed."""

    run_id: str
    priority: int
    profile: str | None
    need: Need
    eligible_at: Micros
    gated: bool
    """Shares a limit with others, which may keep it from starting although there is room."""


class Preemption(Struct, frozen=True, kw_only=True):
    """One time that a run made room for another."""

    run_id: str
    number: int
    """From 1 to `MOST`."""
    by_run: str
    """Who it was asked to make room for."""
    token: int
    """Of the attempt that was asked."""
    asked_at: Micros
    paused_at: Micros | None
    """When it stopped; None: it has not, or was handed back."""
    ended_at: Micros | None
    """When it went on, or ended."""

    @property
    def is_open(self) -> bool:
        return self.ended_at is None


def choose(
    waiting: Iterable[WaitingRun],
    running: Iterable[Running],
    left: Mapping[str, Offer],
    idle: Mapping[str, Offer],
    now: Micros,
) -> tuple[WaitingRun, Running] | None:
    """Who makes room for whom. `waiting` comes in the order of rank, `left` is what the workers offer now, and `idle`
    what they would without any run. Of those that could make room the lowest goes first, then who started last.

    A slot that gets free goes to whoever ranks first. So nobody makes room on a worker that one would get who is not
    entitled to it: by its class, or because it has not waited long enough.
    """
    open_to = {each.session for each in running}
    for first in waiting:
        if any(_takes(offer, first, first.need) for offer in left.values()):
            continue  # it has a worker, or will have one in a moment
        lower = [each for each in running if each.priority + CLASS <= first.priority and each.session in open_to]
        able = [
            each
            for each in lower
            if each.session in left and _takes(_with(left[each.session], each), first, first.need)
        ]
        if able and not first.gated and now - first.eligible_at >= PREEMPTION_DELAY:
            return first, min(able, key=lambda each: (each.priority, -each.started_at, each.run_id))
        open_to -= {session for session, offer in idle.items() if offer.fits(first.need)}
    return None


def _takes(offer: Offer, waiting: WaitingRun, need: Need) -> bool:
    return offer.fits(need) and offer.reserved_for in (None, waiting.profile)


def _with(offer: Offer, lender: Running) -> Offer:
    """What a worker would offer if a run made room."""
    lent = lender.lends
    return Offer(
        session=offer.session,
        slots=offer.slots + lent.slots,
        cpu=offer.cpu + lent.cpu,
        memory=offer.memory,
        labels=offer.labels,
        dedicated=offer.dedicated,
        reserved_for=offer.reserved_for,
        kinds=offer.kinds,
    )
