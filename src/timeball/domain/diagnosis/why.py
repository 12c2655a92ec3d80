"""Why: from the circumstances of a run or a job to the reasons, in the order in which they matter now.

A run that waits first needs its time to come, then that nothing holds it back, then a worker. What stands in its way
later is told too, where it will not go away by itself.
"""

from __future__ import annotations

from typing import assert_never

from timeball.domain import duration
from timeball.domain.diagnosis import why_ended, worker_match
from timeball.domain.diagnosis.reasons import Code, Reason
from timeball.domain.diagnosis.snapshot import MAX_COUNTED, DiagnosisSnapshot, Standing, WorkflowPosition
from timeball.domain.dispatch import preemption, priority
from timeball.domain.dispatch.overlap import REPLACING, Overlap
from timeball.domain.dispatch.placement import Need
from timeball.domain.dispatch.preemption import Preemption
from timeball.domain.instant import Micros
from timeball.domain.job.job import Job, JobState, OffloadedSpec
from timeball.domain.planning import upcoming_fires
from timeball.domain.planning.planning_failure import PlanningFailure
from timeball.domain.run import circuit_breaker, follow
from timeball.domain.run.lifecycle import LEASE, Hold
from timeball.domain.run.run import Run, Status
from timeball.domain.schedule.closed_times import OPEN, Closures
from timeball.domain.schedule.schedule import Follow, sentence
from timeball.domain.task import retry
from timeball.domain.task.task import Python, kind_of
from timeball.domain.text.english import about, counted, listed, moment, when


def of_run(facts: DiagnosisSnapshot) -> list[Reason]:
    """At least one."""
    if facts.run.is_terminal:
        return [*why_ended.reasons(facts), *_caused(facts.run)]
    if facts.run.token is not None:
        return [*_held(facts), *_caused(facts.run)]
    return [*_waiting(facts), *_caused(facts.run)]


def _caused(run: Run) -> list[Reason]:
    if run.cause is None:
        return []
    text = f"It came after run {run.cause}, which its job followed."
    return [Reason(code=Code.FOLLOWS, text=text, run_id=run.cause)]


def of_job(standing: Standing, closures: Closures = OPEN) -> list[Reason]:
    """What can be said of the job itself; at least one reason."""
    job, now = standing.job, standing.now
    match job.state:
        case JobState.PAUSED:
            because = f": {job.pause_reason}" if job.pause_reason else ""
            until = "" if job.paused_until is None else f" until {moment(job.paused_until, now)}"
            return [
                Reason(
                    code=Code.PAUSED,
                    text=f"The job is paused{until}{because}.",
                    unblocks=f"Resume it: timeball jobs resume {job.id}.",
                    until=job.paused_until,
                )
            ]
        case JobState.CANCELLED:
            text = "The job was cancelled: nothing fires any more."
            return [Reason(code=Code.CANCELLED, text=text, unblocks="Create a new one: a cancel is final.")]
        case JobState.ACTIVE:
            return [_next(standing, closures)]
        case _:
            assert_never(job.state)


def _next(standing: Standing, closures: Closures) -> Reason:
    job, now, following = standing.job, standing.now, standing.next_fire
    spec = job.spec
    if standing.planning_failure is not None:
        return _unplannable(standing.planning_failure, now)
    if following is None and spec.follows is not None and follow.is_awake(job):
        return _follows(standing, spec.follows)
    if following is None:
        return _nothing_left(standing)
    if following == job.next_fire_at and (job.owed is not None or closures.at(following) is not None):
        return _shut(job, following, now, closures)
    if following <= now:
        text = f"Its fire of {moment(following, now)} is about to become a run."
        return Reason(code=Code.PLANNING, text=text, since=following)
    if spec.starts is not None and spec.starts > now:
        text = f"Its schedule begins {when(spec.starts, now)}; it fires first {when(following, now)}."
        return Reason(code=Code.NOT_BEGUN, text=text, until=following, unblocks="An earlier startAt.")
    alive = f"; {standing.alive:,} runs of it are alive" if standing.alive > 1 else ""
    return Reason(code=Code.NOT_DUE, text=f"It fires next {when(following, now)}{alive}.", until=following)


