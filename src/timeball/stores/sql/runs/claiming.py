"""Claim ready runs for all workers with a pending poll, in one transaction.

Most runs are unconstrained: those of the lowest rank go to the free slots. The candidates are considered one by one
only if one of them shares a limit, or needs a certain worker."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain, starmap
from operator import itemgetter
from typing import Final

import msgspec
from msgspec import Struct

from timeball.domain.dispatch import placement
from timeball.domain.dispatch.claim_rooms import ClaimRooms, TaskSort
from timeball.domain.dispatch.fair_share import FairShares
from timeball.domain.dispatch.placement import Offer
from timeball.domain.dispatch.priority import rank
from timeball.domain.instant import SECOND, Micros
from timeball.domain.planning.planning_failure import put_off_until
from timeball.domain.tenant import DEFAULT_TENANT
from timeball.ports.store.runs import Claimed, SlotRequest
from timeball.stores.sql.dialect import Query
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.pool_queues import NO_QUEUES, Queues
from timeball.stores.sql.runs import claim_kinds
from timeball.stores.sql.runs.candidates import (
    ELIGIBLE_AT,
    FIRE_TIME,
    GATED,
    ID,
    NOW,
    PRIORITY,
    PROFILE,
    SPEC,
    TASK,
    UNREADABLE,
    ClaimCandidate,
    Fit,
    claim_of,
    claim_row,
    fit,
    gates_of,
    may_be_http,
    need_of_run,
    sort_of_run,
)
from timeball.stores.sql.runs.claimants import LeasedSession, claimants, interleaved, lock_offers, reserve, slots_only
from timeball.stores.sql.runs.gates import NO_HOSTS, FailingHosts, GateBatch, Gates, failing_hosts
from timeball.stores.sql.statements import many, query, text
from timeball.stores.sql.tenants import running_quota

CLAIM = query("claim")
CLAIM_FOR_ONE = query("claim_for_one")
HOLD_SHARES = query("hold_shares")
PROFILES_WAITING = query("profiles_waiting")
PUT_OFF_RUNS = query("put_off_runs")

LOOK_AT: Final = 500
"""Number of candidates that a claim reads at least, even if fewer slots are free, when some candidates may have to wait
at a gate or may have a task kind that the workers do not accept."""
FARTHEST: Final = SECOND
"""Microseconds after now: the latest instant for which the stored state of a rate limit may have given a token. It is
longer than `AHEAD`, by which claims run ahead."""
MAX_CLAIMS: Final = 1_000
"""Maximum number of due runs without a placement profile that one claim assigns, and of runs of each profile, even if
more slots are free. The next runs are claimed while these execute."""
MAX_AHEAD: Final = 5_000
"""Maximum number of runs without a placement profile that one claim assigns if some of them are not due yet. A worker
starts such a run after a delay that begins when the answer arrives. With two claims, runs of the second answer might
start before runs of the first, so one claim may assign more than `MAX_CLAIMS`."""
NO_SORT: Final[TaskSort] = ("", None)
_ORDER_OF_LEVEL = itemgetter(ELIGIBLE_AT, FIRE_TIME, ID)
"""Sorts the rows of runs of one priority by rank."""


@lru_cache
def _claimable(credit: Micros, of_one_level: bool) -> Query:
    first = text("first_of_level")
    if of_one_level:
        return many(query("claimable_of_level", candidate=text("candidate"), first_of_level=first, level=":level"))
    return many(query("claimable", candidate=text("candidate"), first_of_level=first, credit=str(credit)))


FITTING_RUNS = query("fitting_runs", candidate=text("candidate"))
NEXT_ELIGIBLE_AT = query("next_eligible_at")


class AssignedRun(Struct, frozen=True):
    """The runs that a claim assigned. Their rows are decoded after the transaction, because other writers wait while it
    is open."""

    runs: list[tuple[Row, int, SlotRequest]]
    now: Micros
    again: bool = False
    left: int = 0
    short: bool = False
    crowded: bool = False
    pooled: bool = False
    """True if a run may be in a slot pool of its worker."""
    queues: Queues = NO_QUEUES

    def claimed(self) -> Claimed:
        claims = [claim_of(*each, self.pooled) for each in self.runs]
        return Claimed(claims, self.now, self.again, self.left, len(claims) >= MAX_CLAIMS, self.short, self.crowded)


async def claim(
    tx: Tx, wants: Sequence[SlotRequest], ahead: Micros, credit: Micros, before: Micros, sharing: FairShares
) -> AssignedRun:
    waiting = await claimants(tx, wants, ahead)
    leased, constrained = waiting.sessions, waiting.constrained
    if not leased:
        return AssignedRun([], before)
    requests, level = waiting.for_all_kinds, waiting.level
    by_kind = waiting.for_some_kinds if len(requests) < len(leased) else []
    requests += by_kind
    slots = interleaved(requests, MAX_AHEAD)
    wanted = sum(want.slots for want in requests)
    claimable = _claimable(credit, level is not None)
    free = min(len(slots), MAX_CLAIMS)
    rows = await tx.fetch(claimable, ahead=ahead, free=free, level=level) if slots and waiting.unconstrained else []
    if len(rows) == free < len(slots) and any(row[ELIGIBLE_AT] > row[NOW] for row in rows):
        free = len(slots)
        rows = await tx.fetch(claimable, ahead=ahead, free=free, level=level)
    gated = any(row[GATED] for row in rows)
    failing = NO_HOSTS
    if waiting.failing_host and (
        constrained or by_kind or gated or any(may_be_http(row[TASK] or row[SPEC]) for row in rows)
    ):
        failing = await failing_hosts(tx)
        gated = gated or any(gates_of(ClaimCandidate(*row), failing) is not None for row in rows)
    limited = bool(rows) and sharing.limits([DEFAULT_TENANT])
    if rows and level is None:
        rows.sort(key=partial(_order, rows[0][NOW], credit))
    else:
        rows.sort(key=_ORDER_OF_LEVEL)
    plain = not (constrained or by_kind or gated or limited)
    pooled = fit(rows, slots)
    crowded = pooled is Fit.CROWDED
    if crowded or not plain:
        # Most candidates may wait at a gate or for a slot of their pool, or be refused.
        if len(slots) < LOOK_AT and rows and (gated or by_kind or crowded):
            free = LOOK_AT
            rows = await tx.fetch(claimable, ahead=ahead, free=free, level=level)
        choice = _Choice(tx, waiting.wants, leased, credit, sharing)
        return await choice.make(rows, len(rows) == free, ahead, before, constrained or bool(by_kind), failing)
    if not rows:
        return AssignedRun([], before, left=wanted)
    now: Micros = rows[0][NOW]
    tokens = await tx.tokens(len(rows))
    assigned = list(zip(rows, tokens, slots, strict=False))
    first_token = tokens[0]
    if len(requests) == 1 and tokens[-1] - first_token < len(tokens):  # no other server took one in between
        (one,) = requests
        ids = [row[ID] for row in rows]
        claimant = {"session": one.session, "worker": leased[one.session].name, "poll": one.poll}
        await tx.execute(CLAIM_FOR_ONE, b=ids, first_token=first_token, at=now, **claimant)
    else:
        await tx.execute(CLAIM, b=[claim_row(*each, leased) for each in assigned], at=now)
    return AssignedRun(assigned, now, left=wanted - len(assigned), pooled=pooled is Fit.FITS)


def _order(now: Micros, credit: Micros, row: Row) -> tuple[bool, Micros, Micros, str]:
    """Return the sort key of a candidate: due runs come first, then the runs of lower rank."""
    eligible_at = row[ELIGIBLE_AT]
    return eligible_at > now, rank(eligible_at, row[PRIORITY], credit), row[FIRE_TIME], row[ID]


class _Choice:
    """Assigns runs if a candidate has a gate or needs a certain worker: it considers all candidates one by one, due
    runs first, then in the order of their rank."""

    def __init__(
        self,
        tx: Tx,
        wants: Sequence[SlotRequest],
        leased: Mapping[str, LeasedSession],
        credit: Micros,
        sharing: FairShares,
    ) -> None:
        self._tx = tx
        self._wants = {want.session: want for want in wants}
        self._rooms = ClaimRooms({want.session: want.room for want in wants})
        self._crowded = False  # True if a run waits for a free slot of its pool
        self._leased = leased
        self._credit = credit
        self._sharing = sharing
        self._now: Micros = 0
        self._idle: dict[str, Offer] = {}
        """The capacity that each worker would have if it executed no run."""
        self._last_read: frozenset[str] = frozenset()
        """The last run that this claim read of each placement profile that may have more ready runs than it read."""

    async def make(
        self, rows: list[Row], more: bool, ahead: Micros, before: Micros, constrained: bool, failing: FailingHosts
    ) -> AssignedRun:
        """`rows` are runs without a placement profile. `more`: further such runs may be ready."""
        waiting = [each for (each,) in await self._tx.fetch(PROFILES_WAITING, ahead=ahead)] if constrained else []
        alike = not any(self._leased[each].dedicated for each in self._wants)
        slots_suffice = not constrained or (alike and all(placement.need_of(each).is_only_pooled for each in waiting))
        if slots_suffice:
            offers = slots_only(self._wants.values(), self._leased)
        else:
            self._idle, offers = await lock_offers(self._tx, self._wants, self._leased)
        again = len(offers) < len(self._wants)
        if constrained:
            rows = [*rows, *await self._constrained(waiting, offers, ahead, bool(rows))]
        if not rows:
            left = placement.open_slots(offers)
            return AssignedRun([], before, again and left > 0, left, crowded=self._crowded)
        self._now = rows[0][NOW]
        candidates = sorted(starmap(ClaimCandidate, rows), key=self._order)
        read = (self._order(each) for each in candidates if more and each.profile is None)
        unread_after = max(read, default=None)
        """The rank of the last run without a profile, if runs that were not read may come after it."""
        room = await running_quota.room(self._tx, self._sharing, (each.tenant for each in candidates))
        candidates = [each for each in candidates if room.has(each.tenant)]
        looked_at = candidates if failing != NO_HOSTS else [each for each in candidates if each.gated]
        gates = {each.id: gates_of(each, failing) for each in looked_at}
        wanted = [each for each in gates.values() if isinstance(each, Gates)]
        batch = await GateBatch.take(self._tx, wanted, self._now + max(ahead, FARTHEST))
        chosen: list[tuple[ClaimCandidate, Offer]] = []
        unfit: dict[str, ClaimCandidate] = {}
        by_kind = any(offer.kinds is not None for offer in offers)
        set_aside: list[tuple[str, str]] = []
        full: set[str] = set()
        """The profiles whose first run waits for a free slot of its pool."""
        unreadable: list[tuple[str, Micros]] = []
        read_up: set[str] = set()  # tenants with a run that was not read and ranks higher than their next candidates
        due = bisect_left(candidates, True, key=self._is_early)
        in_turn = self._sharing.in_turn
        for each in chain(in_turn(candidates[:due]), in_turn(candidates[due:])):
            if not room.has(each.tenant):
                continue
            need = need_of_run(each)
            if gates.get(each.id) is UNREADABLE:
                unreadable.append((each.id, put_off_until(each.fire_time, self._now)))
                continue
            if by_kind and (named := claim_kinds.named(need, each, offers)) is not need:
                if placement.choose(named, each.profile, offers) is None:
                    set_aside.append((each.id, str(placement.profile(named, each.priority))))
                    continue
                need = named
            if each.profile in full:
                continue
            sort = sort_of_run(each) if self._rooms else NO_SORT
            queue = self._rooms.known_queue(sort, need, each.profile, each.priority)
            if queue is not None:
                set_aside.append((each.id, queue))
                continue
            able = self._rooms.open_to(sort, need, offers)
            offer = None if each.profile in unfit else placement.most_free(need, each.profile, able)
            if offer is None and self._rooms:
                queue = self._rooms.crowded(sort, need, each.profile, each.priority, offers)
            if queue is not None:
                self._crowded = True
                if queue != each.profile:
                    set_aside.append((each.id, queue))
                else:
                    full.add(queue)
                    if need.slots > 1:  # smaller runs would always take the free slots of the pool first
                        unfit.setdefault(queue, each)
                continue
            passes = gates.get(each.id)
            at = max(self._now, each.eligible_at)
            if offer is None:
                if each.profile is not None:
                    unfit.setdefault(each.profile, each)
                continue
            if need.is_only_pooled and unread_after is not None and self._order(each) > unread_after:
                again = True  # a run that was not read may have a better rank, and may need the same slot
                continue
            if each.tenant in read_up:
                continue
            if each.id in self._last_read:
                read_up.add(each.tenant)
                again = True
            if passes is not None and not batch.knows(passes):
                again = True
            elif passes is not None and (closed := batch.closed(passes, at)) is not None:
                batch.park(each.id, passes, closed, self._rank(each))
                again = True
            else:
                if passes is not None:
                    batch.pass_through(each.id, passes, at)
                offer.take(need)
                self._rooms.take(sort, need, offer.session)
                room.take(each.tenant)
                self._sharing.charge(each.tenant, need.slots, offer.serves)
                chosen.append((each, offer))
        await batch.write(self._tx)
        if unreadable:  # else every claim would consider them first
            await self._tx.execute(PUT_OFF_RUNS, b=unreadable)
            again = True
        if set_aside:
            await claim_kinds.set_aside(self._tx, set_aside)
            again = True
        assigned = await self._assign(chosen, gates)
        await reserve(self._tx, self._now, self._credit, offers, self._idle, chosen, unfit)
        some_left = any(offer.slots > 0 for offer in offers)
        return AssignedRun(
            assigned,
            self._now,
            again and some_left,
            placement.open_slots(offers),
            room.is_short and some_left,
            self._crowded and some_left,
            pooled=True,
            queues=self._rooms.queues,
        )

    def _rank(self, each: ClaimCandidate) -> Micros:
        return rank(each.eligible_at, each.priority, self._credit)

    def _is_early(self, each: ClaimCandidate) -> bool:
        return each.eligible_at > self._now

    def _order(self, each: ClaimCandidate) -> tuple[bool, Micros, Micros, str]:
        return each.eligible_at > self._now, self._rank(each), each.fire_time, each.id

    async def _constrained(
        self, waiting: Sequence[str], offers: Sequence[Offer], ahead: Micros, more: bool
    ) -> list[Row]:
        """Return the first ready runs with a placement profile that one of the offers may satisfy. `waiting` are the
        profiles with ready runs. `ahead` also allows runs that become due within that time. Runs of other profiles are
        left for other workers. `more`: runs without a profile are ready, too."""
        fitting = [each for each in waiting if any(offer.may_suit(placement.need_of(each)) for offer in offers)]
        suited = [each for each in fitting if self._rooms.may_serve(each, offers)]
        self._crowded = len(suited) < len(fitting)
        if not suited:
            return []
        wanted = min(sum(offer.slots for offer in offers), MAX_CLAIMS)
        tenants = {placement.tenant_of(each) for each in suited} | ({DEFAULT_TENANT} if more else set())
        free = self._sharing.quota(wanted, sorted(tenants))
        if any(offer.kinds is not None for offer in offers):  # the first runs may be of other kinds
            free = max(free, LOOK_AT // len(tenants))
        limits = {each: limit for each in suited if (limit := self._rooms.limit(each, offers)) is not None}
        unlimited = sorted(set(suited) - limits.keys())
        rows = await self._tx.fetch(FITTING_RUNS, b=unlimited, ahead=ahead, free=free) if unlimited else []
        if limits:
            self._crowded = True  # more runs may wait than are read
            most = min(free, max(limits.values()))
            rows += await self._tx.fetch(FITTING_RUNS, b=sorted(limits), ahead=ahead, free=most)
        if free < wanted:
            read = Counter(row[PROFILE] for row in rows)
            last = {row[PROFILE]: row for row in sorted(rows, key=_ORDER_OF_LEVEL)}
            self._last_read = frozenset(row[ID] for profile, row in last.items() if read[profile] >= free)
        return rows

    async def _assign(
        self, chosen: Sequence[tuple[ClaimCandidate, Offer]], gates: Mapping[str, Gates | None]
    ) -> list[tuple[Row, int, SlotRequest]]:
        if not chosen:
            return []
        assigned: list[tuple[Row, int, SlotRequest]] = [
            (msgspec.structs.astuple(each), token, self._wants[offer.session])
            for (each, offer), token in zip(chosen, await self._tx.tokens(len(chosen)), strict=True)
        ]
        await self._tx.execute(CLAIM, b=[claim_row(*each, self._leased) for each in assigned], at=self._now)
        shares = []
        for each, _ in chosen:
            passes, need = gates.get(each.id), need_of_run(each)
            share = f"{need.cpu}|{need.memory}" if need.cpu or need.memory else None
            permit = None if passes is None else passes.permit
            if share is not None or permit is not None:
                shares.append((each.id, permit, share))
        if shares:
            await self._tx.execute(HOLD_SHARES, b=shares)
        return assigned
