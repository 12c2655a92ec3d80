"""The sentences for the reasons of a live run, one function each. The module `why` decides which of them apply."""

from __future__ import annotations

from typing import assert_never

from timeball.domain.diagnosis.reasons import Code, Reason
from timeball.domain.diagnosis.snapshot import (
    MAX_COUNTED,
    DayQuota,
    DiagnosisSnapshot,
    Permits,
    TenantQuota,
    WorkflowPosition,
)
from timeball.domain.dispatch.overlap import REPLACING, Overlap
from timeball.domain.dispatch.preemption import Preemption
from timeball.domain.instant import Micros
from timeball.domain.run.run import Run
from timeball.domain.run.status import Status
from timeball.domain.text.english import about, counted, listed, moment, when


def caused(cause: str) -> Reason:
    text = f"The end of run {cause} caused this run, because the job follows that run's job."
    return Reason(code=Code.FOLLOWS, text=text, run_id=cause)


# --- runs that a worker has claimed -------------------------------------------------------------------------------


def cancelling(run: Run, asked_at: Micros, now: Micros) -> Reason:
    because = f" ({run.cancel_reason})" if run.cancel_reason else ""
    return Reason(
        code=Code.CANCELLING,
        text=f"A cancel was requested {when(asked_at, now)}{because}; the worker has to confirm it.",
        unblocks="The end of the processes of the run; at the latest the end of the worker's lease.",
        since=asked_at,
    )


def silent(run: Run) -> Reason:
    text = f"Worker {run.worker} stopped answering; a server is about to end the attempt."
    return Reason(code=Code.SILENT, text=text)


def overdue(run: Run, should_end: Micros, until: Micros, now: Micros) -> Reason:
    """Return the reason of a run whose worker has not reported the end, although timeout and grace have passed (at
    `should_end`). `until` is the instant at which a server ends the attempt without a report."""
    return Reason(
        code=Code.SILENT,
        text=f"Timeout and grace ended {when(should_end, now)}; worker {run.worker} has not reported the end.",
        unblocks=f"The report of the worker; without it, a server ends the attempt at about {moment(until, now)}.",
        since=should_end,
        until=until,
    )


def asked_for_room(made: Preemption, now: Micros) -> Reason:
    text = f"A preemption was requested {when(made.asked_at, now)}, to give the slots to run {made.by_run}."
    return Reason(code=Code.PREEMPTED, text=text, since=made.asked_at, run_id=made.by_run)


def suspended(made: Preemption, paused_at: Micros, until: Micros, now: Micros) -> Reason:
    return Reason(
        code=Code.PREEMPTED,
        text=f"The run is suspended since {moment(paused_at, now)}, because run {made.by_run} got its slots.",
        unblocks=f"The end of the run that uses the slots; {moment(until, now)} at the latest.",
        since=paused_at,
        until=until,
        run_id=made.by_run,
    )


def waits_for_tasks(run: Run, position: WorkflowPosition) -> Reason:
    """Return the reason of a workflow run that waits for its tasks."""
    done = f"{position.tasks - position.open:,} of {counted(position.tasks, 'task')} have ended"
    if not position.running:
        return Reason(code=Code.TASKS, text=f"The workflow is running: {done}, and the next tasks are about to start.")
    names = [name if run_id is None else f"{name} (run {run_id})" for name, run_id in position.running]
    more = f" and up to {position.open - len(names):,} more" if position.open > len(names) else ""
    text = f"The workflow waits for {'task' if len(names) == 1 else 'tasks'} {listed(names)}{more}: {done}."
    first = position.running[0][1]
    hint = "" if first is None else f"To see what a task waits for: timeball why {first}."
    return Reason(code=Code.TASKS, text=text, unblocks=hint, since=run.started_at, run_id=first)


def running(facts: DiagnosisSnapshot, since: Micros) -> Reason:
    text = f"The run has been executing on {facts.run.worker} since {moment(since, facts.now)}{_attempt(facts)}."
    return Reason(code=Code.RUNNING, text=text, since=since)


def claimed_ahead(run: Run, now: Micros) -> Reason:
    text = f"Worker {run.worker} has claimed the run and starts it {when(run.due, now)}."
    return Reason(code=Code.CLAIMED, text=text, since=run.claimed_at, until=run.due)


