"""Reasons of a live run in words: one function for each sentence. `why` decides which of them apply."""

from __future__ import annotations

from typing import assert_never

from timeball.domain.diagnosis.reasons import Code, Reason
from timeball.domain.diagnosis.snapshot import MAX_COUNTED, DiagnosisSnapshot, Permits, WorkflowPosition
from timeball.domain.dispatch.overlap import REPLACING, Overlap
from timeball.domain.dispatch.preemption import Preemption
from timeball.domain.instant import Micros
from timeball.domain.run.run import Run
from timeball.domain.run.status import Status
from timeball.domain.text.english import about, counted, listed, moment, when


def caused(cause: str) -> Reason:
    text = f"It came after run {cause}, which its job followed."
    return Reason(code=Code.FOLLOWS, text=text, run_id=cause)


# --- runs that a worker has ---------------------------------------------------------------------------------------


def cancelling(run: Run, asked_at: Micros, now: Micros) -> Reason:
    because = f" ({run.cancel_reason})" if run.cancel_reason else ""
    return Reason(
        code=Code.CANCELLING,
        text=f"It was asked to stop {when(asked_at, now)}{because}; its worker has to confirm it.",
        unblocks="The end of its processes; at the latest the end of its worker's lease.",
        since=asked_at,
    )


def silent(run: Run) -> Reason:
    text = f"Its worker {run.worker} fell silent; the run is about to be taken from it."
    return Reason(code=Code.SILENT, text=text)


def overdue(run: Run, should_end: Micros, until: Micros, now: Micros) -> Reason:
    """`until`: when the run is taken from its worker."""
    return Reason(
        code=Code.SILENT,
        text=f"Its timeout and grace ended {when(should_end, now)}; its worker {run.worker} has not reported its end.",
        unblocks=f"The report of its worker; else the run is taken from it, at about {moment(until, now)}.",
        since=should_end,
        until=until,
    )


def asked_for_room(made: Preemption, now: Micros) -> Reason:
    text = f"It was asked {when(made.asked_at, now)} to make room for run {made.by_run}."
    return Reason(code=Code.PREEMPTED, text=text, since=made.asked_at, run_id=made.by_run)


def suspended(made: Preemption, paused_at: Micros, until: Micros, now: Micros) -> Reason:
    return Reason(
        code=Code.PREEMPTED,
        text=f"It stands still since {moment(paused_at, now)}, to make room for run {made.by_run}.",
        unblocks=f"The end of what runs in its place; {moment(until, now)} at the latest.",
        since=paused_at,
        until=until,
        run_id=made.by_run,
    )


def waits_for_tasks(run: Run, position: WorkflowPosition) -> Reason:
    """What a workflow run waits for."""
    done = f"{position.tasks - position.open:,} of {counted(position.tasks, 'task')} have ended"
    if not position.running:
        return Reason(code=Code.TASKS, text=f"It runs: {done}, and the next are about to begin.")
    names = [name if run_id is None else f"{name} (run {run_id})" for name, run_id in position.running]
    more = f" and up to {position.open - len(names):,} more" if position.open > len(names) else ""
    text = f"It waits for {'task' if len(names) == 1 else 'tasks'} {listed(names)}{more}: {done}."
    first = position.running[0][1]
    hint = "" if first is None else f"To see what a task waits for: timeball why {first}."
    return Reason(code=Code.TASKS, text=text, unblocks=hint, since=run.started_at, run_id=first)


def running(facts: DiagnosisSnapshot, since: Micros) -> Reason:
    text = f"It is running on {facts.run.worker}, since {moment(since, facts.now)}{_attempt(facts)}."
    return Reason(code=Code.RUNNING, text=text, since=since)


def claimed_ahead(run: Run, now: Micros) -> Reason:
    text = f"Worker {run.worker} has it already and starts it {when(run.due, now)}."
    return Reason(code=Code.CLAIMED, text=text, since=run.claimed_at, until=run.due)


def claimed(facts: DiagnosisSnapshot) -> Reason:
    text = f"Worker {facts.run.worker} has it{_attempt(facts)} and is about to say that it started."
    return Reason(code=Code.CLAIMED, text=text, since=facts.run.claimed_at)


def _attempt(facts: DiagnosisSnapshot) -> str:
    most = facts.spec.retry.max_retries + 1 if facts.spec.delivery != "at_most_once" else 1
    return f" (attempt {facts.run.attempt} of {most})" if facts.run.attempt > 1 else ""


# --- runs whose time has not come ---------------------------------------------------------------------------------


