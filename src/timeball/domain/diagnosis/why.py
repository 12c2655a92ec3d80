"""Computes the reasons for the state of a run or a job from a snapshot, in the order in which they matter now.

A run waits first for its due time, then for the removal of its holds (an earlier run, the ordering key, a gate), then
for a worker. The list also has reasons of a later stage if they do not disappear by themselves.
"""

from __future__ import annotations

from typing import Final, assert_never

from timeball.domain import duration
from timeball.domain.diagnosis import job_text, run_text, why_ended, worker_match
from timeball.domain.diagnosis.reasons import Code, Reason
from timeball.domain.diagnosis.snapshot import DiagnosisSnapshot, Standing
from timeball.domain.dispatch import preemption, priority
from timeball.domain.dispatch.placement import Need
from timeball.domain.dispatch.preemption import Preemption
from timeball.domain.instant import Micros
from timeball.domain.job.job import Job, JobState, OffloadedSpec
from timeball.domain.planning import upcoming_fires
from timeball.domain.run import circuit_breaker, follow
from timeball.domain.run.lifecycle import LEASE, Hold
from timeball.domain.run.run import Run
from timeball.domain.schedule.closed_times import OPEN, Closures
from timeball.domain.schedule.schedule import Follow, sentence
from timeball.domain.task import retry
from timeball.domain.task.task import Python, kind_of

_GATES: Final = {
    "limit": (Code.CONCURRENCY,),
    "rate": (Code.RATE_LIMIT,),
    "host": (Code.CIRCUIT_OPEN, Code.CIRCUIT_PROBED),
    "": (),
}
"""The codes of the reasons that a gate may cause, by the kind of the gate."""


def of_run(facts: DiagnosisSnapshot) -> list[Reason]:
    """Return the reasons for the state of a run; at least one."""
    if facts.run.is_terminal:
        return [*why_ended.reasons(facts), *_caused(facts.run)]
    if facts.run.token is not None:
        return [*_held(facts), *_caused(facts.run)]
    return [*_waiting(facts), *_caused(facts.run)]


def _caused(run: Run) -> list[Reason]:
    return [] if run.cause is None else [run_text.caused(run.cause)]


# --- jobs ---------------------------------------------------------------------------------------------------------


def of_job(standing: Standing, closures: Closures = OPEN) -> list[Reason]:
    """Return the reasons for the state of a job itself, without those of its runs; at least one."""
    job, now = standing.job, standing.now
    match job.state:
        case JobState.PAUSED:
            return [job_text.paused(job, now)]
        case JobState.CANCELLED:
            return [job_text.cancelled()]
        case JobState.ACTIVE:
            return [_next(standing, closures)]
        case _:
            assert_never(job.state)


def _next(standing: Standing, closures: Closures) -> Reason:
    job, now, following = standing.job, standing.now, standing.next_fire
    spec = job.spec
    if standing.planning_failure is not None:
        return job_text.unplannable(standing.planning_failure, now)
    if following is None and spec.follows is not None and follow.is_awake(job):
        return _follows(standing, spec.follows)
    if following is None:
        return _nothing_left(standing)
    if following == job.next_fire_at and (job.deferred_fire is not None or closures.at(following) is not None):
        return _shut(job, following, now, closures)
    if following <= now:
        return job_text.about_to_be_planned(following, now)
    if spec.starts is not None and spec.starts > now:
        return job_text.not_begun(spec.starts, following, now)
    return job_text.next_fire(following, standing.alive, now)


def _follows(standing: Standing, wanted: Follow) -> Reason:
    job, now, followed = standing.job, standing.now, standing.followed
    said = sentence(wanted, "" if followed is None else followed.name)
    if followed is not None and followed.state in (None, JobState.CANCELLED):
        return job_text.follows_nothing(said, is_gone=followed.state is None)
    if job.spec.starts is not None and job.spec.starts > now:
        return job_text.follows_later(said, job.spec.starts, now)
    return job_text.follows(said, job.id, is_paused=followed is not None and followed.state is JobState.PAUSED)