def claimed(facts: DiagnosisSnapshot) -> Reason:
    text = f"Worker {facts.run.worker} has claimed the run{_attempt(facts)} and is about to report its start."
    return Reason(code=Code.CLAIMED, text=text, since=facts.run.claimed_at)


def _attempt(facts: DiagnosisSnapshot) -> str:
    limit = facts.spec.retry.max_retries + 1 if facts.spec.delivery != "at_most_once" else 1
    return f" (attempt {facts.run.attempt} of {limit})" if facts.run.attempt > 1 else ""


# --- runs that are due in the future ------------------------------------------------------------------------------


def retry_later(facts: DiagnosisSnapshot, due: Micros, longest: Micros) -> Reason:
    """Return the reason of a run that waits for its retry at `due`. `longest` is the maximum delay that the retry
    policy allows."""
    run = facts.run
    limit = facts.spec.retry.max_retries + 1
    failed = "" if run.failure is None else f": {run.failure.message}"
    asked = 0 if run.failure is None else run.failure.retry_after or 0
    cut = f" The target requested a delay of {about(asked)}; the cap is {about(longest)}." if asked > longest else ""
    return Reason(
        code=Code.RETRY,
        text=f"The retry is due {when(due, facts.now)}; attempt {run.attempt} of {limit} failed{failed}.{cut}",
        unblocks=f"Nothing has to be done. To retry the run now: timeball runs retry {run.id}.",
        until=due,
    )


def not_due(run: Run, now: Micros) -> Reason:
    spread = f", {about(run.due - run.fire_time)} of jitter included" if run.due > run.fire_time else ""
    text = f"The run is scheduled for later: it starts {when(run.due, now)}{spread}."
    return Reason(code=Code.NOT_DUE, text=text, until=run.due)


def parameters_unreadable(retry_at: Micros, now: Micros) -> Reason:
    text = f"The parameters could not be read from the object storage; next attempt: {when(retry_at, now)}."
    unblocks = "An object storage that answers; the log of the server has the error."
    return Reason(code=Code.PARAMETERS, text=text, until=retry_at, unblocks=unblocks)


def jitter(run: Run, now: Micros) -> Reason:
    text = f"The run is delayed by its jitter of {about(run.due - run.fire_time)}: it starts {when(run.due, now)}."
    return Reason(
        code=Code.JITTER,
        text=text,
        until=run.due,
        unblocks="Nothing has to be done. A smaller jitter shortens the delay.",
    )


def start_deadline(start_by: Micros, now: Micros) -> Reason:
    text = f"The run is skipped if it has not started by its startDeadline: {when(start_by, now)}."
    return Reason(code=Code.START_DEADLINE, text=text, until=start_by)


def first_tasks() -> Reason:
    return Reason(code=Code.TASKS, text="The workflow run is due, and its first tasks are about to start.")


# --- blocked runs -------------------------------------------------------------------------------------------------


def overlap_over() -> Reason:
    return Reason(code=Code.OVERLAP, text="The earlier run has just ended: this run is about to become ready.")


def overlap(facts: DiagnosisSnapshot, rival: Run) -> Reason:
    run, now, policy = facts.run, facts.now, facts.spec.overlap
    end = f"The end of run {rival.id} (timeball runs cancel {rival.id}), or overlap: allow."
    if run.due > now:
        text = f"Run {rival.id} of the job {_stands(rival, now)}; if it is alive when this run is due, {_then(policy)}."
    elif policy in REPLACING:
        text = f"This run replaces run {rival.id} of the job, which {_stands(rival, now)}."
    else:
        others = _before(facts.waiting_before, "; {} before this one for the same reason")
        text = f"Run {rival.id} of the job {_stands(rival, now)}, and the runs must not overlap ({policy}){others}."
    return Reason(code=Code.OVERLAP, text=text, unblocks=end, since=rival.started_at, run_id=rival.id)


def _then(policy: Overlap) -> str:
    match policy:
        case Overlap.SKIP:
            return "this run is skipped"
        case Overlap.CANCEL_PREVIOUS | Overlap.TERMINATE_PREVIOUS:
            return "it is stopped and this run replaces it"
        case Overlap.QUEUE | Overlap.QUEUE_ONE | Overlap.ALLOW:
            return "this run waits for its end"
        case _:
            assert_never(policy)


