"""The promises about what runs share, checked at the end from the records of job processes and by counting again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.simulation.inspector import millis
from tests.simulation.records import FOREVER, Micros, Violation, Witness
from tests.simulation.weather import S
from timeball.domain.dispatch.limits import RateLimit
from timeball.domain.dispatch.overlap import REPLACING, Overlap
from timeball.domain.run.ledger import DUE, Origin
from timeball.domain.run.run import Run
from timeball.domain.run.status import Status

if TYPE_CHECKING:
    from tests.simulation.checker import Case, Checker

TOLERANCE: Micros = 2 * S
LATE = "start deadline"
LEFT_BEHIND = {
    "a permit or share without an attempt": """
        SELECT id FROM runs WHERE state <> 'running' AND (permit IS NOT NULL OR needs IS NOT NULL)""",
    "held back by nothing, or ready although something holds it": """
        SELECT id FROM runs WHERE (state = 'blocked') <> (holds <> 0)""",
    "waiting at no gate": """
        SELECT id FROM runs WHERE gate IS NULL AND (holds & 4) <> 0""",
    "an ordering key without a holder": """
        SELECT r.ordering_key FROM runs r LEFT JOIN turns t ON t.tenant = r.tenant AND t.ordering_key = r.ordering_key
        WHERE r.ordering_key IS NOT NULL AND t.holder IS NULL""",
    "two runs hold an ordering key, or one that is not its holder": """
        SELECT r.id FROM runs r JOIN turns t ON t.tenant = r.tenant AND t.ordering_key = r.ordering_key
        WHERE ((r.holds & 2) = 0) <> (r.id = t.holder)""",
    "a host whose probe is over": """
        SELECT g.gate FROM gates g WHERE g.probe IS NOT NULL
          AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = g.probe AND r.state = 'running')""",
}
ENDED_HOLDERS = "SELECT tenant, ordering_key, holder FROM turns WHERE holder IN (SELECT id FROM history)"


def _one_under_a_key(checker: Checker) -> None:
    """I16: no two executions under an ordering key overlap."""
    by_key: dict[tuple[str, str], list[Witness]] = defaultdict(list)
    for witness in checker.world.witnesses:
        if witness.spec.ordering_key is not None:
            by_key[checker.world.tenants.of(witness.uid), witness.spec.ordering_key].append(witness)
    for key, executions in by_key.items():
        executions.sort(key=lambda witness: witness.start)
        for first, second in pairwise(executions):
            if first.end is None or first.end > second.start:
                raise Violation("I16", f"two at once under {key}: {first} and {second}")


def _within_limits(checker: Checker) -> None:
    """I16: no more attempts execute under a concurrency key than the limit of the last claim of them allows. Jobs may
    give different limits for a key, and runs that are claimed ahead may start in another order.
    """
    by_key: dict[tuple[str, str], list[Witness]] = defaultdict(list)
    for witness in checker.world.witnesses:
        if witness.spec.concurrency is not None:
            by_key[checker.world.tenants.of(witness.uid), witness.spec.concurrency.key].append(witness)
    for executions in by_key.values():
        for witness in executions:
            beside = _executing(executions, witness.start)
            limit = max(beside, key=lambda each: each.token).spec.concurrency
            assert limit is not None
            if len(beside) > limit.limit:
                raise Violation("I16", f"{len(beside)} at once under {limit}: {beside}")


def _at_most_at_this_rate(checker: Checker) -> None:
    """I16: in every window, the starts that were claimed fit the token bucket."""
    auditor = checker.auditor
    starts: dict[tuple[str, str], list[Micros]] = defaultdict(list)
    rates: dict[tuple[str, str], RateLimit] = {}
    for token, grant in auditor.grants.items():
        spec = auditor.inspector.specs[token]
        rate = spec.rate_limit
        if rate is not None:
            key = (checker.world.tenants.of(spec.parameters["uid"]), rate.key)
            rates[key] = rate
            starts[key].append(max(grant.at, grant.eligible_at))
    for key, rate in rates.items():
        burst = rate.limit if rate.burst is None else rate.burst
        pace = millis(rate.per) / rate.limit
        instants = sorted(starts[key])
        for at, last in enumerate(instants):
            for before, first in enumerate(instants[:at]):
                if (at - before + 1 - burst) * pace > last - first:
                    raise Violation("I16", f"{at - before + 1} starts in {last - first} µs under {rate}")


def _within_the_worker(checker: Checker) -> None:
    """I18: the attempts on a worker use no more than it offers."""
    world = checker.world
    by_worker: dict[str, list[Witness]] = defaultdict(list)
    for witness in world.witnesses:
        by_worker[witness.worker].append(witness)
    for name, executions in by_worker.items():
        offer = world.homes[name].offer  # type: ignore[union-attr]
        for witness in executions:
            if not set(witness.spec.runs_on) <= set(offer.labels) or (offer.dedicated and not witness.spec.runs_on):
                raise Violation("I18", f"{witness} is not for {offer}")
            beside = _executing(executions, witness.start)
            asked = [each.spec.resources for each in beside if not each.stands_still(witness.start)]
            slots = sum(1 if each is None else each.slots for each in asked)
            cpu = sum(each.cpu for each in asked if each is not None)
            memory = sum(each.memory_mb for each in asked if each is not None)
            if slots > offer.slots or cpu > (offer.cpu or 1e9) + 1e-9 or memory > (offer.memory_mb or 1e9):
                raise Violation("I18", f"{witness} finds {slots} slots, {cpu} CPU, {memory} MiB taken of {offer}")


def _executing(witnesses: Iterable[Witness], at: Micros) -> list[Witness]:
    return [each for each in witnesses if each.start <= at and (each.end is None or each.end > at)]


def _start_by(checker: Checker) -> None:
    """Jitter is applied, and a run that was skipped for its start deadline was too late and never started."""
    for case in checker.cases:
        spec = case.record.spec
        limit = 0 if spec.jitter is None else millis(spec.jitter)
        for run in case.runs.values():
            due = run.fire_time if run.due_at is None else run.due_at
            # The retry of a backfilled run has the fire time of that run, and is due when it was requested.
            at = run.created_at if run.origin is Origin.RETRY and run.due_at is not None else run.fire_time
            if run.fires == 1 and not at <= due <= at + (limit if run.origin in DUE else 0):
                raise Violation("I3", f"{case}: run {run.id} is due at {due}, its jitter is {spec.jitter}")
            starts = case.by_run.get(run.id, [])
            if any(witness.start < due for witness in starts):
                raise Violation("I3", f"{case}: {starts} of run {run.id}, which was due at {due}")
            if run.status is Status.SKIPPED and LATE in run.reason:
                _check_expired(checker, case, run, due, [w for w in starts if w.token not in checker.auditor.returned])


def _check_expired(checker: Checker, case: Case, run: Run, due: Micros, starts: list[Witness]) -> None:
    if case.record.spec.start_deadline is None or starts:
        raise Violation("I4", f"{case}: {run} was skipped for its start deadline; starts: {starts}")
    limit = due + millis(case.record.spec.start_deadline)
    assert run.finished_at is not None
    if run.finished_at <= limit:
        raise Violation("I4", f"{case}: {run} was skipped before its start deadline")
    if run.finished_at > limit + TOLERANCE and checker.undisturbed(limit - 20 * S, limit + TOLERANCE):
        raise Violation("I4", f"{case}: {run} was to be skipped at {limit}")


def _previous_ends(checker: Checker) -> None:
    """I16: a run that a later fire replaces is cancelled, and can then only end as `cancelled`."""
    for case in checker.cases:
        policy = case.record.spec.overlap
        if policy not in REPLACING:
            continue
        changed = min((each.lo for each in case.record.changes if each.kind != "update"), default=FOREVER)
        for run in case.runs.values():
            planned = run.origin is Origin.SCHEDULE and run.fires == 1 and run.fire_time + TOLERANCE < changed
            if planned and run.id in case.by_run:
                for other in case.runs.values():
                    if other.fire_time < run.fire_time:
                        _check_replaced(checker, case, other, run, policy)


def _check_replaced(checker: Checker, case: Case, previous: Run, run: Run, policy: Overlap) -> None:
    decided = run.created_at
    if run.fire_time >= run.created_at:
        decided = run.fire_time + TOLERANCE
        if not checker.undisturbed(run.fire_time - S, decided):
            return
    ended = checker.auditor.ended.get(previous.id)
    if ended is None or ended[0] <= decided or previous.created_at >= run.created_at:
        return
    if previous.status is Status.SKIPPED:
        return  # it had not started; the time at which that was noticed means nothing
    if previous.status is not Status.CANCELLED:
        raise Violation("I16", f"{case}: {previous} was not asked to end for {run}, under {policy}")
    grace = 0 if policy is Overlap.TERMINATE_PREVIOUS else millis(case.record.spec.grace)
    limit = decided + grace + TOLERANCE
    for witness in case.by_run.get(previous.id, []):
        over = witness.end or checker.world.now
        if witness.start <= decided < over and over > limit and checker.undisturbed(run.fire_time - S, limit):
            raise Violation("I16", f"{case}: {witness} continued beside {run}, under {policy}")


def _nothing_left_behind(checker: Checker) -> None:
    """I18, I26: each permit, ordering key and probe belongs to a run that will release it."""
    world = checker.world
    for what, sql in LEFT_BEHIND.items():
        if found := world.rows(sql):
            raise Violation("I18", f"{what}: {found[:3]}")
    blocked = world.blocked_keys()
    for tenant, key, holder in world.rows(ENDED_HOLDERS):
        if blocked.get((tenant, key)) != holder:
            raise Violation("I18", f"run {holder} has ended and keeps the turn of {key}")


PROMISES: tuple[Callable[[Checker], None], ...] = (
    _one_under_a_key,
    _within_limits,
    _at_most_at_this_rate,
    _within_the_worker,
    _start_by,
    _previous_ends,
    _nothing_left_behind,
)