def _shut(job: Job, following: Micros, now: Micros, closures: Closures) -> Reason:
    """Return the reason of a job whose last or next fire is excluded by a calendar."""
    closure = closures.at(now) or closures.at(following)
    return job_text.excluded(job, closure, next(upcoming_fires.coming(job, now, closures), None), now)


def _nothing_left(standing: Standing) -> Reason:
    job = standing.job
    if job.exhausted:
        return job_text.exhausted(job.fired)
    if job.spec.ends is not None:
        return job_text.ended(job.spec.ends, standing.now)
    if standing.alive:
        return job_text.last_run_alive()
    return job_text.completed(job.id)


# --- runs that a worker has claimed -------------------------------------------------------------------------------


def _held(facts: DiagnosisSnapshot) -> list[Reason]:
    run, now = facts.run, facts.now
    reasons: list[Reason] = []
    if run.cancel_requested_at is not None:
        reasons.append(run_text.cancelling(run, run.cancel_requested_at, now))
    if facts.advancing is not None:
        return [*reasons, run_text.waits_for_tasks(run, facts.advancing), *why_ended.late(facts)]
    if not facts.leased:
        reasons.append(run_text.silent(run))
    elif (overdue := _overdue(facts)) is not None:
        reasons.append(overdue)
    if facts.makes_room is not None:
        reasons.append(_preempted(facts.makes_room, now))
    reasons.append(_progress(facts))
    return reasons + why_ended.late(facts)


def _overdue(facts: DiagnosisSnapshot) -> Reason | None:
    """Return the reason of a run whose worker is alive but should have ended the run by now; None for any other run."""
    run, spec, now = facts.run, facts.spec, facts.now
    if spec.timeout is None or run.attempt_started_at is None or facts.makes_room is not None:
        return None
    timeout, grace = duration.parse(spec.timeout), duration.parse(spec.grace)
    should_end = run.attempt_started_at + timeout + grace
    return None if now < should_end else run_text.overdue(run, should_end, should_end + LEASE, now)


def _preempted(made: Preemption, now: Micros) -> Reason:
    if made.paused_at is None:
        return run_text.asked_for_room(made, now)
    return run_text.suspended(made, made.paused_at, made.paused_at + preemption.MAX_PREEMPTION_DURATION, now)


def _progress(facts: DiagnosisSnapshot) -> Reason:
    run = facts.run
    if run.attempt_started_at is not None:
        return run_text.running(facts, run.attempt_started_at)
    return run_text.claimed_ahead(run, facts.now) if run.due > facts.now else run_text.claimed(facts)


# --- runs that wait -----------------------------------------------------------------------------------------------


def _waiting(facts: DiagnosisSnapshot) -> list[Reason]:
    reasons = [*_too_early(facts), *_held_back(facts)]
    if not reasons:
        reasons = _closed_gates(facts)
    if facts.spec.is_workflow:
        return [*(reasons or [run_text.first_tasks()]), *_deadline(facts)]
    kind = None if facts.task is None else kind_of(facts.task)
    lacking = worker_match.lacking(facts.spec.need, _function(facts), facts.workers, kind, facts.draining)
    if lacking is not None:
        reasons.append(lacking)
    elif not reasons and facts.quota is not None and facts.quota.running >= facts.quota.limit:
        reasons.append(run_text.tenant_quota(facts.quota))
    elif not reasons:
        if facts.room_made is not None:
            reasons.append(run_text.room_made(facts.room_made))
        reasons += _in_line(facts)
    return [*reasons, *_deadline(facts)]


def _deadline(facts: DiagnosisSnapshot) -> list[Reason]:
    run = facts.run
    return [] if run.start_by is None or run.attempt else [run_text.start_deadline(run.start_by, facts.now)]


def _too_early(facts: DiagnosisSnapshot) -> list[Reason]:
    run, now = facts.run, facts.now
    if run.attempt and run.eligible_at is not None and run.eligible_at > now:
        return [run_text.retry_later(facts, run.eligible_at, retry.limit(facts.spec.retry))]
    if run.fire_time > now:
        return [run_text.not_due(run, now)]
    if facts.day_quota is not None and run.eligible_at is not None:
        return [run_text.day_quota(facts.day_quota, run.eligible_at, now)]
    if (
        run.eligible_at is not None
        and run.eligible_at > now
        and isinstance(facts.spec, OffloadedSpec)
        and run.due <= now
    ):
        return [run_text.parameters_unreadable(run.eligible_at, now)]
    return [run_text.jitter(run, now)] if run.due > now else []