def _unplannable(failure: PlanningFailure, now: Micros) -> Reason:
    return Reason(
        code=Code.UNPLANNABLE,
        text=f"It cannot be planned since {moment(failure.since, now)}: {failure.reason}.",
        unblocks=f"Mend the calendar, or a version of Timeball that can plan it; the next try is"
        f" {when(failure.retry_at, now)}, and begins with the first fire that was due.",
        since=failure.since,
        until=failure.retry_at,
    )


def _follows(standing: Standing, wanted: Follow) -> Reason:
    spec, now, followed = standing.job.spec, standing.now, standing.followed
    said = sentence(wanted, "" if followed is None else followed.name)
    if followed is not None and followed.state in (None, JobState.CANCELLED):
        fate = "is gone" if followed.state is None else "was cancelled"
        text = f"It fires {said}, which {fate}: nothing of that will end any more."
        return Reason(code=Code.FOLLOWS, text=text, unblocks="Another job to follow, or another schedule.")
    if spec.starts is not None and spec.starts > now:
        text = f"It fires {said}, from {moment(spec.starts, now)} on."
        return Reason(code=Code.NOT_BEGUN, text=text, until=spec.starts, unblocks="An earlier startAt.")
    paused = "; that one is paused" if followed is not None and followed.state is JobState.PAUSED else ""
    unblocks = f"The end of such a run. Run it now: timeball jobs run {standing.job.id}."
    return Reason(code=Code.FOLLOWS, text=f"It fires {said}{paused}.", unblocks=unblocks)


def _shut(job: Job, following: Micros, now: Micros, closures: Closures) -> Reason:
    """Of a job whose last or next fire is excluded."""
    closure = closures.at(now) or closures.at(following)
    opens = next(upcoming_fires.coming(job, now, closures), None)
    because = "A calendar excluded its last fire" if closure is None else f"Its fire is {closure.reason}"
    then = "; no open one is in sight" if opens is None else f"; it fires next {when(opens, now)}"
    if job.owed is not None and opens is not None:
        then += ", once for all that was excluded"
    unblocks = "Time, or another calendar. Run it now: timeball jobs run " + job.id + "."
    return Reason(code=Code.EXCLUDED, text=f"{because}{then}.", unblocks=unblocks, until=opens)


def _nothing_left(standing: Standing) -> Reason:
    job, now = standing.job, standing.now
    spec = job.spec
    if job.exhausted:
        text = f"Its schedule is over: it has fired {counted(job.fired, 'time')}, as often as maxRuns allows."
        return Reason(code=Code.EXHAUSTED, text=text, unblocks="A higher maxRuns, or none.")
    if spec.ends is not None:
        text = f"Its schedule is over: no fire is left before endAt, {moment(spec.ends, now)}."
        return Reason(code=Code.ENDED, text=text, unblocks="A later endAt, or none.")
    if standing.alive:
        return Reason(code=Code.COMPLETED, text="Nothing is left to fire after the run that it has.")
    text = "It is complete: it has fired, and nothing is left to fire."
    return Reason(code=Code.COMPLETED, text=text, unblocks=f"Run it once more: timeball jobs run {job.id}.")


# --- runs that a worker has ---------------------------------------------------------------------------------------


