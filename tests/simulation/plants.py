"""Bugs that are planted in the real code while it runs: a checker that catches nothing proves nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from msgspec import structs

from tests.simulation.storage import Connection
from tests.simulation.world import World
from timeball.domain import ids
from timeball.domain.dispatch import fair_share, limits, placement, preemption
from timeball.domain.dispatch.overlap import Admission
from timeball.domain.instant import Micros
from timeball.domain.job.job import Job, JobSpec
from timeball.domain.planning import backfill, planning, upcoming_fires
from timeball.domain.planning.backfill import Backfill
from timeball.domain.run import circuit_breaker, lifecycle
from timeball.domain.run.run import NewRun
from timeball.domain.run.status import Status
from timeball.domain.workflow import progress
from timeball.domain.workflow.progress import TaskState, WorkflowStep
from timeball.ports.store.jobs import Accepted
from timeball.ports.store.runs import Settled, Settlement
from timeball.ports.worker_protocol import PollResponse
from timeball.server.loops.deadline_expirer import DeadlineExpirer
from timeball.server.loops.lease_rescuer import EVERY, LeaseRescuer
from timeball.server.worker_gateway import assignments, gateway, session
from timeball.stores.sql.dialect import Query
from timeball.stores.sql.driver import Tx
from timeball.stores.sql.jobs import amend, backfills, manual_runs
from timeball.stores.sql.maintenance import maintenance, usage
from timeball.stores.sql.planning import ledger_spans, plans
from timeball.stores.sql.registry import calendars
from timeball.stores.sql.runs import (
    assign_on_submit,
    claimants,
    claiming,
    follows,
    gates,
    ordering_keys,
    overlap,
    runs,
    settle_plain_success,
    settling,
    workers,
)
from timeball.stores.sql.tenants import quotas, running_quota
from timeball.stores.sql.workflows import advance, rows
from timeball.stores.sqlite import clock
from timeball.stores.sqlite import tx as sqlite_tx
from timeball.stores.sqlite.clock import SteadyClock
from timeball.worker import session as worker_session
from timeball.worker.attempt import HeldAttempt
from timeball.worker.attempts import Attempts
from timeball.worker.worker import Worker

Patches = list[Any]


@dataclass(frozen=True)
class Plant:
    """One bug: its name, the promises that it may break first, and the function that plants it."""

    name: str
    breaks: frozenset[str]
    patches: Callable[[World], Patches]
    theme: str | None = None
    """The theme of the worlds in which it is searched for; None: all worlds."""
    first: int = 0
    """The first seed that caught the bug when this was written. Tests start there, to be quick."""

    @contextmanager
    def planted(self, world: World) -> Iterator[None]:
        patches = self.patches(world)
        for patch in patches:
            patch.start()
        try:
            yield
        finally:
            for patch in reversed(patches):
                patch.stop()


def _text(module: Any, name: str, old: str, new: str) -> Any:
    """Replace a part of a statement."""
    query: Query = getattr(module, name)
    assert old in query.text, f"{name} has changed: adapt the planted bug"
    return mock.patch.object(module, name, Query(f"{query.name}_planted", query.text.replace(old, new)))


def _no_fencing(world: World) -> Patches:
    """A report of an end is accepted with any token, attempt and session."""
    real = settling.settle
    current = Query("current_claims", "SELECT id, attempt, token, session FROM runs WHERE state = 'running'")

    async def settle(tx: Tx, settlements: Sequence[Settlement]) -> list[Settled | None]:
        held = {run_id: claim for run_id, *claim in await tx.fetch(current)}
        believed = [
            structs.replace(item, **dict(zip(("attempt", "token", "session"), held[item.run_id], strict=True)))
            if item.run_id in held
            else item
            for item in settlements
        ]
        return await real(tx, believed)

    return [mock.patch.object(settling, "settle", settle)]


def _no_session_guard(world: World) -> Patches:
    """Any session may end an attempt if it knows the run, the attempt and the token."""
    real = settling.settle
    current = Query("current_sessions", "SELECT id, session FROM runs WHERE state = 'running'")

    async def settle(tx: Tx, settlements: Sequence[Settlement]) -> list[Settled | None]:
        held: dict[str, str] = dict(await tx.fetch(current))
        believed = [structs.replace(item, session=held.get(item.run_id, "")) for item in settlements]
        return await real(tx, believed)

    return [
        mock.patch.object(settling, "settle", settle),
        _text(settle_plain_success, "RECORD_SUCCESSES", "AND {unindexed r.session} = :session", ""),
        _text(settle_plain_success, "RECORD_SUCCESSES_OF_SESSIONS", "AND {unindexed r.session} = b.session", ""),
    ]


def _every_key_fits(world: World) -> Patches:
    """A server does not check the key of a message for a session that it knows."""
    return [mock.patch.object(session.WorkerSession, "belongs_to", return_value=True)]


def _unguarded_settle(world: World) -> Patches:
    """A run that has ended is ended again by the next report."""
    real = settling.settle
    status = Query("ended_status", "SELECT status FROM history WHERE id = :id")
    overwrite = Query("overwrite", "UPDATE history SET status = 'succeeded' WHERE id = :id")

    async def settle(tx: Tx, settlements: Sequence[Settlement]) -> list[Settled | None]:
        answers = await real(tx, settlements)
        for index, item in enumerate(settlements):
            succeeded = isinstance(item.outcome, lifecycle.Succeeded)
            if answers[index] is None and succeeded and await tx.fetch(status, id=item.run_id):
                await tx.execute(overwrite, id=item.run_id)
                answers[index] = Settled(item.run_id, Status.SUCCEEDED)
        return answers

    return [mock.patch.object(settling, "settle", settle)]


def _answer_before_commit(world: World) -> Patches:
    """Submissions are acknowledged before their commit."""
    real = Connection._call

    async def call(self: Connection, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if name != "submit_and_claim":
            return await real(self, name, args, named)

        async def later() -> None:
            try:
                await real(self, name, args, named)
            except Exception:
                return

        asyncio.get_running_loop().create_task(later())
        return [Accepted(submission.job.id) for submission in args[0]], []

    return [mock.patch.object(Connection, "_call", call)]


def _no_rescue(world: World) -> Patches:
    async def turn(self: LeaseRescuer) -> int:
        return EVERY

    return [mock.patch.object(LeaseRescuer, "turn", turn)]


def _node_clock(world: World) -> Patches:
    """Servers use their own wall clocks, which are up to an hour apart."""
    return [mock.patch.object(world, "node_clocks", True)]


def _leases_left_behind(world: World) -> Patches:
    """When the store's clock steps ahead, its leases and timers do not move with it."""

    async def move_timers(tx: Tx, step: int) -> None:
        pass

    return [mock.patch.object(sqlite_tx, "move_timers", move_timers)]