def _held_back(facts: DiagnosisSnapshot) -> list[Reason]:
    holds = facts.run.holds
    reasons = [_turn(facts)] if Hold.TURN in holds else []
    if Hold.OVERLAP in holds:
        # A failed run that holds the ordering key blocks all later runs until a person acts, so it comes first.
        is_key_blocked = bool(reasons) and reasons[0].code is Code.TURN_BLOCKED
        rival = facts.rival
        held = run_text.overlap_over() if rival is None else run_text.overlap(facts, rival)
        reasons.insert(1 if is_key_blocked else 0, held)
    if Hold.GATE in holds:
        gates = _closed_gates(facts)
        here = [reason for reason in gates if reason.code in _GATES[(facts.run.gate or "").partition(":")[0]]]
        reasons += here or [_let_through(facts)]
        reasons += [reason for reason in gates if reason not in here]
    return reasons


def _turn(facts: DiagnosisSnapshot) -> Reason:
    key, turn = facts.run.ordering_key, facts.turn
    if turn is None or turn.holder is None:
        return run_text.turn_comes(key)
    if turn.holder.is_terminal:
        return run_text.turn_blocked(key, turn.holder)
    return run_text.turn_of(key, turn.holder, turn.before - 1, facts.now)


def _closed_gates(facts: DiagnosisSnapshot) -> list[Reason]:
    """Return a reason for each gate (limit or circuit breaker) that blocks the run at this moment."""
    now = facts.now
    reasons: list[Reason] = []
    if (permits := facts.permits) is not None and permits.taken >= permits.limit:
        reasons.append(run_text.concurrency_full(facts, permits))
    if (target := facts.target) is not None and (found := target.circuit).open_until is not None:
        if found.probe is not None and found.probe != facts.run.id:
            reasons.append(run_text.circuit_probed(target.host, found.probe))
        elif not circuit_breaker.lets_through(found, now):
            reasons.append(run_text.circuit_open(target.host, found.failures, found.open_until, now))
    if (tokens := facts.tokens) is not None and tokens.bucket.token_at > now:
        reasons.append(run_text.rate_spent(facts, tokens.key, tokens.bucket.token_at))
    return reasons


def _let_through(facts: DiagnosisSnapshot) -> Reason:
    kind, _, name = (facts.run.gate or "").partition(":")
    codes = _GATES[kind]
    return run_text.let_through(codes[0] if codes else Code.CLAIMABLE, name, facts.gate_before)


def _in_line(facts: DiagnosisSnapshot) -> list[Reason]:
    """Return the reasons of a run without holds that waits for one of the workers that could execute it."""
    run, need = facts.run, _need(facts)
    able = worker_match.able(need, facts.workers)
    reasons = [
        run_text.reserved(worker.name)
        for worker in facts.workers
        if worker.left.reserved_for is not None and worker.left.reserved_for == run.profile
    ]
    open_to_it = [worker for worker in able if worker.left.reserved_for in (None, run.profile)]
    free = [worker for worker in open_to_it if worker.left.fits(need)]
    slots = sum(worker.left.slots for worker in free)
    if facts.ahead.count >= max(slots, 1):
        settled = (run.eligible_at or run.due) + priority.bound(facts.priority, facts.credit)
        reasons.append(run_text.behind(facts, settled))
    if not free:
        all_slots = sum(worker.idle.slots for worker in able)
        reasons.append(run_text.busy(facts, len(able), all_slots, len(able) - len(open_to_it)))
    if not reasons:
        reasons.append(run_text.claimable(run, free[0].name))
    return reasons


def _need(facts: DiagnosisSnapshot) -> Need:
    """Return the requirements of the run, including its task kind."""
    return facts.spec.need.of_kind(None if facts.task is None else kind_of(facts.task))


def _function(facts: DiagnosisSnapshot) -> str | None:
    return facts.task.function if isinstance(facts.task, Python) else None