def _held(facts: DiagnosisSnapshot) -> list[Reason]:
    run, now = facts.run, facts.now
    reasons: list[Reason] = []
    if run.cancel_requested_at is not None:
        because = f" ({run.cancel_reason})" if run.cancel_reason else ""
        asked = when(run.cancel_requested_at, now)
        reasons.append(
            Reason(
                code=Code.CANCELLING,
                text=f"It was asked to stop {asked}{because}; its worker has to confirm it.",
                unblocks="The end of its processes; at the latest the end of its worker's lease.",
                since=run.cancel_requested_at,
            )
        )
    if facts.weaving is not None:
        return [*reasons, _weaving(facts, facts.weaving), *why_ended.late(facts)]
    if not facts.leased:
        text = f"Its worker {run.worker} fell silent; the run is about to be taken from it."
        reasons.append(Reason(code=Code.SILENT, text=text))
    elif (overdue := _overdue(facts)) is not None:
        reasons.append(overdue)
    if facts.makes_room is not None:
        reasons.append(_preempted(facts.makes_room, now))
    reasons.append(_progress(facts))
    return reasons + why_ended.late(facts)


def _overdue(facts: DiagnosisSnapshot) -> Reason | None:
    """Its worker is alive, and should have ended it by now."""
    run, spec, now = facts.run, facts.spec, facts.now
    if spec.timeout is None or run.attempt_started_at is None or facts.makes_room is not None:
        return None
    timeout, grace = duration.parse(spec.timeout), duration.parse(spec.grace)
    should_end = run.attempt_started_at + timeout + grace
    if now < should_end:
        return None
    until = should_end + LEASE
    return Reason(
        code=Code.SILENT,
        text=f"Its timeout and grace ended {when(should_end, now)}; its worker {run.worker} has not reported its end.",
        unblocks=f"The report of its worker; else the run is taken from it, at about {moment(until, now)}.",
        since=should_end,
        until=until,
    )


def _preempted(made: Preemption, now: Micros) -> Reason:
    if made.paused_at is None:
        text = f"It was asked {when(made.asked_at, now)} to make room for run {made.by_run}."
        return Reason(code=Code.PREEMPTED, text=text, since=made.asked_at, run_id=made.by_run)
    until = made.paused_at + preemption.LONGEST
    return Reason(
        code=Code.PREEMPTED,
        text=f"It stands still since {moment(made.paused_at, now)}, to make room for run {made.by_run}.",
        unblocks=f"The end of what runs in its place; {moment(until, now)} at the latest.",
        since=made.paused_at,
        until=until,
        run_id=made.by_run,
    )


def _weaving(facts: DiagnosisSnapshot, weaving: WorkflowPosition) -> Reason:
    """What a workflow run waits for."""
    done = f"{weaving.tasks - weaving.open:,} of {counted(weaving.tasks, 'task')} have ended"
    if not weaving.running:
        return Reason(code=Code.TASKS, text=f"It runs: {done}, and the next are about to begin.")
    names = [name if run is None else f"{name} (run {run})" for name, run in weaving.running]
    more = f" and up to {weaving.open - len(names):,} more" if weaving.open > len(names) else ""
    text = f"It waits for {'task' if len(names) == 1 else 'tasks'} {listed(names)}{more}: {done}."
    run_id = weaving.running[0][1]
    hint = "" if run_id is None else f"To see what a task waits for: timeball why {run_id}."
    return Reason(code=Code.TASKS, text=text, unblocks=hint, since=facts.run.started_at, run_id=run_id)


def _progress(facts: DiagnosisSnapshot) -> Reason:
    run, now = facts.run, facts.now
    if run.attempt_started_at is not None:
        text = f"It is running on {run.worker}, since {moment(run.attempt_started_at, now)}{_attempt(facts)}."
        return Reason(code=Code.RUNNING, text=text, since=run.attempt_started_at)
    if run.due > now:
        text = f"Worker {run.worker} has it already and starts it {when(run.due, now)}."
        return Reason(code=Code.CLAIMED, text=text, since=run.claimed_at, until=run.due)
    text = f"Worker {run.worker} has it{_attempt(facts)} and is about to say that it started."
    return Reason(code=Code.CLAIMED, text=text, since=run.claimed_at)


