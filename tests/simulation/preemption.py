"""Preemption in worlds of their own, the theme `preemption`.

Other worlds have no preemptible jobs, and their servers do not run the preemptor, so the traces of their seeds stay the
same.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

from msgspec import structs

from tests.simulation.records import Violation
from tests.simulation.rules import Offer
from tests.simulation.weather import S
from timeball.domain.job.job import JobSpec

if TYPE_CHECKING:
    from tests.simulation.auditor import Auditor
    from tests.simulation.checker import Checker
    from tests.simulation.world import World

THEME = "preemption"
CLASS = 3
MAX_PREEMPTIONS = 3
MAX_PAUSE = 300 * S
PREEMPTION_DELAY = S // 2
ASKED = """
SELECT p.run_id, p.number, p.token, r.priority, r.cancel_requested_at, p.by_run, w.priority, w.state, w.eligible_at,
  r.tenant = w.tenant
FROM preemptions p LEFT JOIN runs r ON r.id = p.run_id LEFT JOIN runs w ON w.id = p.by_run
"""


def shaped(spec: JobSpec, rng: Random) -> JobSpec:
    """Return long jobs that allow preemption and short jobs of higher priorities, for workers with few slots."""
    spec = structs.replace(spec, resources=None, runs_on=[])
    if rng.random() < 0.6:
        behave = {**spec.parameters["behave"], "length": rng.choice((3 * S, 6 * S, 12 * S)), "poison": 0}
        parameters = {**spec.parameters, "behave": behave}
        return structs.replace(spec, priority=rng.choice((0, "low", "medium")), preemptible=True, parameters=parameters)
    return structs.replace(spec, priority=rng.choice(("medium", "high", 9)))


def few_slots(offers: list[Offer]) -> list[Offer]:
    return [Offer(slots=min(2, offer.slots), tenants=offer.tenants) for offer in offers[:2]]


class Books:
    """All preemption orders that were stored."""

    def __init__(self, world: World, auditor: Auditor) -> None:
        self._world = world
        self._auditor = auditor
        self._known: set[tuple[str, int]] = set()

    def look(self) -> None:
        """Check the orders after each decision. I8, I17: an attempt is preempted only if it allows that and is held,
        for a run of its tenant and of a higher class that has waited and still waits.
        """
        for run_id, number, token, level, cancelled, by_run, higher, state, eligible_at, own in self._world.rows(ASKED):
            if (run_id, number) in self._known:
                continue
            self._known.add((run_id, number))
            held = self._auditor.held.get(run_id)
            if held is None or held.token != token or cancelled is not None:
                raise Violation("I8", f"run {run_id} is to make room under token {token}, but {held} holds it")
            if not self._auditor.inspector.specs[token].preemptible or number > MAX_PREEMPTIONS:
                raise Violation("I17", f"run {run_id} is to make room for the {number}th time, and does not allow it")
            if not own:
                raise Violation("I17", f"run {run_id} is to make room for {by_run}, a run of another tenant")
            waited = None if eligible_at is None else self._world.now - eligible_at
            if state != "ready" or higher - level < CLASS or waited is None or waited < PREEMPTION_DELAY:
                raise Violation(
                    "I17", f"run {run_id} ({level}) is to make room for {by_run}: {state} {higher} {waited}"
                )
        twice = Counter(by for (by,) in self._world.rows("SELECT by_run FROM preemptions WHERE ended_at IS NULL"))
        if any(count > 1 for count in twice.values()):
            raise Violation("I18", f"several make room for one run: {twice.most_common(1)}")


def bounded(checker: Checker) -> None:
    """I17: only runs that allow it are suspended, not more often and not for longer than the limits."""
    often: Counter[str] = Counter()
    for witness in checker.world.witnesses:
        often[witness.run_id] += len(witness.pauses)
        if witness.pauses and not witness.spec.preemptible:
            raise Violation("I17", f"{witness} stood still, and did not allow it")
        for since, until in witness.pauses:
            if (checker.world.now if until is None else until) - since > MAX_PAUSE + S:
                raise Violation("I17", f"{witness} stood still for longer than {MAX_PAUSE // S} s")
    if often and (limit := often.most_common(1)[0])[1] > MAX_PREEMPTIONS:
        raise Violation("I17", f"run {limit[0]} stood still {limit[1]} times")


PROMISES = (bounded,)
