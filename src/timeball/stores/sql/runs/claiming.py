"""Claims: who gets what, in one transaction for all workers that wait.

Most runs ask for nothing special: the best of them by rank are dealt out to the free slots. Only if one of the
candidates shares a limit, or asks for a certain kind of worker, are they looked at one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from itertools import islice, repeat, starmap, zip_longest
from operator import itemgetter
from typing import Any, Final

import msgspec
from msgspec import Struct

from timeball.domain.dispatch import placement
from timeball.domain.dispatch.limits import Concurrency, RateLimit
from timeball.domain.dispatch.placement import PLAIN, UNLIMITED, Need, Offer, kind_label
from timeball.domain.dispatch.priority import bound, rank
from timeball.domain.instant import MINUTE, SECOND, Micros
from timeball.domain.planning.planning_failure import put_off_until
from timeball.domain.task.task import Task, host_of
from timeball.ports.store.runs import Claim, Claimed, SlotRequest
from timeball.stores.sql.dialect import Query
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.rows import unread
from timeball.stores.sql.runs import claim_kinds
from timeball.stores.sql.runs.claimants import LeasedSession, claimants
from timeball.stores.sql.runs.gates import NO_HOSTS, GateBatch, Gates, IllHosts, ill_hosts
from timeball.stores.sql.runs.workers import DEDICATED, told_apart
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
"""Runs that are looked at, however few slots are free, once some of them may have to wait for something else."""
RESERVED_FOR: Final = 15 * MINUTE
"""How long a worker is kept free for a run; then another one may be."""
FARTHEST: Final = SECOND
"""Nobody else claims a run longer before its time than this."""
MAX_CLAIMS: Final = 1_000
"""Runs one claim hands out at most, whatever capacity the workers say they have: the next ones are claimed while these
execute."""
MAX_AHEAD: Final = 5_000
"""The same if some of them are still to come. Their delays count from when they arrive, so of two answers the second
might start first."""


class _Candidate(Struct, frozen=True):
    """A run that could be claimed; the order of the columns of both queries."""

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


_column = _Candidate.__struct_fields__.index
_ID, _FIRE_TIME, _ELIGIBLE_AT = map(_column, ("id", "fire_time", "eligible_at"))
_PRIORITY, _NOW, _SPEC, _TASK, _GATED = map(_column, ("priority", "now", "spec", "task", "gated"))
"""Most candidates are handed out as the database answered them: to make a `_Candidate` of each would cost more than to
choose among them."""
_ORDER_OF_LEVEL = itemgetter(_ELIGIBLE_AT, _FIRE_TIME, _ID)
"""Among runs of one priority, the order of their ranks."""
UNREADABLE: Final = Gates("")
"""Of a run whose spec this version cannot read: nobody else should suffer for it."""


class _Limits(Struct, rename="camel"):
    """What is wanted of a spec here; the rest of it is not even looked at."""

    concurrency: Concurrency | None = None
    rate_limit: RateLimit | None = None
    task: Task | None = None


_decode_limits = msgspec.json.Decoder(_Limits).decode
_decode_task: Any = msgspec.json.Decoder(Task).decode


@lru_cache
def _claimable(credit: Micros, of_one_level: bool) -> Query:
    first = text("first_of_level")
    if of_one_level:
        return many(query("claimable_of_level", candidate=text("candidate"), first_of_level=first, level=":level"))
    return many(query("claimable", candidate=text("candidate"), first_of_level=first, credit=str(credit)))


FITTABLE = query("fittable", candidate=text("candidate"))
NEXT_ELIGIBLE_AT = query("next_eligible_at")


class AssignedRun(Struct, frozen=True):
    """What a transaction handed out. It is put into words afterwards: others wait for their turn to write."""

    runs: list[tuple[Row, int, SlotRequest]]
    now: Micros
    again: bool = False
    left: int = 0

    def claimed(self) -> Claimed:
        claims = [_claim(*each) for each in self.runs]
        return Claimed(claims, self.now, self.again, self.left, more=len(claims) >= MAX_CLAIMS)


async def claim(tx: Tx, wants: Sequence[SlotRequest], ahead: Micros, credit: Micros, before: Micros) -> AssignedRun:
    waiting = await claimants(tx, wants, ahead)
    leased, fitted = waiting.sessions, waiting.fitted
    if not leased:
        return AssignedRun([], before)
    everybody, level = waiting.for_anybody, waiting.level
    choosy = waiting.for_some_kinds if len(everybody) < len(leased) else []
    everybody += choosy
    slots = interleaved(everybody, MAX_AHEAD)
    wanted = sum(want.slots for want in everybody)
    claimable = _claimable(credit, level is not None)
    free = min(len(slots), MAX_CLAIMS)
    rows = await tx.fetch(claimable, ahead=ahead, free=free, level=level) if slots else []
    if len(rows) == free < len(slots) and any(row[_ELIGIBLE_AT] > row[_NOW] for row in rows):
        rows = await tx.fetch(claimable, ahead=ahead, free=len(slots), level=level)
    gated = any(row[_GATED] for row in rows)
    ill = NO_HOSTS
    if waiting.ill_host and (fitted or choosy or gated or any(_is_http(row[_TASK] or row[_SPEC]) for row in rows)):
        ill = await ill_hosts(tx)
        gated = gated or any(_gates(_Candidate(*row), ill) is not None for row in rows)
    if fitted or choosy or gated:
        if len(slots) < LOOK_AT and rows and (gated or choosy):  # most may have to wait
            rows = await tx.fetch(claimable, ahead=ahead, free=LOOK_AT, level=level)
        choice = _Choice(tx, waiting.wants, leased, credit)
        return await choice.make(rows, ahead, before, fitted or bool(choosy), ill)
    if not rows:
        return AssignedRun([], before, left=wanted)
    now: Micros = rows[0][_NOW]
    if level is None:
        rows.sort(key=partial(_order, now, credit))
    else:
        rows.sort(key=_ORDER_OF_LEVEL)
    tokens = await tx.tokens(len(rows))
    handed = list(zip(rows, tokens, slots, strict=False))
    first_token = tokens[0]
    if len(everybody) == 1 and tokens[-1] - first_token < len(tokens):  # no other server took one in between
        (one,) = everybody
        ids = [row[_ID] for row in rows]
        who = {"session": one.session, "worker": leased[one.session].name, "poll": one.poll}
        await tx.execute(CLAIM_FOR_ONE, b=ids, first_token=first_token, at=now, **who)
    else:
        await tx.execute(CLAIM, b=[_handed(*each, leased) for each in handed], at=now)
    return AssignedRun(handed, now, left=wanted - len(handed))


def _order(now: Micros, credit: Micros, row: Row) -> tuple[bool, Micros, Micros, str]:
    """What is due goes first, then the order of rank."""
    eligible_at = row[_ELIGIBLE_AT]
    return eligible_at > now, rank(eligible_at, row[_PRIORITY], credit), row[_FIRE_TIME], row[_ID]


class _Choice:
    """Goes through the candidates in the order of their rank."""

    def __init__(
        self, tx: Tx, wants: Sequence[SlotRequest], leased: Mapping[str, LeasedSession], credit: Micros
    ) -> None:
        self._tx = tx
        self._wants = {want.session: want for want in wants}
        self._leased = leased
        self._credit = credit
        self._now: Micros = 0
        self._idle: dict[str, Offer] = {}
        """What the workers would offer if they had nothing to do."""

    async def make(self, rows: list[Row], ahead: Micros, before: Micros, fitted: bool, ill: IllHosts) -> AssignedRun:
        offers = await self._offers() if fitted else self._slots_only()
        again = len(offers) < len(self._wants)
        if fitted:
            rows = [*rows, *await self._choosy(offers, ahead)]
        if not rows:
            return AssignedRun([], before, again and _left(offers) > 0, _left(offers))
        self._now = rows[0][_NOW]
        candidates = sorted(starmap(_Candidate, rows), key=self._order)
        looked_at = candidates if ill != NO_HOSTS else [each for each in candidates if each.gated]
        gates = {each.id: _gates(each, ill) for each in looked_at}
        wanted = [each for each in gates.values() if isinstance(each, Gates)]
        house = await GateBatch.take(self._tx, wanted, self._now + max(ahead, FARTHEST))
        chosen: list[tuple[_Candidate, Offer]] = []
        unfit: dict[str, _Candidate] = {}
        by_kind = any(offer.kinds is not None for offer in offers)
        set_aside: list[tuple[str, str]] = []
        unreadable: list[tuple[str, Micros]] = []
        for each in candidates:
            need = _need(each)
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
            elif passes is not None and not house.knows(passes):
                again = True
            elif passes is not None and (closed := house.closed(passes, at)) is not None:
                house.park(each.id, passes, closed, self._rank(each))
                again = True
            else:
                if passes is not None:
                    house.pass_through(each.id, passes, at)
                offer.take(need)
                chosen.append((each, offer))
        await house.write(self._tx)
        if unreadable:  # or they would be looked at first by every claim
            await self._tx.execute(PUT_OFF_RUNS, b=unreadable)
            again = True
        if set_aside:
            await claim_kinds.set_aside(self._tx, set_aside)
            again = True
        handed = await self._hand_out(chosen, gates)
        await self._reserve(offers, chosen, unfit)
        return AssignedRun(handed, self._now, again and any(offer.slots > 0 for offer in offers), _left(offers))

    def _rank(self, each: _Candidate) -> Micros:
        return rank(each.eligible_at, each.priority, self._credit)

    def _order(self, each: _Candidate) -> tuple[bool, Micros, Micros, str]:
        return each.eligible_at > self._now, self._rank(each), each.fire_time, each.id

    def _slots_only(self) -> list[Offer]:
        """What counts of the waiting workers if nobody asks for anything else."""
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
        """What the waiting workers have left. Who else claims for one of them just now, on another server, is first."""
        for session, slots, labels, cpu, memory, dedicated in await self._tx.fetch(OFFERS, b=list(self._wants)):
            own_labels, kinds = told_apart(labels, dedicated)
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

    async def _choosy(self, offers: Sequence[Offer], ahead: Micros) -> list[Row]:
        """The runs that not every worker can take, as far as one of those that wait may have them at all: the others
        are left to other servers."""
        waiting = [profile for (profile,) in await self._tx.fetch(PROFILES_WAITING, ahead=ahead)]
        suited = [each for each in waiting if any(offer.may_suit(placement.need_of(each)) for offer in offers)]
        if not suited:
            return []
        free = min(sum(offer.slots for offer in offers), MAX_CLAIMS)
        if any(offer.kinds is not None for offer in offers):  # the first ones may be of other kinds
            free = max(free, LOOK_AT)
        return await self._tx.fetch(FITTABLE, b=sorted(suited), ahead=ahead, free=free)

    async def _hand_out(
        self, chosen: Sequence[tuple[_Candidate, Offer]], gates: Mapping[str, Gates | None]
    ) -> list[tuple[Row, int, SlotRequest]]:
        if not chosen:
            return []
        handed: list[tuple[Row, int, SlotRequest]] = [
            (msgspec.structs.astuple(each), token, self._wants[offer.session])
            for (each, offer), token in zip(chosen, await self._tx.tokens(len(chosen)), strict=True)
        ]
        await self._tx.execute(CLAIM, b=[_handed(*each, self._leased) for each in handed], at=self._now)
        shares = []
        for each, _ in chosen:
            passes, need = gates.get(each.id), _need(each)
            share = f"{need.cpu}|{need.memory}" if need.cpu or need.memory else None
            permit = None if passes is None else passes.permit
            if share is not None or permit is not None:
                shares.append((each.id, permit, share))
        if shares:
            await self._tx.execute(HOLD_SHARES, b=shares)
        return handed

    async def _reserve(
        self,
        offers: Sequence[Offer],
        chosen: Sequence[tuple[_Candidate, Offer]],
        unfit: Mapping[str, _Candidate],
    ) -> None:
        """Keep a worker free for each kind of runs of which one did not fit although nothing younger outranks it any
        more; and no longer for those that found their worker."""
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


def _need(each: _Candidate) -> Need:
    return PLAIN if each.profile is None else placement.need_of(each.profile)


def _left(offers: Sequence[Offer]) -> int:
    """Slots that any run could have."""
    return sum(offer.slots for offer in offers if offer.suits(PLAIN) and offer.reserved_for is None)


def _is_http(task: str) -> bool:
    """Whether a task, or a spec with one, may be a call. That costs less than to read it."""
    return '"http"' in task


def _gates(each: _Candidate, ill: IllHosts) -> Gates | None:
    """The gates of a run, if it has any; a host is one only while it is ill."""
    if not each.gated and not _is_http(each.task or each.spec):
        return None
    try:
        limits = _decode_limits(each.spec)
        task = limits.task if each.task is None else _decode_task(each.task)
    except msgspec.MsgspecError as error:
        unread(each.job_id, error)
        return UNREADABLE
    host = None if task is None else host_of(task)
    if host is not None and not ill.includes(each.tenant, host):
        host = None
    if limits.concurrency is None and limits.rate_limit is None and host is None:
        return None
    return Gates(each.tenant, limits.concurrency, limits.rate_limit, host)


def interleaved(wants: Sequence[SlotRequest], most: int) -> list[SlotRequest]:
    """A want per free slot, taking turns, so that work is shared when there is less than capacity."""
    if len(wants) == 1:
        (only,) = wants
        return [only] * min(only.slots, most)
    turns = zip_longest(*(repeat(want, want.slots) for want in wants))
    return list(islice((want for turn in turns for want in turn if want is not None), most))


def _handed(
    row: Row, token: int, want: SlotRequest, leased: Mapping[str, LeasedSession]
) -> tuple[str, int, str, str, int]:
    return row[_ID], token, want.session, leased[want.session].name, want.poll


def _claim(row: Row, token: int, want: SlotRequest) -> Claim:
    run_id, job_id, attempt, fire_time, eligible_at, serial, _, _, spec, task, tenant, key, _, profile = row
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
    )