def _attempt(facts: DiagnosisSnapshot) -> str:
    most = facts.spec.retry.max_retries + 1 if facts.spec.delivery != "at_most_once" else 1
    return f" (attempt {facts.run.attempt} of {most})" if facts.run.attempt > 1 else ""


# --- runs that wait -----------------------------------------------------------------------------------------------


def _waiting(facts: DiagnosisSnapshot) -> list[Reason]:
    reasons = [*_too_early(facts), *_held_back(facts)]
    if not reasons:
        reasons = _closed_gates(facts)
    if facts.spec.is_workflow:
        text = "Its time has come, and its first tasks are about to begin."
        reasons = reasons or [Reason(code=Code.TASKS, text=text)]
        return [*reasons, *_deadline(facts)]
    kind = None if facts.task is None else kind_of(facts.task)
    lacking = worker_match.lacking(facts.spec.need, _function(facts), facts.crew, kind)
    if lacking is not None:
        reasons.append(lacking)
    elif not reasons:
        if (made := facts.room_made) is not None:
            text = f"Run {made.run_id} makes room for it."
            reasons.append(Reason(code=Code.ROOM_MADE, text=text, since=made.asked_at, run_id=made.run_id))
        reasons += _in_line(facts)
    return [*reasons, *_deadline(facts)]


def _deadline(facts: DiagnosisSnapshot) -> list[Reason]:
    run = facts.run
    if run.start_by is None or run.attempt:
        return []
    text = f"It is skipped unless it starts {when(run.start_by, facts.now)} at the latest: its startDeadline."
    return [Reason(code=Code.START_DEADLINE, text=text, until=run.start_by)]


def _too_early(facts: DiagnosisSnapshot) -> list[Reason]:
    run, now = facts.run, facts.now
    if run.attempt and run.eligible_at is not None and run.eligible_at > now:
        most = facts.spec.retry.max_retries + 1
        failed = "" if run.failure is None else f": {run.failure.message}"
        asked = 0 if run.failure is None else run.failure.retry_after or 0
        longest = retry.limit(facts.spec.retry)
        cut = f" The target asked to wait {about(asked)}; the cap is {about(longest)}." if asked > longest else ""
        due = when(run.eligible_at, now)
        return [
            Reason(
                code=Code.RETRY,
                text=f"Its retry is due {due}; attempt {run.attempt} of {most} failed{failed}.{cut}",
                unblocks=f"Time; or retry it now: timeball runs retry {run.id}.",
                until=run.eligible_at,
            )
        ]
    if run.fire_time > now:
        spread = f", {about(run.due - run.fire_time)} of jitter included" if run.due > run.fire_time else ""
        text = f"It is scheduled for later: it starts {when(run.due, now)}{spread}."
        return [Reason(code=Code.NOT_DUE, text=text, until=run.due)]
    if (
        run.eligible_at is not None
        and run.eligible_at > now
        and isinstance(facts.spec, OffloadedSpec)
        and run.due <= now
    ):
        text = (
            f"Its parameters could not be read from the object storage; it is tried again {when(run.eligible_at, now)}."
        )
        unblocks = "An object storage that answers: its server's log tells more."
        return [Reason(code=Code.PARAMETERS, text=text, until=run.eligible_at, unblocks=unblocks)]
    if run.due > now:
        text = f"Its jitter of {about(run.due - run.fire_time)} is not over: it starts {when(run.due, now)}."
        return [Reason(code=Code.JITTER, text=text, until=run.due, unblocks="Time; or a smaller jitter.")]
    return []


def _held_back(facts: DiagnosisSnapshot) -> list[Reason]:
    holds = facts.run.holds
    reasons = [_turn(facts)] if Hold.TURN in holds else []
    if Hold.OVERLAP in holds:
        # A run that gave up keeps everybody waiting until somebody comes: nothing is more important to know.
        needs_somebody = bool(reasons) and reasons[0].code is Code.TURN_BLOCKED
        reasons.insert(1 if needs_somebody else 0, _overlap(facts))
    if Hold.GATE in holds:
        gates = _closed_gates(facts)
        here = [reason for reason in gates if reason.code in _GATES[(facts.run.gate or "").partition(":")[0]]]
        reasons += here or [_let_through(facts)]
        reasons += [reason for reason in gates if reason not in here]
    return reasons


