"""Claims: who gets what, in one transaction for all workers that wait.

Most runs ask for nothing special: the best of them by rank are dealt out to the free slots. Only if one of the
candidates shares a limit, or asks for a certain kind of worker, are they looked at one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import islice, repeat, zip_longest
from typing import Any, Final

import msgspec
from msgspec import Struct

from timeball.domain import fitting
from timeball.domain.fitting import PLAIN, UNLIMITED, Need, Offer
from timeball.domain.instant import Micros
from timeball.domain.limits import Concurrency, RateLimit
from timeball.domain.priority import LEVELS, bound, rank
from timeball.domain.task import Task, host_of
from timeball.ports.store import Claim, Claimed, Want
from timeball.stores.sql.dialect import Query
from timeball.stores.sql.driver import Row, Tx
from timeball.stores.sql.gates import Gatehouse, Gates
from timeball.stores.sql.library import query, text

LEASED_SESSIONS = query("leased_sessions")
CLAIM = query("claim")
HOLD_SHARES = query("hold_shares")
OFFERS = query("offers")
SHARES_HELD = query("shares_held")
RESERVABLE = query("reservable")
RESERVE = query("reserve")

MOST_CLAIMS: Final = 5_000
"""Runs one claim hands out at most, whatever capacity the workers say they have."""


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


_GATED = 12


class _Limits(Struct, rename="camel"):
    """What is wanted of a spec here; the rest of it is not even looked at."""

    concurrency: Concurrency | None = None
    rate_limit: RateLimit | None = None
    task: Task | None = None


_decode_limits = msgspec.json.Decoder(_Limits).decode
_decode_task: Any = msgspec.json.Decoder(Task).decode


def _per_level(name: str) -> str:
    return "\n  UNION ALL ".join(text(name).replace("{level}", str(level)) for level in LEVELS)


@lru_cache
def _claimable(credit: Micros) -> Query:
    return query("claimable", levels=_per_level("claimable_level"), credit=str(credit), candidate=text("candidate"))


FITTABLE = query("fittable", candidate=text("candidate"))
NEXT_ELIGIBLE_AT = query("next_eligible_at", levels=_per_level("next_of_level"))


async def claim(tx: Tx, wants: Sequence[Want], ahead: Micros, credit: Micros, before: Micros) -> Claimed:
    leased = {row[0]: row for row in await tx.fetch(LEASED_SESSIONS, b=[want.session for want in wants], ahead=ahead)}
    wants = [want for want in wants if want.session in leased]
    if not wants:
        return Claimed([], before)
    _, _, _, _, unwell, fitted = next(iter(leased.values()))
    for_anybody = [want for want in wants if not leased[want.session][2] and leased[want.session][3] is None]
    slots = _interleaved(for_anybody)
    rows = await tx.fetch(_claimable(credit), ahead=ahead, free=len(slots)) if slots else []
    choosy = await tx.fetch(FITTABLE, ahead=ahead, free=_free(wants)) if fitted else []
    if not rows and not choosy:
        return Claimed([], before, left=len(slots))
    now: Micros = (rows or choosy)[0][7]
    if choosy or unwell or any(row[_GATED] for row in rows):
        candidates = [_Candidate(*row) for row in (*rows, *choosy)]
        return await _Choice(wants, leased, now, credit).make(tx, candidates, bool(choosy), bool(unwell))
    rows.sort(key=lambda row: (row[4] > now, rank(row[4], row[6], credit), row[3], row[0]))
    handed = list(zip(rows, await tx.tokens(len(rows)), slots, strict=False))
    await tx.execute(CLAIM, b=[_handed(*each, leased) for each in handed], at=now)
    return Claimed([_claim(*each) for each in handed], now, left=len(slots) - len(handed))


class _Choice:
    """Goes through the candidates in the order of their rank."""

    def __init__(self, wants: Sequence[Want], leased: Mapping[str, Row], now: Micros, credit: Micros) -> None:
        self._wants = {want.session: want for want in wants}
        self._leased = leased
        self._now = now
        self._credit = credit

    async def make(self, tx: Tx, candidates: list[_Candidate], choosy: bool, unwell: bool) -> Claimed:
        candidates.sort(key=self._order)
        gates = {each.id: _gates(each, unwell) for each in candidates if each.gated or unwell}
        house = await Gatehouse.take(tx, [each for each in gates.values() if each is not None])
        offers = await self._offers(tx, choosy)
        again = len(offers) < len(self._wants)
        chosen: list[tuple[_Candidate, Offer]] = []
        unfit: dict[str, _Candidate] = {}
        for each in candidates:
            need = PLAIN if each.profile is None else fitting.need_of(each.profile)
            offer = None if each.profile in unfit else fitting.choose(need, each.id, offers)
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
        await house.write(tx)
        claims = await self._hand_out(tx, chosen, gates)
        await self._reserve(tx, unfit)  # a worker that was kept free for a run of these is free for the next
        left = sum(offer.slots for offer in offers if not offer.dedicated and offer.reserved_for is None)
        return Claimed(claims, self._now, again and any(offer.slots > 0 for offer in offers), left)

    def _rank(self, each: _Candidate) -> Micros:
        return rank(each.eligible_at, each.priority, self._credit)

    def _order(self, each: _Candidate) -> tuple[bool, Micros, Micros, str]:
        return each.eligible_at > self._now, self._rank(each), each.fire_time, each.id

    async def _offers(self, tx: Tx, choosy: bool) -> list[Offer]:
        """What the waiting workers have left. Who else claims for one of them just now, on another server, is first."""
        if not choosy:
            return [
                Offer(
                    session=want.session,
                    slots=want.slots,
                    cpu=UNLIMITED,
                    memory=UNLIMITED,
                    dedicated=bool(self._leased[want.session][2]),
                    reserved_for=self._leased[want.session][3],
                )
                for want in self._wants.values()
            ]
        offers = {
            session: Offer(
                session=session,
                slots=self._wants[session].slots,
                cpu=UNLIMITED if cpu < 0 else cpu,
                memory=UNLIMITED if memory < 0 else memory,
                labels=frozenset(msgspec.json.decode(labels, type=list[str])),
                dedicated=bool(dedicated),
                reserved_for=self._leased[session][3],
            )
            for session, labels, cpu, memory, dedicated in await tx.fetch(OFFERS, b=list(self._wants))
        }
        for session, held in await tx.fetch(SHARES_HELD, b=list(offers)):
            cpu, memory = map(int, held.split("|"))
            offers[session].take(Need(0, cpu, memory))
        return list(offers.values())

    async def _hand_out(
        self, tx: Tx, chosen: Sequence[tuple[_Candidate, Offer]], gates: Mapping[str, Gates | None]
    ) -> list[Claim]:
        if not chosen:
            return []
        handed = [
            (msgspec.structs.astuple(each), token, self._wants[offer.session])
            for (each, offer), token in zip(chosen, await tx.tokens(len(chosen)), strict=True)
        ]
        await tx.execute(CLAIM, b=[_handed(*each, self._leased) for each in handed], at=self._now)
        shares = []
        for each, _ in chosen:
            passes = gates.get(each.id)
            need = PLAIN if each.profile is None else fitting.need_of(each.profile)
            share = f"{need.cpu}|{need.memory}" if need.cpu or need.memory else None
            permit = None if passes is None else passes.permit
            if share is not None or permit is not None:
                shares.append((each.id, permit, share))
        if shares:
            await tx.execute(HOLD_SHARES, b=shares)
        return [_claim(*each) for each in handed]

    async def _reserve(self, tx: Tx, unfit: Mapping[str, _Candidate]) -> None:
        """Keep a worker free for each run that nothing younger outranks any more and that still did not fit."""
        for profile, each in unfit.items():
            if self._now - each.eligible_at <= bound(each.priority, self._credit):
                continue
            need = fitting.need_of(profile)
            able = []
            for session, slots, labels, cpu, memory, dedicated, reserved_for, running in await tx.fetch(RESERVABLE):
                if reserved_for == each.id:
                    break
                offer = Offer(
                    session=session,
                    slots=slots,
                    cpu=UNLIMITED if cpu < 0 else cpu,
                    memory=UNLIMITED if memory < 0 else memory,
                    labels=frozenset(msgspec.json.decode(labels, type=list[str])),
                    dedicated=bool(dedicated),
                )
                if reserved_for is None and offer.fits(need):
                    able.append((running, session))
            else:
                if able:
                    await tx.execute(RESERVE, session=min(able)[1], run_id=each.id)


def _gates(each: _Candidate, unwell: bool) -> Gates | None:
    """The gates of a run, if it has any; hosts only matter while one is unwell."""
    if not each.gated and '"http"' not in (each.task or each.spec):
        return None
    limits = _decode_limits(each.spec)
    task = limits.task if each.task is None else _decode_task(each.task)
    host = host_of(task) if unwell and task is not None else None
    if limits.concurrency is None and limits.rate_limit is None and host is None:
        return None
    return Gates(each.tenant, limits.concurrency, limits.rate_limit, host)


def _free(wants: Sequence[Want]) -> int:
    return min(sum(want.slots for want in wants), MOST_CLAIMS)


def _interleaved(wants: Sequence[Want]) -> list[Want]:
    """A want per free slot, taking turns, so that work is shared when there is less than capacity."""
    turns = zip_longest(*(repeat(want, want.slots) for want in wants))
    return list(islice((want for turn in turns for want in turn if want is not None), MOST_CLAIMS))


def _handed(row: Row, token: int, want: Want, leased: Mapping[str, Row]) -> tuple[str, int, str, str, int]:
    return row[0], token, want.session, leased[want.session][1], want.poll


def _claim(row: Row, token: int, want: Want) -> Claim:
    run_id, job_id, attempt, fire_time, eligible_at, serial, _, _, spec, task, tenant, key, *_ = row
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
    )
