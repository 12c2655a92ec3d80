"""Calendars in worlds of their own, the theme `calendars`: an operator changes calendars, and most jobs refer to them.

The closed times are known here from the requests of the operator, as ranges of time, computed independently of the code
under test. While a request is not answered, either calendar may be in force. A fire that is planned late is decided by
the calendar at that time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from tests.simulation.records import JobRecord, Micros, Request, Violation
from tests.simulation.weather import MS, S
from timeball.domain import instant
from timeball.domain.errors import TimeballError, Unavailable
from timeball.domain.job.job import JobSpec
from timeball.domain.run.ledger import Verdict
from timeball.domain.run.run import Run
from timeball.domain.schedule.calendar import Calendar, NamedCalendar
from timeball.domain.tenant import DEFAULT_TENANT
from timeball.operation.schedules.put_calendar import put_calendar

if TYPE_CHECKING:
    from tests.simulation.checker import Case, Checker
    from tests.simulation.world import World

THEME = "calendars"
NAME = "freeze"
EXCLUDED = "excluded by calendar"
"""The beginning of the reason of a fire that a calendar excluded."""
LAG: Micros = 35 * MS


@dataclass(frozen=True)
class Edition:
    """A version of a calendar that the operator stored, and when."""

    spans: tuple[tuple[Micros, Micros], ...]
    request: Request

    def closes(self, at: Micros) -> bool:
        return any(begin <= at < end for begin, end in self.spans)

    def opens(self, at: Micros) -> bool:
        """Return True if a closed time ends at this instant."""
        return any(end == at for _, end in self.spans)


# --- what users do ------------------------------------------------------------------------------------------------


def bound(spec: JobSpec, seed: int, uid: int) -> JobSpec:
    rng = Random(f"{seed} {uid} calendars")
    if rng.random() > 0.8:
        return spec
    return structs.replace(spec, calendars=[NAME], excluded=rng.choice(("skip", "next_open", "next_open")))


class Editions:
    """The versions of one calendar. It begins without closed times."""

    def __init__(self, now: Micros) -> None:
        self.all = [Edition((), Request("calendar", -1, now, answered=now, outcome="ok", delivered=True))]

    def in_force(self, since: Micros, until: Micros) -> list[Edition]:
        """Return the versions that may have been in force at some time in a range."""
        possible = [each for each in self.all if each.request.possible and each.request.lo <= until]
        return [
            each
            for each in possible
            if not any(
                other.request.happened and other.request.lo > each.request.hi and other.request.hi < since
                for other in possible
            )
        ]

    def may_open(self, at: Micros) -> bool:
        """Return True if a closed time may end at this instant: by itself, or because the calendar was changed."""
        editions = [each for each in self.all if each.request.possible]
        return any(each.opens(at) or each.request.lo - LAG <= at <= each.request.hi for each in editions)


class Operator:
    """Changes calendars, and records each version."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = Random(f"{world.seed} operator")
        self.calendars = {tenant: Editions(world.now) for tenant in world.tenants.names}
        """By tenant: its calendar. All have the same name, and only that of the default tenant is changed."""

    def first_of(self, tenant: str) -> NamedCalendar:
        """Return the calendar of a tenant with which the world begins."""
        return NamedCalendar(tenant=tenant, name=NAME, calendar=_calendar(()), version=1, updated_at=0)

    async def work(self, until: Micros) -> None:
        while self._world.now < until:
            await self._world.sleep(self._rng.randrange(S // 2, 6 * S))
            await self._put(self._spans())
        await self._put(())

    def _spans(self) -> tuple[tuple[Micros, Micros], ...]:
        rng, now = self._rng, self._world.now
        if rng.random() < 0.2:
            return ()
        found = []
        for _ in range(rng.choice((1, 1, 2, 3))):
            begin = now + rng.randrange(-5 * S, 12 * S)
            found.append((begin, begin + rng.choice((200 * MS, S, 3 * S, 8 * S, 20 * S)) + rng.randrange(S)))
        return tuple(found)

    async def _put(self, spans: tuple[tuple[Micros, Micros], ...]) -> None:
        world = self._world
        request = Request("calendar", -1, world.now)
        editions = self.calendars[DEFAULT_TENANT].all
        editions.append(Edition(spans, request))
        house = self._rng.choice(world.servers)
        calendar = _calendar(spans)
        try:
            request.answer = await world.network.call(
                "operator",
                house,
                lambda server: put_calendar(server.context, DEFAULT_TENANT, NAME, calendar),
                12 * S,
                request,
            )
            request.outcome = "ok"
        except Unavailable:
            request.outcome = "unknown"
        except TimeballError as error:
            request.outcome, request.answer = "refused", error
        request.answered = world.now
        world.trace("calendar", len(editions), request.outcome, request.invoked)


def _calendar(spans: tuple[tuple[Micros, Micros], ...]) -> Calendar:
    entries = [{"from": instant.render(begin), "to": instant.render(end)} for begin, end in spans]
    return msgspec.convert({"entries": entries}, Calendar)


# --- what must hold -----------------------------------------------------------------------------------------------


def is_excluded(row: Run) -> bool:
    return row.reason.startswith(EXCLUDED)


def openings(case: Case, checker: Checker, raw: set[Micros]) -> set[Micros]:
    """Return instants that are not in the schedule of a job, but at which it may have a deferred fire."""
    if case.record.spec.excluded != "next_open" or not case.record.spec.calendars:
        return set()
    editions = _editions(checker, case)
    found = {at for row in case.rows for at in (row.fire_time, row.fire_until)} - raw
    return {at for at in found if editions.may_open(at)}


def most_openings(case: Case, checker: Checker, row: Run) -> int:
    """Return how many more fires a ledger row may count: deferred fires that were missed or excluded again."""
    if not case.record.spec.calendars or case.record.spec.excluded != "next_open":
        return 0
    editions = _editions(checker, case).all
    ends = {end for each in editions for _, end in each.spans}
    return sum(row.fire_time <= end <= row.fire_until for end in ends) + len(editions)


def _none_inside(checker: Checker) -> None:
    """I11: no run starts for a fire at a time that was closed when the fire fell due, even if it was planned before."""
    for case in _bound(checker):
        for witness in case.witnesses:
            run = case.runs.get(witness.run_id)
            if run is None or not run.is_due_instant:
                continue
            editions = _editions(checker, case).in_force(run.fire_time, max(run.fire_time, _planned(run) + S))
            if all(each.closes(run.fire_time) for each in editions):
                raise Violation("I11", f"{case}: {witness} ran for {run.fire_time}, which is closed: {editions}")


def _told_why(checker: Checker) -> None:
    """I2: a fire with the verdict excluded was at a closed time."""
    for case in _bound(checker):
        for row in case.rows:
            if is_excluded(row):
                editions = _editions(checker, case).in_force(row.fire_time - LAG, _planned(row) + 20 * S)
                if not any(each.closes(row.fire_time) for each in editions):
                    raise Violation("I2", f"{case}: {row.fire_time} was excluded, but nothing was closed: {row}")


def _owed_once(checker: Checker) -> None:
    """I2, I5: with `next_open`, excluded fires are followed by exactly one fire, when the calendar opens."""
    for case in _bound(checker):
        if case.record.spec.excluded != "next_open" or _was_changed(case.record):
            continue
        raw = checker.raw_instants(case)
        for row, following in pairwise(case.rows):
            if is_excluded(row) and not is_excluded(following) and following.fires == 1:
                if following.verdict is not Verdict.MISSED and not _editions(checker, case).may_open(
                    following.fire_time
                ):
                    raise Violation("I2", f"{case}: {row} was excluded, and no fire followed it before {following}")
            elif following.fires == 1 and following.fire_time not in raw and not is_excluded(row):
                raise Violation("I5", f"{case}: {following} was owed for nothing; before it came {row}")


def _editions(checker: Checker, case: Case) -> Editions:
    return checker.world.operator.calendars[case.record.tenant]


def _was_changed(record: JobRecord) -> bool:
    """Return True if something other than a calendar may have changed the fires of a job."""
    return any(change.possible for change in record.changes) or any(each.possible for each in record.others)


def _bound(checker: Checker) -> Iterator[Case]:
    return (case for case in checker.cases if case.record.spec.bound)


def _planned(row: Run) -> Micros:
    return int(row.id[2:14], 16) * MS


PROMISES: tuple[Callable[[Checker], None], ...] = (_none_inside, _told_why, _owed_once)