def _overlap(facts: DiagnosisSnapshot) -> Reason:
    run, rival, now, policy = facts.run, facts.rival, facts.now, facts.spec.overlap
    if rival is None:
        return Reason(code=Code.OVERLAP, text="The run before it has just ended: it is about to be let go.")
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


def _turn(facts: DiagnosisSnapshot) -> Reason:
    key, now = facts.run.ordering_key, facts.now
    holder = facts.turn.holder if facts.turn is not None else None
    if holder is None:
        return Reason(code=Code.TURN, text=f"Its turn under the ordering key {key} is about to come.")
    if holder.is_terminal:
        error = "" if holder.failure is None else f": {holder.failure.message}"
        return Reason(
            code=Code.TURN_BLOCKED,
            text=f"Run {holder.id} gave up and keeps the turn under the ordering key {key} ({holder.status}{error}).",
            unblocks=f"Retry it (timeball runs retry {holder.id}), discard it (timeball dead discard {holder.id}), or"
            " let others go on with onFailure: continue.",
            since=holder.finished_at,
            run_id=holder.id,
        )
    others = _before(facts.turn.before - 1 if facts.turn is not None else 0, "; then {} before it")
    return Reason(
        code=Code.TURN,
        text=f"Under the ordering key {key} it is the turn of run {holder.id}, which {_stands(holder, now)}{others}.",
        unblocks=f"The end of run {holder.id}: it goes on in the order of the fire times.",
        since=holder.started_at,
        run_id=holder.id,
    )


def _closed_gates(facts: DiagnosisSnapshot) -> list[Reason]:
    """The limits that would not let it go at this moment."""
    now = facts.now
    others = _before(facts.gate_before, "; before it {} for the same")
    reasons: list[Reason] = []
    if (permits := facts.permits) is not None and permits.taken >= permits.limit:
        more = permits.taken - len(permits.holders)
        holders = listed([*permits.holders, *([f"{more} more"] if more > 0 else [])])
        reasons.append(
            Reason(
                code=Code.CONCURRENCY,
                text=f"The concurrency key {permits.key} is full: {permits.taken} of {permits.limit} run"
                f" ({holders}){others}.",
                unblocks="The end of one of them, or a higher limit.",
                run_id=permits.holders[0] if permits.holders else None,
            )
        )
    if (target := facts.target) is not None and (found := target.circuit).open_until is not None:
        if found.probe not in (None, facts.run.id):
            text = f"Calls to {target.host} kept failing; run {found.probe} tries whether it is well again."
            probed = Reason(code=Code.CIRCUIT_PROBED, text=text, unblocks="Its success.", run_id=found.probe)
            reasons.append(probed)
        elif not circuit_breaker.lets_through(found, now):
            reasons.append(
                Reason(
                    code=Code.CIRCUIT_OPEN,
                    text=f"The circuit of {target.host} is open: {counted(found.failures, 'call')} in a row failed, so"
                    f" nobody calls it until {moment(found.open_until, now)}.",
                    unblocks="Then one run tries whether it is well again. A task with breaker: false does not wait.",
                    until=found.open_until,
                )
            )
    if (tokens := facts.tokens) is not None and tokens.bucket.token_at > now:
        reasons.append(
            Reason(
                code=Code.RATE_LIMIT,
                text=f"The rate limit of the key {tokens.key} is spent; the next token comes"
                f" {when(tokens.bucket.token_at, now)}{others}.",
                unblocks="Time, or a higher limit.",
                until=tokens.bucket.token_at,
            )
        )
    return reasons