def _every_clock_believed(world: World) -> Patches:
    """A step of the clock by years is accepted at once."""
    return [mock.patch.object(clock, "STEP_TO_HOLD", 10**18)]


def _no_clock_believed(world: World) -> Patches:
    """The store never accepts a step of the clock: its time stays behind."""

    def pending(self: SteadyClock) -> tuple[Micros, Micros]:
        return self(), 0

    return [mock.patch.object(SteadyClock, "pending", pending)]


def _lower_bounded_scan(world: World) -> Patches:
    """Jobs that fell due more than 3 s ago are not planned."""
    return [
        _text(plans, "DUE_JOBS", "j.plan_at <= {now}", "j.plan_at <= {now} AND j.plan_at > {now} - 3000000"),
        _text(plans, "NEXT_PLAN_AT", "plan_at IS NOT NULL", "plan_at > {now} - 3000000"),
    ]


def _no_once_only_guard(world: World) -> Patches:
    guard = "AND j.version = b.version AND j.next_fire_at {same} b.next_fire_at"
    return [_text(plans, "LOCK_PLANNED", guard, "")]


def _cancel_ignored(world: World) -> Patches:
    """A cancel of a running attempt is acknowledged but not stored."""
    return [_text(runs, "ASK_TO_CANCEL", "WHERE", "WHERE 1 = 0 AND")]