def turn_comes(key: str | None) -> Reason:
    return Reason(code=Code.TURN, text=f"The run is about to get the ordering key {key}.")


def turn_blocked(key: str | None, holder: Run) -> Reason:
    error = "" if holder.failure is None else f": {holder.failure.message}"
    return Reason(
        code=Code.TURN_BLOCKED,
        text=f"Run {holder.id} failed for good and still holds the ordering key {key} ({holder.status}{error}).",
        unblocks=f"Retry it (timeball runs retry {holder.id}), discard it (timeball dead discard {holder.id}), or"
        " set onFailure: continue, so that other runs do not wait.",
        since=holder.finished_at,
        run_id=holder.id,
    )


def turn_of(key: str | None, holder: Run, between: int, now: Micros) -> Reason:
    """Return the reason of a run that waits for its ordering key. `holder` is the run that holds the key; `between` is
    the number of runs that get the key after the holder and before this run."""
    others = _before(between, "; {} before this one")
    return Reason(
        code=Code.TURN,
        text=f"The ordering key {key} is held by run {holder.id}, which {_stands(holder, now)}{others}.",
        unblocks=f"The end of run {holder.id}: runs get the key in the order of their fire times.",
        since=holder.started_at,
        run_id=holder.id,
    )


def concurrency_full(facts: DiagnosisSnapshot, permits: Permits) -> Reason:
    more = permits.taken - len(permits.holders)
    holders = listed([*permits.holders, *([f"{more} more"] if more > 0 else [])])
    return Reason(
        code=Code.CONCURRENCY,
        text=f"The concurrency key {permits.key} is full: {permits.taken} of {permits.limit} runs execute"
        f" ({holders}){_at_gate(facts)}.",
        unblocks="The end of one of these runs, or a higher limit.",
        run_id=permits.holders[0] if permits.holders else None,
    )


def tenant_quota(quota: TenantQuota) -> Reason:
    return Reason(
        code=Code.TENANT_QUOTA,
        text=f"The quota of running runs of the tenant is used up: {quota.running:,} of {quota.limit:,} execute.",
        unblocks="The end of one of these runs, or a higher quota.",
    )


def day_quota(quota: DayQuota, until: Micros, now: Micros) -> Reason:
    return Reason(
        code=Code.DAILY_QUOTA,
        text="The run was due on a day on which the tenant could begin no more runs; it may begin"
        f" {when(until, now)}. Today {quota.begun:,} of {quota.limit:,} have begun.",
        unblocks="The next day with room, in UTC. A higher quota holds for later fires.",
        until=until,
    )


def circuit_probed(host: str, probe: str) -> Reason:
    text = f"Calls to {host} failed repeatedly; run {probe} checks whether the host works again."
    return Reason(code=Code.CIRCUIT_PROBED, text=text, unblocks="The success of this check.", run_id=probe)


def circuit_open(host: str, failures: int, until: Micros, now: Micros) -> Reason:
    return Reason(
        code=Code.CIRCUIT_OPEN,
        text=f"The circuit breaker of {host} is open: {counted(failures, 'call')} in a row failed, so"
        f" no run calls it until {moment(until, now)}.",
        unblocks="Then one run checks whether the host works again. A task with breaker: false does not wait.",
        until=until,
    )


def rate_spent(facts: DiagnosisSnapshot, key: str, token_at: Micros) -> Reason:
    return Reason(
        code=Code.RATE_LIMIT,
        text=f"The rate limit of the key {key} is used up; next token: {when(token_at, facts.now)}{_at_gate(facts)}.",
        unblocks="Nothing has to be done. A higher limit shortens the wait.",
        until=token_at,
    )


def let_through(code: Code, name: str, before: int) -> Reason:
    """Return the reason of a run that waits at a gate which is open again: a loop of the servers (`gate_opener`) lets
    the run pass soon. `before` is the number of runs that pass the gate before it."""
    others = _before(before, "; {} before this one")
    return Reason(code=code, text=f"The gate {name} has room again: this run is about to become ready{others}.")