def retry_later(facts: DiagnosisSnapshot, due: Micros, longest: Micros) -> Reason:
    """`longest`: the wait that its retry policy allows at most."""
    run = facts.run
    most = facts.spec.retry.max_retries + 1
    failed = "" if run.failure is None else f": {run.failure.message}"
    asked = 0 if run.failure is None else run.failure.retry_after or 0
    cut = f" The target asked to wait {about(asked)}; the cap is {about(longest)}." if asked > longest else ""
    return Reason(
        code=Code.RETRY,
        text=f"Its retry is due {when(due, facts.now)}; attempt {run.attempt} of {most} failed{failed}.{cut}",
        unblocks=f"Time; or retry it now: timeball runs retry {run.id}.",
        until=due,
    )


def not_due(run: Run, now: Micros) -> Reason:
    spread = f", {about(run.due - run.fire_time)} of jitter included" if run.due > run.fire_time else ""
    text = f"It is scheduled for later: it starts {when(run.due, now)}{spread}."
    return Reason(code=Code.NOT_DUE, text=text, until=run.due)


def parameters_unreadable(retry_at: Micros, now: Micros) -> Reason:
    text = f"Its parameters could not be read from the object storage; it is tried again {when(retry_at, now)}."
    unblocks = "An object storage that answers: its server's log tells more."
    return Reason(code=Code.PARAMETERS, text=text, until=retry_at, unblocks=unblocks)


def jitter(run: Run, now: Micros) -> Reason:
    text = f"Its jitter of {about(run.due - run.fire_time)} is not over: it starts {when(run.due, now)}."
    return Reason(code=Code.JITTER, text=text, until=run.due, unblocks="Time; or a smaller jitter.")


def start_deadline(start_by: Micros, now: Micros) -> Reason:
    text = f"It is skipped unless it starts {when(start_by, now)} at the latest: its startDeadline."
    return Reason(code=Code.START_DEADLINE, text=text, until=start_by)


def first_tasks() -> Reason:
    return Reason(code=Code.TASKS, text="Its time has come, and its first tasks are about to begin.")


# --- runs that others hold back -----------------------------------------------------------------------------------


def overlap_over() -> Reason:
    return Reason(code=Code.OVERLAP, text="The run before it has just ended: it is about to be let go.")


def overlap(facts: DiagnosisSnapshot, rival: Run) -> Reason:
    run, now, policy = facts.run, facts.now, facts.spec.overlap
    end = f"The end of run {rival.id}: timeball runs cancel {rival.id}; or overlap: allow."
    if run.due > now:
        text = f"Run {rival.id} of its job {_stands(rival, now)}; if it still is alive then, {_then(policy)}."
    elif policy in REPLACING:
        text = f"It takes the place of run {rival.id} of its job, which {_stands(rival, now)}."
    else:
        others = _before(facts.waiting_before, "; before it {} for the same")
        text = f"Run {rival.id} of its job {_stands(rival, now)}, and they must not overlap ({policy}){others}."
    return Reason(code=Code.OVERLAP, text=text, unblocks=end, since=rival.started_at, run_id=rival.id)


def _then(policy: Overlap) -> str:
    match policy:
        case Overlap.SKIP:
            return "this one is skipped"
        case Overlap.CANCEL_PREVIOUS | Overlap.TERMINATE_PREVIOUS:
            return "it is stopped for this one"
        case Overlap.QUEUE | Overlap.QUEUE_ONE | Overlap.ALLOW:
            return "this one waits for its end"
        case _:
            assert_never(policy)


def turn_comes(key: str | None) -> Reason:
    return Reason(code=Code.TURN, text=f"Its turn under the ordering key {key} is about to come.")


def turn_blocked(key: str | None, holder: Run) -> Reason:
    error = "" if holder.failure is None else f": {holder.failure.message}"
    return Reason(
        code=Code.TURN_BLOCKED,
        text=f"Run {holder.id} gave up and keeps the turn under the ordering key {key} ({holder.status}{error}).",
        unblocks=f"Retry it (timeball runs retry {holder.id}), discard it (timeball dead discard {holder.id}), or"
        " let others go on with onFailure: continue.",
        since=holder.finished_at,
        run_id=holder.id,
    )


def turn_of(key: str | None, holder: Run, between: int, now: Micros) -> Reason:
    """`between`: the runs that come after the holder and before it."""
    others = _before(between, "; then {} before it")
    return Reason(
        code=Code.TURN,
        text=f"Under the ordering key {key} it is the turn of run {holder.id}, which {_stands(holder, now)}{others}.",
        unblocks=f"The end of run {holder.id}: it goes on in the order of the fire times.",
        since=holder.started_at,
        run_id=holder.id,
    )