def _cancel_undelivered(world: World) -> Patches:
    """The worker never gets a cancel order."""
    real = gateway.WorkerGateway.beat

    async def beat(self: gateway.WorkerGateway, message: Any, key: str) -> PollResponse:
        return PollResponse(lost=(await real(self, message, key)).lost)

    return [
        mock.patch.object(gateway.WorkerGateway, "order_cancels", return_value=None),
        mock.patch.object(gateway.WorkerGateway, "beat", beat),
    ]


def _careless_give_back(world: World) -> Patches:
    """Attempts that a worker does not name are released, however old its message is."""
    return [_text(workers, "HELD_BY", "AND r.poll < :before", "AND :before IS NOT NULL")]


def _overlap_unseen(world: World) -> Patches:
    """The overlap policy does not see other live runs."""
    return [
        mock.patch.object(overlap.LiveRuns, "admit", return_value=Admission.RUN),
        mock.patch.object(overlap.LiveRuns, "empty", True),
    ]


def _early_start(world: World) -> Patches:
    """Runs that are claimed ahead of their time start at once."""
    real = assignments.assignment_of
    start_at_once: Any = lambda claim, now: structs.replace(real(claim, now), delay=0)  # noqa: E731
    return [mock.patch.object(assignments, "assignment_of", start_at_once)]


def _edit_keeps_future_run(world: World) -> Patches:
    """An update does not delete the run that waits for its fire time."""
    return [_text(amend, "DELETE_RUNS", "WHERE", "WHERE 1 = 0 AND")]


def _late_self_kill(world: World) -> Patches:
    """A worker that cannot renew its lease lets its jobs continue after the lease."""
    return [mock.patch.object(worker_session, "MARGIN", -10_000_000)]


def _endless_retries(world: World) -> Patches:
    real = lifecycle.settle

    def settle(outcome: Any, *, attempt: int, **rest: Any) -> Any:
        return real(outcome, attempt=attempt - 1, **rest)

    return [mock.patch.object(lifecycle, "settle", settle)]


def _delivered_again(world: World) -> Patches:
    """The setting `delivery` of a job is ignored."""
    real = lifecycle.settle

    def settle(outcome: Any, *, delivery: Any, **rest: Any) -> Any:
        return real(outcome, delivery="at_least_once", **rest)

    return [mock.patch.object(lifecycle, "settle", settle)]


def _starts_forgotten(world: World) -> Patches:
    """A released attempt counts as never started."""
    return [mock.patch.object(settling, "_may_have_started", return_value=False)]


def _retries_unseen(world: World) -> Patches:
    """A run can be retried although it was retried already."""
    return [_text(manual_runs, "TO_FOLLOW", "h.retried_as", "NULL")]


def _fires_uncounted(world: World) -> Patches:
    """The number of fires of a job does not grow with its schedule."""
    return [_text(plans, "MOVE_JOBS", "jobs.fired + b.fires", "jobs.fired")]


def _counted_for_good(world: World) -> Patches:
    """A run that an edit deletes still counts as a fire."""
    return [_text(amend, "WRITE_JOBS", "fired = b.fired", "fired = jobs.fired")]


def _end_ignored(world: World) -> Patches:
    real = planning.fires

    def fires(job: Job, after: Micros) -> Iterator[Micros]:
        return real(job.with_(spec=_endless(job.spec)), after)

    return [mock.patch.object(module, "fires", fires) for module in (planning, upcoming_fires)]


def _endless(spec: JobSpec) -> JobSpec:
    return structs.replace(spec, end_at=None)


def _catch_up_everything(world: World) -> Patches:
    return [
        mock.patch.object(planning.CatchUpRule, "verdict", return_value=None),
        mock.patch.object(planning, "_skip_missed", lambda upcoming, ahead, *_: (mock.Mock(count=0), upcoming, ahead)),
    ]