_GATES = {
    "limit": (Code.CONCURRENCY,),
    "rate": (Code.RATE_LIMIT,),
    "host": (Code.CIRCUIT_OPEN, Code.CIRCUIT_PROBED),
    "": (),
}
"""The reasons that a gate may have, by its kind."""


def _let_through(facts: DiagnosisSnapshot) -> Reason:
    kind, _, name = (facts.run.gate or "").partition(":")
    codes = _GATES[kind]
    others = _before(facts.gate_before, "; before it {}")
    text = f"It waits for {name}, which has room again: it is about to be let through{others}."
    return Reason(code=codes[0] if codes else Code.CLAIMABLE, text=text)


def _in_line(facts: DiagnosisSnapshot) -> list[Reason]:
    """Nothing but its place in the queue keeps it from the workers that could run it."""
    run, need = facts.run, _need(facts)
    able = worker_match.able(need, facts.crew)
    reasons: list[Reason] = []
    for hand in facts.crew:
        if hand.left.reserved_for is not None and hand.left.reserved_for == run.profile:
            text = f"Worker {hand.name} is kept free for runs like it and takes nothing else until it has room."
            reasons.append(Reason(code=Code.RESERVED, text=text, unblocks="The end of the runs that it still has."))
    open_to_it = [hand for hand in able if hand.left.reserved_for in (None, run.profile)]
    free = [hand for hand in open_to_it if hand.left.fits(need)]
    slots = sum(hand.left.slots for hand in free)
    if facts.ahead.count >= max(slots, 1):
        reasons.append(_behind(facts))
    if not free:
        kept = len(able) - len(open_to_it)
        reasons.append(
            Reason(
                code=Code.BUSY,
                text=f"{_everybody(facts, len(able))} busy{f'; {kept} kept free for others' if kept else ''}.",
                unblocks="The end of a run there, or another worker.",
                since=run.eligible_at,
            )
        )
    if not reasons:
        text = f"Worker {free[0].name} has room for it: it is about to be handed out."
        reasons.append(Reason(code=Code.CLAIMABLE, text=text, since=run.eligible_at))
    return reasons


def _everybody(facts: DiagnosisSnapshot, able: int) -> str:
    if facts.spec.profile is None:
        slots = sum(hand.idle.slots for hand in worker_match.able(_need(facts), facts.crew))
        return f"All {counted(slots, 'slot')} of {counted(able, 'worker')} are"
    if able == 1:
        return f"The only worker with {facts.spec.need} is too"
    return f"All {able} workers with {facts.spec.need} are too"


def _behind(facts: DiagnosisSnapshot) -> Reason:
    run, ahead = facts.run, facts.ahead
    parts = [f"{ahead.higher:,} of a higher priority"] if ahead.higher else []
    parts += [f"{ahead.earlier:,} that waited longer"] if ahead.earlier else []
    if ahead.count > MAX_COUNTED:
        text = f"More than {MAX_COUNTED:,} runs are ahead of it"
    else:
        verb = "is" if ahead.count == 1 else "are"
        text = f"{counted(ahead.count, 'run')} {verb} ahead of it by priority: {listed(parts)}"
    settled = (run.eligible_at or run.due) + priority.bound(facts.priority, facts.credit)
    if settled > facts.now:
        text += f"; nothing that comes later than {moment(settled, facts.now)} overtakes it"
    else:
        text += "; nothing that comes later overtakes it any more"
    unblocks = "More workers or slots, or a higher priority."
    return Reason(code=Code.AHEAD, text=f"{text}.", unblocks=unblocks, since=run.eligible_at, until=settled)


def _need(facts: DiagnosisSnapshot) -> Need:
    """What it asks for, its kind included."""
    return facts.spec.need.of_kind(None if facts.task is None else kind_of(facts.task))


def _function(facts: DiagnosisSnapshot) -> str | None:
    return facts.task.function if isinstance(facts.task, Python) else None


# --- words --------------------------------------------------------------------------------------------------------


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