# --- runs that wait for a worker ----------------------------------------------------------------------------------


def room_made(made: Preemption) -> Reason:
    text = f"Run {made.run_id} is preempted for this run."
    return Reason(code=Code.ROOM_MADE, text=text, since=made.asked_at, run_id=made.run_id)


def reserved(worker: str) -> Reason:
    text = f"Worker {worker} is reserved for runs like this one and accepts no others until it has room."
    return Reason(code=Code.RESERVED, text=text, unblocks="The end of the runs that the worker still executes.")


def busy(facts: DiagnosisSnapshot, workers: int, slots: int, kept: int) -> Reason:
    """Return the reason of a run that waits because all workers that could execute it are busy. `workers` is the number
    of these workers, `slots` the number of their slots, and `kept` the number of workers among them that are reserved
    for other runs.
    """
    return Reason(
        code=Code.BUSY,
        text=f"{_everybody(facts, workers, slots)} busy{f'; {kept} reserved for other runs' if kept else ''}.",
        unblocks="The end of a run on these workers, or another worker.",
        since=facts.run.eligible_at,
    )


def _everybody(facts: DiagnosisSnapshot, workers: int, slots: int) -> str:
    if facts.spec.profile is None:
        return f"All {counted(slots, 'slot')} of {counted(workers, 'worker')} are"
    if workers == 1:
        return f"The only worker with {facts.spec.need} is too"
    return f"All {workers} workers with {facts.spec.need} are too"


def claimable(run: Run, worker: str) -> Reason:
    text = f"Worker {worker} has room: the run is about to be assigned."
    return Reason(code=Code.CLAIMABLE, text=text, since=run.eligible_at)


def behind(facts: DiagnosisSnapshot, settled: Micros) -> Reason:
    """Return the reason of a run that waits behind runs with a better rank. `settled` is the instant after which a run
    that becomes claimable does not overtake this run."""
    ahead = facts.ahead
    parts = [f"{ahead.higher:,} of a higher priority"] if ahead.higher else []
    parts += [f"{ahead.earlier:,} that waited longer"] if ahead.earlier else []
    if ahead.count > MAX_COUNTED:
        text = f"More than {MAX_COUNTED:,} runs are ahead of this one"
    else:
        verb = "is" if ahead.count == 1 else "are"
        text = f"{counted(ahead.count, 'run')} {verb} ahead of this one by priority: {listed(parts)}"
    if settled > facts.now:
        text += f"; no run that becomes due after {moment(settled, facts.now)} overtakes it"
    else:
        text += "; no new run overtakes it any more"
    unblocks = "More workers or slots, or a higher priority."
    return Reason(code=Code.AHEAD, text=f"{text}.", unblocks=unblocks, since=facts.run.eligible_at, until=settled)


# --- parts of sentences -------------------------------------------------------------------------------------------


def _at_gate(facts: DiagnosisSnapshot) -> str:
    return _before(facts.gate_before, "; {} before this one for the same reason")


def _before(count: int, words: str) -> str:
    """Return a text about the runs that wait before this one; empty if there are none."""
    if count <= 0:
        return ""
    return words.format(
        "1 run waits" if count == 1 else f"{'more than ' if count > MAX_COUNTED else ''}{count:,} runs wait"
    )


def _stands(run: Run, now: Micros) -> str:
    """Return the state of another run as the predicate of a sentence, such as "is running since ..."."""
    if run.cancel_requested_at is not None and run.token is not None:
        return f"was asked to stop {when(run.cancel_requested_at, now)}"
    match run.status:
        case Status.RUNNING:
            since = run.attempt_started_at if run.attempt_started_at is not None else run.claimed_at
            return f"is running on {run.worker}" + ("" if since is None else f" since {moment(since, now)}")
        case Status.RETRYING:
            later = run.eligible_at is not None and run.eligible_at > now
            return "waits for its retry" + (f" {when(run.eligible_at, now)}" if later and run.eligible_at else "")
        case Status.BLOCKED:
            return "is blocked itself"
        case Status.QUEUED:
            return "waits for a worker"
        case Status.SCHEDULED:
            return f"is due {when(run.due, now)}"
        case _:
            return f"is {run.status}"