def _permit_kept(world: World) -> Patches:
    """Runs that wait at a gate are not released when a permit becomes free."""
    real = gates.settle

    async def settle(tx: Tx, freed: Any, *rest: Any) -> None:
        await real(tx, (), *rest)

    return [mock.patch.object(gates, "settle", settle)]


def _permit_leaked(world: World) -> Patches:
    """A run that waits for its retry keeps its permit."""
    return [_text(settling, "READY_AGAIN", "permit = NULL, ", "")]


def _limit_ignored(world: World) -> Patches:
    real = gates.GateBatch.closed

    def closed(self: gates.GateBatch, wanted: gates.Gates, at: int) -> str | None:
        return real(self, structs.replace(wanted, concurrency=None), at)

    return [mock.patch.object(gates.GateBatch, "closed", closed)]


def _tokens_uncounted(world: World) -> Patches:
    return [mock.patch.object(limits.TokenBucket, "take", lambda self, at: self)]


def _turn_kept(world: World) -> Patches:
    """An ordering key is never given to the next run."""

    async def leave(tx: Tx, gone: Any) -> None:
        return None

    return [mock.patch.object(ordering_keys, "release", leave)]


def _turn_ignored(world: World) -> Patches:
    async def enter(tx: Tx, runs: Any) -> set[str]:
        return set()

    return [mock.patch.object(ordering_keys, "enqueue", enter)]


def _turn_stolen(world: World) -> Patches:
    """A run that gave up does not block the runs behind it."""
    return [mock.patch.object(settling, "EndedRun", lambda key, run_id, **_: ordering_keys.EndedRun(key, run_id))]


def _no_change_of_places(world: World) -> Patches:
    """Runs of one job that block each other stay blocked."""

    async def overtake(tx: Tx, runs: Any, waiting: Any) -> set[str]:
        return set()

    return [mock.patch.object(ordering_keys, "swap_with_waiting", overtake)]


def _labels_ignored(world: World) -> Patches:
    return [mock.patch.object(placement.Offer, "suits", return_value=True)]


def _resources_ignored(world: World) -> Patches:
    """The resources that running attempts of a worker hold are ignored."""
    return [_text(claimants, "SHARES_HELD", "WHERE", "WHERE 1 = 0 AND")]


def _nothing_reserved(world: World) -> Patches:
    async def reserve(*_: Any) -> None:
        return None

    return [mock.patch.object(claiming, "reserve", reserve)]


def _rank_ignored(world: World) -> Patches:
    """High priorities always go first, however long other runs have waited."""
    real = claiming._claimable
    return [mock.patch.object(claiming, "_claimable", lambda credit, of_one_level: real(3600_000_000, of_one_level))]


def _tenants_unserved(world: World) -> Patches:
    """A claim gives every worker runs of any tenant."""
    real = workers.split_labels

    def split(labels: str, dedicated: int) -> workers.StoredLabels:
        return real(labels, dedicated)._replace(tenants=None)

    return [mock.patch.object(claimants, "split_labels", split)]


def _rank_alone(world: World) -> Patches:
    """A claim considers the runs of all tenants by rank."""
    return [mock.patch.object(fair_share.FairShares, "in_turn", lambda self, runs: iter(runs))]


