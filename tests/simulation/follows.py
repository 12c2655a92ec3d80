"""Jobs that follow others in worlds of their own, the theme `follows`: the requests of users, and the checks of the
fires.

Which runs ended, when and how, is known here from the auditor, which saw each end take effect. The fires of the
following job are known from its ledger.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING

from msgspec import structs

from tests.simulation.records import FOREVER, Micros, Violation
from tests.simulation.weather import MS
from timeball.domain.job.job import JobSpec
from timeball.domain.run.ledger import Origin
from timeball.domain.run.run import Run
from timeball.domain.run.status import Status
from timeball.domain.schedule.schedule import Follow

if TYPE_CHECKING:
    from tests.simulation.checker import Case, Checker
    from tests.simulation.world import World

THEME = "follows"
LAG: Micros = 35 * MS
ENDS = {
    "succeeded": {Status.SUCCEEDED},
    "failed": {Status.FAILED, Status.DEAD},
    "finished": {Status.SUCCEEDED, Status.FAILED, Status.DEAD},
}
WAITING = "SELECT e.follower FROM echoes e JOIN jobs j ON j.id = e.follower WHERE j.state = 'active' AND j.owed IS NULL"
WAITING_OF = "SELECT COUNT(*) FROM echoes WHERE follower = ?"


# --- what users do ------------------------------------------------------------------------------------------------


def chosen(spec: JobSpec, world: World, uid: int, tenant: str) -> JobSpec:
    """Return a job that may follow an existing one of its tenant: chains occur, and several jobs may follow one."""
    rng = Random(f"{world.seed} {uid} follows")
    known = [each.job_id for each in world.clients.jobs if each.job_id is not None and each.tenant == tenant]
    if not known or rng.random() < 0.3:
        return spec
    return structs.replace(
        spec,
        schedule=Follow(rng.choice(known), rng.choice(("succeeded", "succeeded", "failed", "finished"))),
        start_at=None,
        end_at=None,
        start_deadline=None,
        max_runs=rng.choice((None,) * 6 + (3,)),
        catch_up_window=rng.choice(("10s", "1m", "5m")),
    )


def unplanned(world: World) -> list[str]:
    """Return the jobs that must still fire because of runs that have ended."""
    return [follower for (follower,) in world.rows(WAITING)]


# --- what must hold -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Span:
    """The time for which a job followed another, as its users know it: certainly between the inner bounds, never
    outside of the outer ones.
    """

    perhaps_from: Micros
    surely_from: Micros
    surely_until: Micros
    perhaps_until: Micros


def follows(case: Case) -> Follow | None:
    wanted = case.record.spec.schedule
    return wanted if isinstance(wanted, Follow) else None


def _each_end_once(checker: Checker) -> None:
    """I2, I5: each end of a run that matches is one fire of the job that follows, and there are no others."""
    by_job = {case.job.id: case for case in checker.cases}
    for case, wanted in _followers(checker):
        followed = by_job.get(wanted.job)
        assert followed is not None
        span = _followed_during(case)
        ends = {
            run.id: checker.auditor.ended[run.id][0]
            for run in followed.runs.values()
            if run.status in ENDS[wanted.on] and run.origin is not Origin.TASK and run.id in checker.auditor.ended
        }
        possible = {run_id for run_id, at in ends.items() if span.perhaps_from - LAG <= at <= span.perhaps_until}
        certain = {run_id for run_id, at in ends.items() if span.surely_from < at < span.surely_until}
        rows = [row for row in case.rows if row.fire_time <= span.perhaps_until + LAG]
        rescheduled = any(change.kind == "reschedule" and change.possible for change in case.record.changes)
        named = Counter(row.retry_of for row in case.rows if row.fires == 1 and row.retry_of is not None)
        _check_named(case, named, possible)
        if rescheduled:
            continue  # it is not recorded which fires belonged to the other schedule
        count = sum(row.fires for row in rows)
        if count > len(possible):
            raise Violation("I5", f"{case}: {count} instants for {len(possible)} ends")
        anonymous = count - named.total()
        ((waiting,),) = checker.world.rows(WAITING_OF, case.job.id)
        missing = certain - named.keys()
        if len(missing) > anonymous + waiting and not case.job.exhausted:
            raise Violation("I2", f"{case}: nothing came of {sorted(missing)[:3]}; {anonymous} instants tell no cause")


def _check_named(case: Case, named: Counter[str], possible: set[str]) -> None:
    for cause, times in named.items():
        if times > 1:
            raise Violation("I5", f"{case}: the end of {cause} fired {times} times")
        if cause not in possible:
            raise Violation("I2", f"{case}: it fired after {cause}, which did not end so, or at another time")


def _instants_apart(checker: Checker) -> None:
    """I5: no two ledger rows of a job are about the same fire."""
    for case, _ in _followers(checker):
        rows = sorted(case.rows, key=lambda row: row.fire_time)
        for row, following in pairwise(rows):
            if following.fire_time <= row.fire_until:
                raise Violation("I5", f"{case}: {row} and {following} overlap")


def _sums(checker: Checker) -> None:
    """I23, I26: the sums are those of the rows, and nothing is open in the end."""
    world = checker.world
    for case, _ in _followers(checker):
        sums = world.read("ledger_sums", case.job.id, 0, world.now + 1)
        rows = sum(row.fires for row in case.rows)
        if sums.due != rows or sum(sums.counts.values()) != rows:
            raise Violation("I23", f"{case}: the sums say {sums}, the rows {rows}")
        waits = any(not run.is_terminal and world.is_blocked(run) for run in case.runs.values())
        if world.bounded and not waits and any(not run.is_terminal for run in _due(case)):
            raise Violation("I26", f"{case}: {sums.counts} after all faults stopped")


def _due(case: Case) -> list[Run]:
    return [run for run in case.runs.values() if run.is_due_instant]


def _followers(checker: Checker) -> Iterator[tuple[Case, Follow]]:
    if checker.world.theme == THEME:
        for case in checker.cases:
            if (wanted := follows(case)) is not None:
                yield case, wanted


def _followed_during(case: Case) -> _Span:
    asked = [request for request in case.record.submissions if request.possible]
    endings = [each for each in case.record.changes if each.kind in ("reschedule", "cancel") and each.possible]
    return _Span(
        perhaps_from=case.job.created_at,
        surely_from=min((request.hi for request in asked if request.happened), default=FOREVER),
        surely_until=min((each.lo for each in endings), default=FOREVER),
        perhaps_until=min((each.hi for each in endings if each.happened), default=FOREVER),
    )


PROMISES: tuple[Callable[[Checker], None], ...] = (_each_end_once, _instants_apart, _sums)
