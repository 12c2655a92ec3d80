"""Watches every effect on the store and keeps its own record of which session holds which run, with its token and
lease.

It raises a violation at the first answer that contradicts this record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.simulation import backfills, preemption, pruning
from tests.simulation.drains import DrainOrders
from tests.simulation.inspector import Inspector
from tests.simulation.records import Micros, Violation
from tests.simulation.storage import at_once
from tests.simulation.tenants import JobQuotas
from timeball.domain.job.job import decode_spec
from timeball.domain.run.status import Status
from timeball.ports.store.maintenance import Lead
from timeball.ports.store.runs import Claim, SlotRequest

if TYPE_CHECKING:
    from tests.simulation.world import World


@dataclass(slots=True)
class Held:
    """A claim that has not ended."""

    run_id: str
    token: int
    attempt: int
    session: str


@dataclass(slots=True)
class Grant:
    """A claim at the moment when it was made."""

    at: Micros
    session: str
    run_id: str
    attempt: int
    eligible_at: Micros


class Auditor:
    def __init__(self, world: World) -> None:
        self._world = world
        self.inspector = Inspector(world)
        self.books = preemption.Books(world, self)
        self.drains = DrainOrders()
        self.job_quotas = JobQuotas(world)
        self.held: dict[str, Held] = {}
        """Claims that have not ended, by run."""
        self.grants: dict[int, Grant] = {}
        """All claims that were ever made, by token."""
        self.ended: dict[str, tuple[Micros, Status]] = {}
        """Runs that a report of a worker or a cancel ended, with the time and the terminal status."""
        self.accepted: dict[str, int] = {}
        """By run: the token whose report ended it."""
        self.returned: set[int] = set()
        """Tokens of claims that were released and cost no attempt."""
        self.released: dict[int, Micros] = {}
        """By token: when the claim ended, in any way."""
        self._leases: dict[str, Micros] = {}
        self._newest_token = 0
        self._leader: Lead | None = None
        self._observers: dict[str, Callable[[tuple[Any, ...], Any], None]] = {
            "claim": self._claim,
            "submit_and_claim": self._submit_and_claim,
            "settle": self._settle,
            "append_logs": self._append_logs,
            "note": self._note,
            "register": self._register,
            "renew": self._renew,
            "lapsed": self._lapsed,
            "request_cancel": self._request_cancel,
            "amend": self._amend,
            "commit_plans": self._commit_plans,
            "lead": self._lead,
            "advance_backfills": self._advance_backfills,
            "preempt": lambda _, __: self.books.look(),
            "drain": self.drains.ordered,
        }

    def watch(self, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Execute a call of the store, and check its result."""
        if name in ("give_back", "end_session"):
            return self._watch_return(name, args)
        if name == "prune_day" and self._world.theme == pruning.THEME:
            return self._watch_pruning(args)
        result = at_once(getattr(self._world.store, name)(*args, **named))
        observe = self._observers.get(name)
        if observe is not None:
            self._judge(observe, args, result)
        return result

    def _judge(self, observe: Callable[[tuple[Any, ...], Any], None], args: tuple[Any, ...], result: Any) -> None:
        try:
            observe(args, result)
        except Violation as violation:
            self._world.fail(violation)

    # --- what is observed --------------------------------------------------------------------------------------

    def _claim(self, args: tuple[Any, ...], result: Any) -> None:
        self._claimed(args[0], result.claims)
        if result.now > self._world.now:
            raise Violation("I3", f"the store said {result.now} at {self._world.now}")

    def _submit_and_claim(self, args: tuple[Any, ...], result: Any) -> None:
        answers, claims = result
        self.job_quotas.submitted(args[0], answers)
        self._claimed(args[1], claims)

    def _claimed(self, wants: Sequence[SlotRequest], claims: list[Claim]) -> None:
        world = self._world
        slots = {want.session: want.slots for want in wants}
        for claim in claims:
            world.trace("claim", claim.run_id, claim.attempt, claim.token, claim.session)
            if claim.token <= self._newest_token:
                raise Violation("I8", f"token {claim.token} is not newer than {self._newest_token}")
            self._newest_token = claim.token
            if claim.run_id in self.ended:
                raise Violation("I13", f"run {claim.run_id} ended {self.ended[claim.run_id]} and was claimed again")
            if claim.run_id in self.held:
                raise Violation("I7", f"run {claim.run_id} was claimed while {self.held[claim.run_id]} holds it")
            self.drains.claimed(claim.session, claim.run_id)
            if self._leases.get(claim.session, 0) < world.now:
                raise Violation("I7", f"session {claim.session} got a run after its lease lapsed")
            resources = decode_spec(claim.spec).resources
            slots[claim.session] -= 1 if resources is None else resources.slots
            if slots[claim.session] < 0:
                raise Violation("I18", f"session {claim.session} got more runs than it has slots")
            self.held[claim.run_id] = Held(claim.run_id, claim.token, claim.attempt, claim.session)
            self.grants[claim.token] = Grant(world.now, claim.session, claim.run_id, claim.attempt, claim.eligible_at)
        self.inspector.claimed(claims, set(slots), world.now)

    def _settle(self, args: tuple[Any, ...], result: Any) -> None:
        world = self._world
        for item, settled in zip(args[0], result, strict=True):
            held = self.held.get(item.run_id)
            ours = held is not None and held == Held(item.run_id, item.token, item.attempt, item.session)
            world.trace("settle", item.run_id, item.attempt, item.token, type(item.outcome).__name__, settled)
            if settled is None:
                if ours:
                    raise Violation("I6", f"the report of the rightful holder {held} was refused")
                continue
            if item.run_id in self.ended:
                raise Violation("I6", f"run {item.run_id} ended {self.ended[item.run_id]}, and again: {settled}")
            if held is not None and held.token == item.token and held.session != item.session:
                raise Violation("I31", f"session {item.session} ended run {item.run_id}, but {held} holds it")
            if not ours:
                raise Violation("I8", f"token {item.token} of run {item.run_id} ended it, but {held} holds it")
            del self.held[item.run_id]
            self.released[item.token] = world.now
            self.inspector.settled(item, settled, world.now)
            if settled.status is not None:
                self.ended[item.run_id] = (world.now, settled.status)
                self.accepted[item.run_id] = item.token
            elif type(item.outcome).__name__ == "Released":
                self.returned.add(item.token)

    def _append_logs(self, args: tuple[Any, ...], stale: Any) -> None:
        refused = set(stale)
        for chunk in args[1]:
            self._must_hold(args[0], chunk.run_id, chunk.token, chunk.token in refused, "output")

    def _note(self, args: tuple[Any, ...], stale: Any) -> None:
        refused = set(stale)
        for started, _ in args[1]:
            self._must_hold(args[0], started.run_id, started.token, started.token in refused, "start")
        for progress in args[2]:
            self._must_hold(args[0], progress.run_id, progress.token, progress.token in refused, "progress")

    def _must_hold(self, session: str, run_id: str, token: int, refused: bool, what: str) -> None:
        held = self.held.get(run_id)
        if held is not None and held.token == token and held.session != session and not refused:
            raise Violation("I31", f"{what} of session {session} was taken; holder: {held}")
        ours = held is not None and held.token == token and held.session == session
        if ours == refused:
            raise Violation("I8", f"{what} of token {token} was {'refused' if refused else 'taken'}; holder: {held}")

    def leases_moved(self, step: Micros) -> None:
        """Move all leases after a step of the store's clock: their remaining time stays the same."""
        now = self._world.now - step
        for session, until in self._leases.items():
            if until > now:
                self._leases[session] = until + step

    def _register(self, args: tuple[Any, ...], result: Any) -> None:
        worker, lease = args
        self._leases[worker.session] = self._world.now + lease
        self.inspector.registered(worker)
        self.drains.registered(worker.session, result)
        self._world.trace("session", worker.session, worker.name)

    def _renew(self, args: tuple[Any, ...], names: Any) -> None:
        sessions, lease = args
        for (session, _), name in zip(sessions, names, strict=True):
            if name is not None:
                if self._leases.get(session, 0) <= self._world.now:
                    raise Violation("I7", f"the lease of {session} lapsed and was renewed")
                self._leases[session] = self._world.now + lease
            self._world.trace("renew", session, name is not None)

    def _lapsed(self, args: tuple[Any, ...], settlements: Any) -> None:
        for item in settlements:
            held = self.held.get(item.run_id)
            if held is not None and self._leases.get(held.session, 0) > self._world.now:
                raise Violation("I7", f"{held} was called lost before its lease lapsed")

    def _request_cancel(self, args: tuple[Any, ...], result: Any) -> None:
        for run_id, cancelling in zip(args[0], result, strict=True):
            self._world.trace("request_cancel", run_id, cancelling)
            if cancelling is None or cancelling.status is Status.RUNNING:
                continue
            known = self.ended.get(run_id)
            if known is not None and known[1] is not cancelling.status:
                raise Violation("I13", f"run {run_id} was {known[1]} and is {cancelling.status}")
            if known is None:
                self.ended[run_id] = (self._world.now, cancelling.status)
            if run_id in self.held:
                raise Violation("I10", f"run {run_id} ended by a cancel while {self.held[run_id]} holds it")

    def _amend(self, args: tuple[Any, ...], result: Any) -> None:
        for amendment, answer in zip(args[0], result, strict=True):
            what = (amendment.state.value, "as before" if amendment.keep_schedule else amendment.next_fire_at)
            self._world.trace("amend", amendment.job.id, amendment.job.version, *what, type(answer).__name__)

    def _commit_plans(self, args: tuple[Any, ...], result: Any) -> None:
        for plan in args[0]:
            if plan.job.id in result:
                self._world.trace("plan", plan.job.id, plan.job.next_fire_at, len(plan.steps), plan.next_fire_at)

    def _advance_backfills(self, args: tuple[Any, ...], made: int) -> None:
        if made:
            self._world.trace("backfill", *args[0], made)
        backfills.within_parallelism(self._world)

    def _lead(self, args: tuple[Any, ...], lead: Lead | None) -> None:
        if lead is None:
            return
        self._world.trace("lead", lead.holder, lead.epoch)
        before, self._leader = self._leader, lead
        if before is not None and (lead.epoch > before.epoch) != (lead.holder != before.holder):
            raise Violation("I9", f"{before} was followed by {lead}")

    def _watch_pruning(self, args: tuple[Any, ...]) -> bool:
        try:
            return self._world.gone.watch(args, self._leader, set(self.held))
        except Violation as violation:
            self._world.fail(violation)
            return False

    def _watch_return(self, name: str, args: tuple[Any, ...]) -> Any:
        session = args[0]
        before = [held for held in self.held.values() if held.session == session]
        result = at_once(getattr(self._world.store, name)(*args))
        if name == "end_session" and result:
            self._leases[session] = min(self._leases.get(session, 0), self._world.now)
        if before:
            kept = set(args[1]) if name == "give_back" else set()
            self._judge(lambda _, still: self._returned(before, still, kept), args, at_once(self._holding(session)))
        return result

    async def _holding(self, session: str) -> set[int]:
        return set(await self._world.store.holding(session))

    def _returned(self, before: list[Held], still: set[int], kept: set[int]) -> None:
        for held in before:
            if held.token in still:
                continue
            if held.token in kept:
                raise Violation("I7", f"{held} was given back although its worker has it")
            self._world.trace("returned", held.run_id, held.attempt, held.token)
            del self.held[held.run_id]
            self.released[held.token] = self._world.now
            self.inspector.returned(held.token)
            self.returned.add(held.token)