def _quota_counted_early(world: World) -> Patches:
    """A server counts the running runs of the tenants before it sends a claim: another server may claim in between."""
    call, effect = Connection._call, Connection._effect
    counted: dict[int, Counter[str]] = {}
    current: list[Counter[str]] = []

    async def counting(self: Connection, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if name in ("claim", "submit_and_claim"):
            counted[id(args)] = world.auditor.inspector.running
        return await call(self, name, args, named)

    def effective(self: Connection, name: str, args: tuple[Any, ...], *rest: Any) -> None:
        if name in ("claim", "submit_and_claim"):
            current[:] = [counted.pop(id(args))]
        effect(self, name, args, *rest)

    async def running(tx: Tx, tenants: Sequence[str]) -> dict[str, int]:
        return dict(current[0])

    return [
        mock.patch.object(Connection, "_call", counting),
        mock.patch.object(Connection, "_effect", effective),
        mock.patch.object(running_quota, "running", running),
    ]


def _quota_leaked(world: World) -> Patches:
    """A run that failed counts among the running runs of its tenant for good."""
    real = running_quota.running
    failed = Query("failed", "SELECT tenant, COUNT(*) FROM history WHERE status IN ('failed', 'dead') GROUP BY tenant")

    async def running(tx: Tx, tenants: Sequence[str]) -> dict[str, int]:
        return Counter(await real(tx, tenants)) + Counter(dict(await tx.fetch(failed)))

    return [mock.patch.object(running_quota, "running", running)]


def _jobs_uncounted(world: World) -> Patches:
    """The jobs of a tenant with a quota are not counted when it submits or changes one."""

    async def none(tx: Tx, tenant: str, most: int) -> int:
        return 0

    return [mock.patch.object(quotas, "jobs_that_may_fire", none)]


def _expirer_asleep(world: World) -> Patches:
    async def turn(self: DeadlineExpirer) -> int:
        return EVERY

    return [mock.patch.object(DeadlineExpirer, "turn", turn)]


def _deadline_ignored(world: World) -> Patches:
    """Runs are claimed after their start deadline."""
    real = claiming._claimable

    def claimable(credit: int, of_one_level: bool) -> Query:
        query = real(credit, of_one_level)
        return Query(f"{query.name}_planted", query.text.replace("(start_by IS NULL OR", "(1 = 1 OR"))

    return [mock.patch.object(claiming, "_claimable", claimable), *_expirer_asleep(world)]


def _previous_spared(world: World) -> Patches:
    """A later fire waits for the earlier run and does not cancel it."""

    async def replace(tx: Tx, live: Any) -> None:
        return None

    return [mock.patch.object(plans, "replace", replace), mock.patch.object(manual_runs, "replace", replace)]


def _circuit_ignored(world: World) -> Patches:
    return [mock.patch.object(circuit_breaker, "lets_through", return_value=True)]


def _circuit_stays_open(world: World) -> Patches:
    """No run probes a host after the pause of its circuit breaker."""
    return [mock.patch.object(circuit_breaker, "lets_through", lambda known, at: known.open_until is None)]


def _cursor_apart(world: World) -> Patches:
    """The cursor of a backfill moves in one transaction, and the runs before it are inserted in the next one."""
    real, insert = Connection._call, backfills._insert
    left: list[NewRun] = []

    async def keep(tx: Tx, new: Sequence[NewRun]) -> None:
        left.extend(new)

    async def insert_left(new: Sequence[NewRun]) -> None:
        await world.store._db.write(lambda tx: insert(tx, new))

    async def call(self: Connection, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        answer = await real(self, name, args, named)
        if name == "advance_backfills" and left:
            new = left[:]
            left.clear()
            await real(self, "insert_left", (new,), {})
        return answer

    return [
        mock.patch.object(Connection, "_call", call),
        mock.patch.object(backfills, "_insert", keep),
        mock.patch.object(world.store, "insert_left", insert_left, create=True),
    ]


def _never_goes_on(world: World) -> Patches:
    """A suspended attempt is never resumed."""
    return [mock.patch.object(Attempts, "_go_on", return_value=None)]


def _lends_unstopped(world: World) -> Patches:
    """The slots of an attempt are freed although its process continues."""
    real = HeldAttempt.on_pause

    def on_pause(self: HeldAttempt, suspend: Any, go_on: Any) -> None:
        real(self, lambda: None, go_on)

    return [mock.patch.object(HeldAttempt, "on_pause", on_pause)]


def _class_ignored(world: World) -> Patches:
    """A waiting run preempts attempts of any priority."""
    return [mock.patch.object(preemption, "CLASS", -9)]


def _parallelism_ignored(world: World) -> Patches:
    """All fires of a backfill become runs at once."""
    real = backfill.next_fires

    def at_once(asked: Backfill, job: Job, alive: int, ahead: backfill.BackfillFires | None = None) -> Any:
        return real(structs.replace(asked, parallelism=backfill.MAX_RUNS), job, 0, ahead)

    return [mock.patch.object(backfill, "next_fires", at_once)]


def _woven_twice(world: World) -> Patches:
    """It is not stored that a task of a workflow has its run, so the next call creates another."""
    real = rows.standing
    forgotten: set[tuple[str, int, int]] = set()

    def standing(flow_id: str, step: WorkflowStep) -> Any:
        key = (flow_id, *step.key)
        if step.state is TaskState.RUNNING and step.run_id is not None and key not in forgotten:
            forgotten.add(key)
            step.fresh = True
        return real(flow_id, step)

    # Without random ids the store refuses the second run, because it has the id of the first.
    by_chance = mock.patch.object(ids, "Digest", return_value=world.rng)
    return [mock.patch.object(advance, "standing", standing), by_chance]


def _first_parent_suffices(world: World) -> Patches:
    """A task of a workflow begins when the first of the tasks that it needs has ended."""
    real = progress.tell

    def tell(ended: WorkflowStep, child: WorkflowStep) -> None:
        child.waits = min(child.waits, 1)
        if child.state is TaskState.WAITING:
            real(ended, child)

    return [mock.patch.object(progress, "tell", tell)]


def _deposed_keeper(world: World) -> Patches:
    """The maintenance lease is not checked in the transaction."""

    async def check(tx: Tx, lead: Any) -> None:
        return None

    return [mock.patch.object(maintenance, "check", check)]


def _sums_forgotten(world: World) -> Patches:
    """Deleted runs are not added to the daily sums."""

    async def add_sums(tx: Tx, gone: Any, jobs_gone: Any) -> None:
        return None

    return [mock.patch.object(maintenance, "add_sums", add_sums)]


def _usage_not_pending(world: World) -> Patches:
    """A run that is alive when its turn to be added to the sums of usage comes is forgotten."""
    return [_text(usage, "MAKE_PENDING", "r.id <= :upto", "r.id <= :upto AND false")]


def _usage_counted_again(world: World) -> Patches:
    """A pending run that is added to the sums of usage stays pending."""
    return [
        _text(usage, "FORGET_PENDING", "DELETE FROM usage_pending WHERE", "DELETE FROM usage_pending WHERE false AND")
    ]


def _age_of_first_fire(world: World) -> Patches:
    """A ledger row is deleted when its first fire is old, even if fires were added to it recently."""
    return [_text(ledger_spans, "GROW_SPANS", ", finished_at = {now}", "")]


def _pruned_by_day(world: World) -> Patches:
    """All runs that were created on a day that is over are deleted, even if they ended recently."""
    return [
        _text(maintenance, "RUNS_TO_PRUNE", "AND h.finished_at < :before", "AND :before IS NOT NULL"),
        _text(maintenance, "OLDEST_TO_PRUNE", "AND h.finished_at < :before", "AND :before IS NOT NULL"),
        _text(maintenance, "PRUNE_RUNS", "AND finished_at < :before", "AND :before IS NOT NULL"),
    ]


def _live_silenced(world: World) -> Patches:
    """Output of a day that is over is deleted, even that of live runs."""
    alive = "NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = l.run_id)"
    pending = "NOT EXISTS (SELECT 1 FROM usage_pending u WHERE u.run_id = l.run_id)"
    found = maintenance.PRUNE_LOGS
    assert alive in found.text
    assert pending in found.text
    text = found.text.replace(alive, "true").replace(pending, "true")
    return [mock.patch.object(maintenance, "PRUNE_LOGS", Query(f"{found.name}_planted", text))]


def _echo_apart(world: World) -> Patches:
    """The upstream event of an end is stored after the end was committed."""
    real = Connection._call
    left: list[Any] = []

    async def keep(tx: Tx, ended_runs: Any) -> set[str]:
        left.extend(ended_runs)
        return set()

    async def tell_left(ended_runs: Any) -> None:
        await world.store._db.write(lambda tx: tell(tx, ended_runs))

    async def call(self: Connection, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        answer = await real(self, name, args, named)
        if name == "settle" and left:
            ended_runs = left[:]
            left.clear()
            await real(self, "tell_left", (ended_runs,), {})
        return answer

    tell = follows.record_upstream_ends
    return [
        mock.patch.object(Connection, "_call", call),
        mock.patch.object(follows, "record_upstream_ends", keep),
        mock.patch.object(world.store, "tell_left", tell_left, create=True),
    ]


def _follower_unseen(world: World) -> Patches:
    """The end of a plain success is not stored as an upstream event."""
    return [_text(settle_plain_success, "RECORD_SUCCESSES", "f.job_id = r.job_id", "1 = 0")]


def _freeze_unseen(world: World) -> Patches:
    """A changed calendar does not affect runs that were planned with the old one."""

    async def plan_anew(tx: Tx, key: dict[str, str]) -> None:
        pass

    return [mock.patch.object(calendars, "_plan_anew", plan_anew)]


def _owed_forgotten(world: World) -> Patches:
    """A fire that a closed calendar excluded is not deferred once it is in the ledger."""
    real = planning.plan

    def plan(*args: Any, **named: Any) -> planning.JobPlan:
        found = real(*args, **named)
        if found.deferred_fire is None:
            return found
        following = next(planning.fires(found.job, found.deferred_fire), None)
        return structs.replace(found, deferred_fire=None, next_fire_at=following, plan_at=following)

    return [mock.patch.object(planning, "plan", plan)]


def _drain_unseen(world: World) -> Patches:
    """Runs are claimed for workers that were ordered to drain."""
    return [
        _text(claimants, "LEASED_SESSIONS", "AND w.draining_since IS NULL", ""),
        mock.patch.object(session.WorkerSession, "order_drain", return_value=None),
    ]


def _drain_unseen_on_submit(world: World) -> Patches:
    """Runs are assigned on submit to workers that were ordered to drain."""
    return [
        _text(assign_on_submit, "THERE_FOR_ALL", "AND w.draining_since IS NULL", ""),
        mock.patch.object(session.WorkerSession, "order_drain", return_value=None),
    ]


def _drain_unheard(world: World) -> Patches:
    """A worker never learns that it was ordered to drain."""
    return [mock.patch.object(Worker, "_leave", _never)]


async def _never(_: Worker) -> None:
    return None


PLANTS: dict[str, Plant] = {
    name: Plant(name, frozenset(breaks.split()), patches, theme, first)
    for name, breaks, patches, theme, first in (
        ("no-fencing", "I6 I7 I8", _no_fencing, None, 190),
        ("answer-before-commit", "I1 I14", _answer_before_commit, None, 0),
        ("no-rescue", "I26", _no_rescue, None, 15),
        ("leases-left-behind", "I7", _leases_left_behind, "clocks", 2),
        ("every-clock-believed", "I3 I7", _every_clock_believed, "clocks", 1),
        ("no-clock-believed", "I4 I20", _no_clock_believed, "clocks", 2),
        ("node-clock", "I3 I4 I7 I20 I22", _node_clock, None, 0),
        ("unguarded-settle", "I6 I13", _unguarded_settle, None, 25),
        ("lower-bounded-scan", "I20", _lower_bounded_scan, None, 27),
        ("no-once-only-guard", "I2 I5 I16", _no_once_only_guard, None, 1),
        ("cancel-ignored", "I10", _cancel_ignored, None, 0),
        ("cancel-undelivered", "I10", _cancel_undelivered, None, 6),
        ("careless-give-back", "I7 I12", _careless_give_back, None, 184),
        ("overlap-unseen", "I16", _overlap_unseen, None, 3),
        ("early-start", "I3", _early_start, None, 0),
        ("edit-keeps-future-run", "I5 I10 I11", _edit_keeps_future_run, None, 0),
        ("late-self-kill", "I7", _late_self_kill, "zombies", 18),
        ("endless-retries", "I12", _endless_retries, None, 0),
        ("delivered-again", "I12", _delivered_again, None, 28),
        ("starts-forgotten", "I12", _starts_forgotten, None, 351),
        ("permit-kept", "I26", _permit_kept, "limits", 14),
        ("permit-leaked", "I18 I26", _permit_leaked, "limits", 24),
        ("limit-ignored", "I16", _limit_ignored, "limits", 14),
        ("tokens-uncounted", "I16", _tokens_uncounted, "limits", 14),
        ("turn-kept", "I18 I26", _turn_kept, "order", 0),
        ("turn-ignored", "I16 I18", _turn_ignored, "order", 0),
        ("turn-stolen", "I16", _turn_stolen, "order", 15),
        ("no-change-of-places", "I26", _no_change_of_places, "order", 287),
        ("labels-ignored", "I18", _labels_ignored, "fitting", 0),
        ("resources-ignored", "I18", _resources_ignored, "fitting", 42),
        ("nothing-reserved", "I17", _nothing_reserved, "fitting", 42),
        ("rank-ignored", "I17", _rank_ignored, "mixed", 167),
        ("tenants-unserved", "I31", _tenants_unserved, "mixed", 7),
        ("rank-alone", "I17", _rank_alone, "tenants", 15),
        ("quota-counted-early", "I18", _quota_counted_early, "tenants", 19),
        ("quota-leaked", "I26", _quota_leaked, "tenants", 0),
        ("jobs-uncounted", "I18", _jobs_uncounted, "tenants", 22),
        ("expirer-asleep", "I4 I26", _expirer_asleep, "deadlines", 6),
        ("deadline-ignored", "I4", _deadline_ignored, "deadlines", 6),
        ("previous-spared", "I16", _previous_spared, "mixed", 161),
        ("circuit-ignored", "I16", _circuit_ignored, "hosts", 3),
        ("circuit-stays-open", "I26", _circuit_stays_open, "hosts", 15),
        ("retries-unseen", "I13", _retries_unseen, None, 283),
        ("catch-up-everything", "I20", _catch_up_everything, None, 98),
        ("fires-uncounted", "I2 I23", _fires_uncounted, None, 0),
        ("counted-for-good", "I23", _counted_for_good, None, 0),
        ("end-ignored", "I2", _end_ignored, None, 506),
        ("cursor-apart", "I2 I18", _cursor_apart, "backfills", 19),
        ("parallelism-ignored", "I18", _parallelism_ignored, "backfills", 3),
        ("never-goes-on", "I26", _never_goes_on, "preemption", 16),
        ("lends-unstopped", "I18", _lends_unstopped, "preemption", 6),
        ("class-ignored", "I17", _class_ignored, "preemption", 6),
        ("woven-twice", "I19", _woven_twice, "workflows", 1),
        ("first-parent-suffices", "I19", _first_parent_suffices, "workflows", 1),
        ("echo-apart", "I2", _echo_apart, "follows", 300),
        ("follower-unseen", "I2", _follower_unseen, "follows", 28),
        ("freeze-unseen", "I11", _freeze_unseen, "calendars", 25),
        ("owed-forgotten", "I2", _owed_forgotten, "calendars", 69),
        ("deposed-keeper", "I9", _deposed_keeper, "retention", 79),
        ("sums-forgotten", "I23", _sums_forgotten, "retention", 0),
        ("usage-not-pending", "I23", _usage_not_pending, "retention", 0),
        ("usage-counted-again", "I23", _usage_counted_again, "retention", 0),
        ("pruned-by-day", "I2", _pruned_by_day, "retention", 0),
        ("age-of-first-fire", "I2", _age_of_first_fire, "retention", 157),
        ("live-silenced", "I2 I8", _live_silenced, "retention", 3),
        ("no-session-guard", "I31", _no_session_guard, "forgery", 38),
        ("every-key-fits", "I31", _every_key_fits, "forgery", 0),
        ("drain-unseen", "drain", _drain_unseen, "drains", 7),
        ("drain-unseen-on-submit", "drain", _drain_unseen_on_submit, "drains", 33),
        ("drain-unheard", "drain", _drain_unheard, "drains", 2),
    )
}