def concurrency_full(facts: DiagnosisSnapshot, permits: Permits) -> Reason:
    more = permits.taken - len(permits.holders)
    holders = listed([*permits.holders, *([f"{more} more"] if more > 0 else [])])
    return Reason(
        code=Code.CONCURRENCY,
        text=f"The concurrency key {permits.key} is full: {permits.taken} of {permits.limit} run"
        f" ({holders}){_at_gate(facts)}.",
        unblocks="The end of one of them, or a higher limit.",
        run_id=permits.holders[0] if permits.holders else None,
    )


def circuit_probed(host: str, probe: str) -> Reason:
    text = f"Calls to {host} kept failing; run {probe} tries whether it is well again."
    return Reason(code=Code.CIRCUIT_PROBED, text=text, unblocks="Its success.", run_id=probe)


def circuit_open(host: str, failures: int, until: Micros, now: Micros) -> Reason:
    return Reason(
        code=Code.CIRCUIT_OPEN,
        text=f"The circuit of {host} is open: {counted(failures, 'call')} in a row failed, so"
        f" nobody calls it until {moment(until, now)}.",
        unblocks="Then one run tries whether it is well again. A task with breaker: false does not wait.",
        until=until,
    )


def rate_spent(facts: DiagnosisSnapshot, key: str, token_at: Micros) -> Reason:
    return Reason(
        code=Code.RATE_LIMIT,
        text=f"The rate limit of the key {key} is spent; the next token comes"
        f" {when(token_at, facts.now)}{_at_gate(facts)}.",
        unblocks="Time, or a higher limit.",
        until=token_at,
    )


def let_through(code: Code, name: str, before: int) -> Reason:
    """Of a run at a gate that is open again."""
    others = _before(before, "; before it {}")
    return Reason(code=code, text=f"It waits for {name}, which has room again: it is about to be let through{others}.")


# --- runs that wait for a worker ----------------------------------------------------------------------------------


def room_made(made: Preemption) -> Reason:
    text = f"Run {made.run_id} makes room for it."
    return Reason(code=Code.ROOM_MADE, text=text, since=made.asked_at, run_id=made.run_id)


def reserved(worker: str) -> Reason:
    text = f"Worker {worker} is kept free for runs like it and takes nothing else until it has room."
    return Reason(code=Code.RESERVED, text=text, unblocks="The end of the runs that it still has.")


def busy(facts: DiagnosisSnapshot, workers: int, slots: int, kept: int) -> Reason:
    """`workers` could run it, with so many `slots` in all; `kept` of them are kept free for others."""
    return Reason(
        code=Code.BUSY,
        text=f"{_everybody(facts, workers, slots)} busy{f'; {kept} kept free for others' if kept else ''}.",
        unblocks="The end of a run there, or another worker.",
        since=facts.run.eligible_at,
    )


def _everybody(facts: DiagnosisSnapshot, workers: int, slots: int) -> str:
    if facts.spec.profile is None:
        return f"All {counted(slots, 'slot')} of {counted(workers, 'worker')} are"
    if workers == 1:
        return f"The only worker with {facts.spec.need} is too"
    return f"All {workers} workers with {facts.spec.need} are too"


def claimable(run: Run, worker: str) -> Reason:
    text = f"Worker {worker} has room for it: it is about to be handed out."
    return Reason(code=Code.CLAIMABLE, text=text, since=run.eligible_at)


def behind(facts: DiagnosisSnapshot, settled: Micros) -> Reason:
    """`settled`: what is eligible later than this does not overtake it."""
    ahead = facts.ahead
    parts = [f"{ahead.higher:,} of a higher priority"] if ahead.higher else []
    parts += [f"{ahead.earlier:,} that waited longer"] if ahead.earlier else []
    if ahead.count > MAX_COUNTED:
        text = f"More than {MAX_COUNTED:,} runs are ahead of it"
    else:
        verb = "is" if ahead.count == 1 else "are"
        text = f"{counted(ahead.count, 'run')} {verb} ahead of it by priority: {listed(parts)}"
    if settled > facts.now:
        text += f"; nothing that comes later than {moment(settled, facts.now)} overtakes it"
    else:
        text += "; nothing that comes later overtakes it any more"
    unblocks = "More workers or slots, or a higher priority."
    return Reason(code=Code.AHEAD, text=f"{text}.", unblocks=unblocks, since=facts.run.eligible_at, until=settled)


# --- others -------------------------------------------------------------------------------------------------------


def _at_gate(facts: DiagnosisSnapshot) -> str:
    return _before(facts.gate_before, "; before it {} for the same")


def _before(count: int, words: str) -> str:
    """Others in the same line, if there are any."""
    if count <= 0:
        return ""
    return words.format("1 waits" if count == 1 else f"{'more than ' if count > MAX_COUNTED else ''}{count:,} wait")


def _stands(run: Run, now: Micros) -> str:
    """What another run is doing."""
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
