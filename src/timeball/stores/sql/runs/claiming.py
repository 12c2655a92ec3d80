"""Claim ready runs for all workers with a pending poll, in one transaction.

Most runs are unconstrained: those of the lowest rank go to the free slots. The candidates are considered one by one
only if one of them shares a limit, or needs a certain worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from itertools import islice, repeat, starmap, zip_longest
from operator import itemgetter
from typing import Final

import msgspec
from msgspec import Struct

from timeball.domain.dispatch import placement
from timeball.domain.dispatch.placement import PLAIN, UNLIMITED, Need, Offer, kind_label
from timeball.domain.dispatch.priority import bound, rank
from timeball.domain.instant import MINUTE, SECOND, Micros
from timeball.domain.planning.planning_failure import put_off_until
from timeball.ports.store.runs import Claimed, SlotRequest
from timeball.stores.sql.dialect import Query
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.runs import claim_kinds
from timeball.stores.sql.runs.candidates import (
    ELIGIBLE_AT,
    FIRE_TIME,
    GATED,
    ID,
    NOW,
    PRIORITY,
    SPEC,
    TASK,
    UNREADABLE,
    ClaimCandidate,
    claim_of,
    claim_row,
    gates_of,
    may_be_http,
    need_of_run,
)
from timeball.stores.sql.runs.claimants import LeasedSession, claimants
from timeball.stores.sql.runs.gates import NO_HOSTS, FailingHosts, GateBatch, Gates, failing_hosts
from timeball.stores.sql.runs.workers import DEDICATED, split_labels
from timeball.stores.sql.statements import many, query, text

CLAIM = query("claim")
CLAIM_FOR_ONE = query("claim_for_one")
HOLD_SHARES = query("hold_shares")
OFFERS = query("offers")
SHARES_HELD = query("shares_held")
RESERVED_PROFILES = query("reserved_profiles")
RESERVE = query("reserve")
PROFILES_WAITING = query("profiles_waiting")
PUT_OFF_RUNS = query("put_off_runs")

LOOK_AT: Final = 500
"""Number of candidates that a claim reads at least, even if fewer slots are free, when some candidates may have to wait
at a gate or may have a task kind that the workers do not accept."""
RESERVED_FOR: Final = 15 * MINUTE
"""Microseconds for which a worker is reserved for a placement profile. After that, another worker may be reserved for
the profile."""
FARTHEST: Final = SECOND
"""Microseconds after now: the latest instant for which the stored state of a rate limit may have given a token. It is
longer than `AHEAD`, by which claims run ahead."""
MAX_CLAIMS: Final = 1_000
"""Maximum number of due runs without a placement profile that one claim assigns, and of runs of each placement profile,
even if the workers have more free slots. The next runs are claimed while these execute."""
MAX_AHEAD: Final = 5_000
"""Maximum number of runs that one claim assigns if some of them are not due yet. A worker starts such a run after a
delay that begins when the answer arrives. With two claims, runs of the second answer might start before runs of the
first, so one claim may assign more of them.
"""
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
    """The runs that a claim assigned. They are decoded after the transaction, because other writers wait while it is
    open.
    """

    runs: list[tuple[Row, int, SlotRequest]]
    now: Micros
    again: bool = False
    left: int = 0

    def claimed(self) -> Claimed:
        claims = [claim_of(*each) for each in self.runs]
        return Claimed(claims, self.now, self.again, self.left, more=len(claims) >= MAX_CLAIMS)


async def claim(tx: Tx, wants: Sequence[SlotRequest], ahead: Micros, credit: Micros, before: Micros) -> AssignedRun:
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
    rows = await tx.fetch(claimable, ahead=ahead, free=free, level=level) if slots else []
    if len(rows) == free < len(slots) and any(row[ELIGIBLE_AT] > row[NOW] for row in rows):
        rows = await tx.fetch(claimable, ahead=ahead, free=len(slots), level=level)
    gated = any(row[GATED] for row in rows)
    failing = NO_HOSTS
    if waiting.failing_host and (
        constrained or by_kind or gated or any(may_be_http(row[TASK] or row[SPEC]) for row in rows)
    ):
        failing = await failing_hosts(tx)
        gated = gated or any(gates_of(ClaimCandidate(*row), failing) is not None for row in rows)
    if constrained or by_kind or gated:
        if len(slots) < LOOK_AT and rows and (gated or by_kind):  # most candidates may wait at a gate or be refused
            rows = await tx.fetch(claimable, ahead=ahead, free=LOOK_AT, level=level)
        choice = _Choice(tx, waiting.wants, leased, credit)
        return await choice.make(rows, ahead, before, constrained or bool(by_kind), failing)
    if not rows:
        return AssignedRun([], before, left=wanted)
    now: Micros = rows[0][NOW]
    if level is None:
        rows.sort(key=partial(_order, now, credit))
    else:
        rows.sort(key=_ORDER_OF_LEVEL)
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
    return AssignedRun(assigned, now, left=wanted - len(assigned))


def _order(now: Micros, credit: Micros, row: Row) -> tuple[bool, Micros, Micros, str]:
    """Sort key of a candidate: due runs first, then by rank."""
    eligible_at = row[ELIGIBLE_AT]
    return eligible_at > now, rank(eligible_at, row[PRIORITY], credit), row[FIRE_TIME], row[ID]


class _Choice:
    """Assigns runs if a candidate has a gate or needs a certain worker: it considers all candidates one by one, due
    runs first, then in the order of their rank."""

    def __init__(
        self, tx: Tx, wants: Sequence[SlotRequest], leased: Mapping[str, LeasedSession], credit: Micros
    ) -> None:
        self._tx = tx
        self._wants = {want.session: want for want in wants}
        self._leased = leased
        self._credit = credit
        self._now: Micros = 0
        self._idle: dict[str, Offer] = {}
        """The capacity that each worker would have if it executed no run."""

    async def make(
        self, rows: list[Row], ahead: Micros, before: Micros, constrained: bool, failing: FailingHosts
    ) -> AssignedRun:
        offers = await self._offers() if constrained else self._slots_only()
        again = len(offers) < len(self._wants)
        if constrained:
            rows = [*rows, *await self._constrained(offers, ahead)]
        if not rows:
            return AssignedRun([], before, again and _left(offers) > 0, _left(offers))
        self._now = rows[0][NOW]
        candidates = sorted(starmap(ClaimCandidate, rows), key=self._order)
        looked_at = candidates if failing != NO_HOSTS else [each for each in candidates if each.gated]
        gates = {each.id: gates_of(each, failing) for each in looked_at}
        wanted = [each for each in gates.values() if isinstance(each, Gates)]
        batch = await GateBatch.take(self._tx, wanted, self._now + max(ahead, FARTHEST))
        chosen: list[tuple[ClaimCandidate, Offer]] = []
        unfit: dict[str, ClaimCandidate] = {}
        by_kind = any(offer.kinds is not None for offer in offers)
        set_aside: list[tuple[str, str]] = []
        unreadable: list[tuple[str, Micros]] = []
        for each in candidates:
            need = need_of_run(each)
            if gates.get(each.id) is UNREADABLE:
                unreadable.append((each.id, put_off_until(each.fire_time, self._now)))
                continue
            if by_kind and (named := claim_kinds.named(need, each, offers)) is not need:
                if placement.choose(named, each.profile, offers) is None:
                    set_aside.append((each.id, str(placement.profile(named, each.priority))))
                    continue
                need = named
            offer = None if each.profile in unfit else placement.choose(need, each.profile, offers)
            passes = gates.get(each.id)
            at = max(self._now, each.eligible_at)
            if offer is None:
                if each.profile is not None:
                    unfit.setdefault(each.profile, each)
            elif passes is not None and not batch.knows(passes):
                again = True
            elif passes is not None and (closed := batch.closed(passes, at)) is not None:
                batch.park(each.id, passes, closed, self._rank(each))
                again = True
            else:
                if passes is not None:
                    batch.pass_through(each.id, passes, at)
                offer.take(need)
                chosen.append((each, offer))
        await batch.write(self._tx)
        if unreadable:  # else every claim would consider them first
            await self._tx.execute(PUT_OFF_RUNS, b=unreadable)
            again = True
        if set_aside:
            await claim_kinds.set_aside(self._tx, set_aside)
            again = True
        assigned = await self._assign(chosen, gates)
        await self._reserve(offers, chosen, unfit)
        return AssignedRun(assigned, self._now, again and any(offer.slots > 0 for offer in offers), _left(offers))

    def _rank(self, each: ClaimCandidate) -> Micros:
        return rank(each.eligible_at, each.priority, self._credit)

    def _order(self, each: ClaimCandidate) -> tuple[bool, Micros, Micros, str]:
        return each.eligible_at > self._now, self._rank(each), each.fire_time, each.id

    def _slots_only(self) -> list[Offer]:
        """Return the free slots of the waiting workers as offers with unlimited CPU and memory, because no candidate
        needs more than slots."""
        return [
            Offer(
                session=want.session,
                slots=want.slots,
                cpu=UNLIMITED,
                memory=UNLIMITED,
                dedicated=bool(self._leased[want.session].dedicated),
                reserved_for=self._leased[want.session].reserved_for,
            )
            for want in self._wants.values()
        ]

    async def _offers(self) -> list[Offer]:
        """Lock the waiting workers and return their free capacity. A worker that another server claims for is left
        out."""
        for session, slots, labels, cpu, memory, dedicated in await self._tx.fetch(OFFERS, b=list(self._wants)):
            own_labels, kinds = split_labels(labels, dedicated)
            self._idle[session] = Offer(
                session=session,
                slots=slots,
                cpu=UNLIMITED if cpu < 0 else cpu,
                memory=UNLIMITED if memory < 0 else memory,
                labels=frozenset(own_labels),
                dedicated=bool(dedicated & DEDICATED),
                reserved_for=self._leased[session].reserved_for,
                kinds=None if kinds is None else frozenset(map(kind_label, kinds)),
            )
        offers = {
            session: msgspec.structs.replace(offer, slots=self._wants[session].slots)
            for session, offer in self._idle.items()
        }
        for session, held in await self._tx.fetch(SHARES_HELD, b=list(offers)):
            cpu, memory = map(int, held.split("|"))
            offers[session].take(Need(0, cpu, memory))
        return list(offers.values())

    async def _constrained(self, offers: Sequence[Offer], ahead: Micros) -> list[Row]:
        """Return the runs whose placement profile one of the waiting workers satisfies. Other servers claim the other
        runs.
        """
        waiting = [profile for (profile,) in await self._tx.fetch(PROFILES_WAITING, ahead=ahead)]
        suited = [each for each in waiting if any(offer.may_suit(placement.need_of(each)) for offer in offers)]
        if not suited:
            return []
        free = min(sum(offer.slots for offer in offers), MAX_CLAIMS)
        if any(offer.kinds is not None for offer in offers):  # the first runs may be of other kinds
            free = max(free, LOOK_AT)
        return await self._tx.fetch(FITTING_RUNS, b=sorted(suited), ahead=ahead, free=free)

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

    async def _reserve(
        self,
        offers: Sequence[Offer],
        chosen: Sequence[tuple[ClaimCandidate, Offer]],
        unfit: Mapping[str, ClaimCandidate],
    ) -> None:
        """Reserve a worker for each placement profile with a run that did not fit and that no younger run can outrank
        any more. End the reservations for profiles whose run was assigned."""
        found = {offer.session for each, offer in chosen if offer.reserved_for == each.profile is not None}
        kept: dict[str, tuple[str | None, Micros]] = dict.fromkeys(found, (None, 0))
        late = [
            profile
            for profile, each in unfit.items()
            if self._now - each.eligible_at > bound(each.priority, self._credit)
        ]
        if late:
            taken = {profile for (profile,) in await self._tx.fetch(RESERVED_PROFILES)}
            taken -= {offer.reserved_for for _, offer in chosen}
            free = {offer.session: offer for offer in offers if offer.reserved_for is None or offer.session in found}
            for profile in late:
                need = placement.need_of(profile)
                able = [offer for session, offer in free.items() if self._idle[session].fits(need)]
                if profile not in taken and able:
                    session = max(able, key=lambda offer: offer.slots).session
                    kept[session] = (profile, RESERVED_FOR)
                    del free[session]
        if kept:
            await self._tx.execute(RESERVE, b=[(session, *kept[session]) for session in sorted(kept)])


def _left(offers: Sequence[Offer]) -> int:
    """Return the number of free slots for runs without placement requirements, on workers that are not reserved."""
    return sum(offer.slots for offer in offers if offer.suits(PLAIN) and offer.reserved_for is None)


def interleaved(wants: Sequence[SlotRequest], limit: int) -> list[SlotRequest]:
    """Return one slot request per free slot, at most `limit`, alternating between workers, so that a few runs are
    spread over all workers."""
    if len(wants) == 1:
        (only,) = wants
        return [only] * min(only.slots, limit)
    turns = zip_longest(*(repeat(want, want.slots) for want in wants))
    return list(islice((want for turn in turns for want in turn if want is not None), limit))
