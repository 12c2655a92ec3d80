"""The promises, checked at the end from the records of jobs, clients and the auditor, and from the content of the
store.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import json

from tests.simulation import (
    backfills,
    calendars,
    clocks,
    drains,
    follows,
    oracle,
    preemption,
    sharing,
    tenants,
    usage,
    workflows,
)
from tests.simulation.records import JobRecord, Micros, Request, Violation, Witness
from tests.simulation.weather import MS, S
from timeball.domain.dispatch.overlap import Overlap
from timeball.domain.errors import IdempotencyMismatch
from timeball.domain.job.job import Job
from timeball.domain.run.ledger import Origin, Verdict
from timeball.domain.run.lifecycle import INTERRUPTED
from timeball.domain.run.run import Run
from timeball.domain.run.status import Status
from timeball.domain.task.task import Http
from timeball.ports.store.queries import RunFilter

if TYPE_CHECKING:
    from tests.simulation.world import World

LAG: Micros = 35 * MS
"""Maximum time by which a server's estimate of the store's time may be late."""
TOLERANCE: Micros = 2 * S
DEADLINE = "eadline"
"""Part of the reason of a run that was skipped because of its start deadline."""
NOT_THERE = "not running at the time"
"""Part of the reason of fires that were missed because no server planned them in time."""
WINDOWS = {"10s": 10 * S, "1m": 60 * S, "5m": 300 * S, "1h": 3600 * S}


class Case:
    """Everything that is known about one job."""

    def __init__(self, record: JobRecord, job: Job, rows: list[Run], runs: list[Run], witnesses: list[Witness]) -> None:
        self.record = record
        self.job = job
        self.rows = rows
        """The ledger of the job, oldest first."""
        self.runs = {run.id: run for run in runs}
        self.witnesses = witnesses
        self.by_run: dict[str, list[Witness]] = defaultdict(list)
        for witness in witnesses:
            self.by_run[witness.run_id].append(witness)

    @property
    def serial(self) -> bool:
        return self.record.spec.overlap is not Overlap.ALLOW

    @property
    def at_most_once(self) -> bool:
        return self.record.spec.delivery == "at_most_once"

    @property
    def ruled(self) -> bool:
        """True if runs of the job may have to wait for something other than a slot."""
        spec = self.record.spec
        return spec.ordering_key is not None or spec.gated or spec.profile is not None or isinstance(spec.task, Http)

    def __str__(self) -> str:
        return f"job {self.record.uid} ({self.job.id})"


class Checker:
    def __init__(self, world: World) -> None:
        self.world = world
        self.auditor = world.auditor
        self.records = world.clients.jobs
        self.jobs: dict[int, list[Job]] = defaultdict(list)
        for status in world.jobs():
            self.jobs[status.job.spec.parameters["uid"]].append(status.job)
        self.cases: list[Case] = []
        self.backfilled: list[Case] = []
        """The same jobs with the runs of backfills, which are neither in the ledger nor under the overlap policy."""
        for case in self._cases():
            runs = [run for run in case.runs.values() if backfills.is_backfilled(run)]
            if runs:
                told = {run.id for run in runs}
                apart = [witness for witness in case.witnesses if witness.run_id in told]
                self.backfilled.append(Case(case.record, case.job, [], runs, apart))
                others = [run for run in case.runs.values() if run.id not in told]
                rest = [witness for witness in case.witnesses if witness.run_id not in told]
                case = Case(case.record, case.job, case.rows, others, rest)
            self.cases.append(case)
        self.everything = [*self.cases, *self.backfilled]

    def _cases(self) -> Iterator[Case]:
        witnesses: dict[str, list[Witness]] = defaultdict(list)
        for witness in self.world.witnesses:
            witnesses[witness.job_id].append(witness)
        for record in self.records:
            for job in self.jobs.get(record.uid, [])[:1]:
                yield Case(record, job, self._ledger(job), self._runs(job), witnesses[job.id])

    def _ledger(self, job: Job) -> list[Run]:
        rows: list[Run] = []
        cursor = None
        while True:
            page = self.world.read("ledger", job.id, 0, self.world.now + 1, cursor, 1000)
            rows += page.items
            cursor = page.next_cursor
            if cursor is None:
                return rows

    def _runs(self, job: Job) -> list[Run]:
        runs: list[Run] = []
        cursor = None
        while True:
            page = self.world.read("list_runs", RunFilter(tenant=job.tenant, job_id=job.id), cursor, 1000)
            whole = self.world.read("runs", [run.id for run in page.items])  # lists do not contain results
            runs += [whole.get(run.id, run) for run in page.items]
            cursor = page.next_cursor
            if cursor is None:
                return runs

    def undisturbed(self, since: Micros, until: Micros) -> bool:
        """Return True if no fault occurred between two instants or shortly before."""
        world = self.world
        if world.healthy_from is not None and since >= world.healthy_from:
            return not any(begin < until and end + 20 * S > since for begin, end in world.damage.spells)
        return (
            world.storm.fair
            and world.chaos is None
            and not any(begin < until and end + 20 * S > since for begin, end in world.damage.spells)
        )

    def raw_instants(self, case: Case) -> set[Micros]:
        """Return the fires of the schedule of a job, without regard to calendars."""
        return oracle.due(case.record, case.job.created_at, case.job.next_fire_at, self.world.now).allowed

    def check(self) -> None:
        own = (*workflows.PROMISES, *backfills.PROMISES, *preemption.PROMISES, *calendars.PROMISES, *follows.PROMISES)
        for promise in (
            *PROMISES,
            *sharing.PROMISES,
            *tenants.PROMISES,
            *usage.PROMISES,
            *own,
            *drains.PROMISES,
            *clocks.PROMISES,
        ):
            promise(self)


def _durable(checker: Checker) -> None:
    """I1: a job that was acknowledged exists."""
    for record in checker.records:
        acknowledged = [request for request in record.submissions if request.outcome == "ok"]
        known = {job.id for job in checker.jobs.get(record.uid, [])}
        for request in acknowledged:
            if request.answer.job_id not in known:
                raise Violation("I1", f"job {record.uid} was acknowledged as {request.answer.job_id} and is gone")
        if not any(request.possible for request in record.submissions) and known:
            raise Violation("I14", f"job {record.uid} exists, but no request for it ever arrived: {known}")


def _covered_once(checker: Checker) -> None:
    """I2, I5, I23: each due fire has exactly one ledger row, nothing else has one, and the sums add up."""
    world = checker.world
    for case in checker.cases:
        if follows.follows(case) is not None:
            continue  # the fires of a job that follows another are the ends of runs, which `follows` checks
        due = oracle.due(case.record, case.job.created_at, case.job.next_fire_at, world.now)
        covered: Counter[Micros] = Counter()
        cancelled = {row.fire_time for row in case.rows if row.fires == 1 and _cancelled_ahead(row)}
        due.allowed |= cancelled
        due.allowed |= calendars.openings(case, checker, due.allowed)
        for row in case.rows:
            if row.fires == 1:
                covered[row.fire_time] += 1
                continue
            inside = [at for at in due.allowed - cancelled if row.fire_time <= at <= row.fire_until]
            more = row.fires - len(inside)
            if not 0 <= more <= calendars.most_openings(case, checker, row) and row.fire_until < due.fuzzy_from:
                raise Violation("I2", f"{case}: a row counts {row.fires} instants where {len(inside)} are due: {row}")
            covered.update(set(inside) | {row.fire_time, row.fire_until})
        for instant, times in covered.items():
            if times > 1:
                raise Violation("I5", f"{case}: instant {instant} is covered {times} times")
            if instant not in due.allowed and instant < due.fuzzy_from:
                raise Violation("I2", f"{case}: instant {instant} is covered, but was never due")
        if case.job.exhausted:
            last = max(covered, default=0)
            due.required = {instant for instant in due.required if instant <= last}
        missing = sorted(
            i for i in due.required - covered.keys() if i < due.fuzzy_from and _must_be_there(checker, case, i)
        )
        if missing:
            raise Violation("I2", f"{case}: {len(missing)} due instants are covered by nothing, first {missing[:3]}")
        sums = world.read("ledger_sums", case.job.id, 0, world.now + 1)
        rows = sum(row.fires for row in case.rows)
        if sums.due != rows or sum(sums.counts.values()) != rows:
            raise Violation("I23", f"{case}: the sums say {sums}, the rows {rows}")
        waiting = sum(not run.is_terminal and world.is_blocked(run) for run in case.runs.values())
        if world.bounded and sums.counts.get(Verdict.OPEN, 0) > waiting:
            raise Violation("I26", f"{case}: {sums.counts} after all faults stopped")


def _cancelled_ahead(row: Run) -> bool:
    """Return True if a user cancelled this fire before it was due."""
    return row.verdict is Verdict.CANCELLED and row.finished_at is not None and row.finished_at < row.fire_time


def _counted(checker: Checker) -> None:
    """I23: the job counts its fires correctly, and there are no more of them than `maxRuns` allows."""
    for case in checker.cases:
        unasked = (NOT_THERE, calendars.EXCLUDED)
        fires = [run for run in case.runs.values() if run.is_due_instant and not run.reason.startswith(unasked)]
        count = sum(run.fires for run in fires if run.verdict is not Verdict.MISSED)
        if count != case.job.fired:
            raise Violation("I23", f"{case}: it says that it fired {case.job.fired} times, but {count} fires exist")
        limit = case.record.spec.max_runs
        if limit is not None and count > limit:
            raise Violation("I23", f"{case}: it fired {count} times, allowed are {limit}")


def _must_be_there(checker: Checker, case: Case, instant: Micros) -> bool:
    """Return True if a fire must be in the ledger. While faults occur the planner may be late; a fire that it has not
    reached yet is not lost.
    """
    behind = case.job.next_fire_at
    if checker.world.bounded:
        return instant <= checker.world.now - TOLERANCE or behind is None or instant < behind
    return behind is None or instant < behind


def _never_early(checker: Checker) -> None:
    """I3: no attempt starts before its fire time."""
    for witness in checker.world.witnesses:
        if witness.start < witness.fire_time:
            raise Violation("I3", f"{witness} started {witness.fire_time - witness.start} µs early")


def _punctual(checker: Checker) -> None:
    """I4: a run starts within 2 s of its time if a slot was free and no fault occurred."""
    world = checker.world
    if world.wandering:
        return  # a report cannot change a poll that is pending at another server: a start may be late
    if any(record.spec.profile is not None for record in checker.records):
        return  # a worker may be reserved for a run that needs all of it
    if world.theme == tenants.THEME:
        return  # a run may wait for room in the quota of its tenant
    capacity = {tenant: _slots_for(checker, tenant) for tenant in world.tenants.names}
    for case in checker.cases:
        slots, busy = capacity[case.record.tenant]
        for run in case.runs.values():
            started = min((w.start for w in case.by_run.get(run.id, [])), default=None)
            if run.origin is not Origin.SCHEDULE or run.fires != 1 or run.status is Status.CANCELLED:
                continue
            if case.ruled:
                continue
            due = max(due_at(run), run.created_at)
            if due + TOLERANCE > world.now or (started is not None and started <= due + TOLERANCE):
                continue
            if not checker.undisturbed(due - 20 * S, due + TOLERANCE) or run.status is Status.SKIPPED:
                continue
            if case.serial and _blocked(checker, case, run, due):
                continue
            if _most_busy(busy, due - S // 2, due + TOLERANCE) >= slots:
                continue
            raise Violation("I4", f"{case}: run {run.id} was due at {due} and started {started}; slots were free")


def _slots_for(checker: Checker, tenant: str) -> tuple[int, list[tuple[Micros, int]]]:
    """Return the number of slots for runs of a tenant, and when the number of those in use changed."""
    world = checker.world
    houses = {house.name: house for house in world.workers if house.offer.serves(tenant)}
    there = [witness for witness in world.witnesses if world.homes[witness.worker].name in houses]
    busy = sorted([(w.start, 1) for w in there] + [(w.end, -1) for w in there if w.end is not None])
    return sum(house.offer.slots for house in houses.values() if not house.offer.dedicated), busy


def _most_busy(busy: list[tuple[Micros, int]], since: Micros, until: Micros) -> int:
    limit = level = 0
    for at, change in busy:
        if at > until:
            break
        if at > since:
            limit = max(limit, level)
        level += change
    return max(limit, level)


def _blocked(checker: Checker, case: Case, run: Run, due: Micros) -> bool:
    for other in case.runs.values():
        if other.id != run.id and other.created_at <= due + TOLERANCE:
            ended = checker.auditor.ended.get(other.id)
            if other.fires == 1 and other.status is not Status.SKIPPED and (ended is None or ended[0] >= due):
                return True
    return False


def _one_completion(checker: Checker) -> None:
    """I6: the end of a run is that of its one effective attempt, and the one that the auditor saw."""
    for case in checker.everything:
        for run in case.runs.values():
            seen = checker.auditor.ended.get(run.id)
            if seen is not None and seen[1] is not run.status:
                raise Violation("I13", f"{case}: run {run.id} ended {seen[1]} and is {run.status} now")
            if run.status is not Status.SUCCEEDED:
                continue
            token = checker.auditor.accepted.get(run.id)
            if not any(w.token == token and w.how == "succeeded" for w in case.by_run.get(run.id, [])):
                raise Violation("I6", f"{case}: run {run.id} succeeded, but no attempt with token {token} did")
            if run.result is None or json.decode(run.result)["token"] != token:
                raise Violation("I6", f"{case}: run {run.id} keeps the result of another attempt: {run.result!r}")


def _one_at_a_time(checker: Checker) -> None:
    """I7: an attempt executes only while it is held, and no two attempts of a run execute at the same time."""
    world = checker.world
    for case in checker.everything:
        for run_id, attempts in case.by_run.items():
            attempts.sort(key=lambda witness: witness.start)
            for witness in attempts:
                released = checker.auditor.released.get(witness.token)
                if witness.token not in checker.auditor.grants:
                    raise Violation("I7", f"{witness} executes without ever having been claimed")
                if released is not None and (witness.end or world.now) > released:
                    raise Violation("I7", f"{witness} executes after its claim ended at {released}")
            for first, second in pairwise(attempts):
                if first.end is None or first.end > second.start:
                    raise Violation("I7", f"two attempts of run {run_id} at once: {first} and {second}")


def _attributed(checker: Checker) -> None:
    """I8: all stored output of an attempt was written by that attempt."""
    for case in checker.everything:
        for run_id, attempts in case.by_run.items():
            words = checker.world.read("logs", run_id, None, -1, 10_000)
            spoke = {(witness.attempt, str(witness.token)) for witness in attempts}
            for line in words:
                for text in line.text.split("\n"):
                    if text and (line.attempt, text.split()[1]) not in spoke:
                        raise Violation(
                            "I8", f"{case}: attempt {line.attempt} of {run_id} has output of another attempt: {text!r}"
                        )
            accepted = checker.auditor.accepted.get(run_id)
            run = case.runs.get(run_id)
            if run is not None and run.status is Status.SUCCEEDED:
                heard = "".join(line.text for line in words)
                if f"began {accepted}\n" not in heard or f"ended {accepted} " not in heard:
                    raise Violation("I8", f"{case}: the output of the effective attempt of {run_id} is incomplete")


def _cancel_wins(checker: Checker) -> None:
    """I10: after a cancel was acknowledged no attempt starts, a running one ends soon, and the run ends as
    cancelled.
    """
    for case in checker.everything:
        for request in case.record.others:
            if request.kind == "cancel_run" and request.outcome == "ok":
                assert request.run_id is not None
                run = case.runs.get(request.run_id)
                if run is not None:
                    _check_cancelled(checker, case, request, run, request.answer.status)
        for request in case.record.changes:
            if request.kind == "cancel" and request.outcome == "ok":
                for run in case.runs.values():
                    if run.fires == 1 and run.created_at <= request.lo:
                        _check_cancelled(checker, case, request, run, None)
                    elif run.created_at > request.hi:
                        raise Violation("I10", f"{case}: run {run.id} was made after the job was cancelled")


def _check_cancelled(checker: Checker, case: Case, request: Request, run: Run, answered: Status | None) -> None:
    world = checker.world
    terminal = run.is_terminal
    ended = checker.auditor.ended.get(run.id)
    alive_then = ended is None or ended[0] > request.hi
    if run.status is Status.SKIPPED and run.finished_at is not None and run.finished_at <= request.hi:
        alive_then = False
    if answered is not None and answered in TERMINAL and run.status is not answered:
        raise Violation("I13", f"{case}: run {run.id} was {answered} and is {run.status}")
    if terminal and ended is not None and alive_then and run.status is not Status.CANCELLED:
        raise Violation("I10", f"{case}: run {run.id} is {run.status} after its cancel was acknowledged")
    assert request.answered is not None
    grace = int(str(case.record.spec.grace)[:-1]) * S
    for witness in case.by_run.get(run.id, []):
        if witness.start > request.answered:
            grant = checker.auditor.grants.get(witness.token)
            handed_out_before = grant is not None and grant.at <= request.answered
            if not handed_out_before or checker.undisturbed(request.lo - 2 * S, witness.start):
                raise Violation("I10", f"{case}: {witness} started after its cancel was acknowledged at {request}")
        limit = request.answered + grace + TOLERANCE
        over = witness.end or world.now
        if witness.start <= request.answered < over and over > limit and checker.undisturbed(request.lo - 2 * S, limit):
            raise Violation("I10", f"{case}: {witness} continued after its cancel")


def _edits_win(checker: Checker) -> None:
    """I11: after an acknowledged change no later fire follows the old version, and no earlier fire the new one."""
    for case in checker.cases:
        revisions = {change.rev: change for change in case.record.changes if change.rev is not None and change.possible}
        for witness in case.witnesses:
            run = case.runs.get(witness.run_id)
            if run is None:
                continue
            made = revisions.get(witness.rev)
            if witness.rev != 0 and made is None:
                raise Violation("I11", f"{case}: {witness} follows a revision that was never made")
            _check_revision(case, witness, run, made, list(revisions.values()))
            if run.is_due_instant:
                _check_paused(case, witness)


def _check_revision(case: Case, witness: Witness, run: Run, made: Request | None, revisions: list[Request]) -> None:
    instant = run.fire_time
    for later in revisions:
        surely_later = made is None or (later is not made and later.lo > made.hi)
        if surely_later and later.happened and later.hi + LAG < instant:
            raise Violation("I11", f"{case}: {witness} follows an old version at {instant}, after {later}")
    if (
        run.is_due_instant
        and made is not None
        and made.lo > instant
        and not oracle.possibly_paused(case.record, instant)
    ):
        raise Violation("I11", f"{case}: {witness} follows a version made after its instant by {made}")


def _check_paused(case: Case, witness: Witness) -> None:
    changes = [change for change in case.record.changes if change.possible]
    for pause in changes:
        if pause.kind != "pause" or not pause.happened or witness.fire_time <= pause.hi:
            continue
        ends = [c.lo for c in changes if c.kind == "resume" and c.hi >= pause.lo]
        ends += [c.until for c in changes if c.until is not None and c.hi >= pause.lo]
        resumed = min(ends, default=None)
        if resumed is None or pause.hi < witness.start < resumed:
            raise Violation("I11", f"{case}: {witness} started although it was paused by {pause}")


def _bounded_attempts(checker: Checker) -> None:
    """I12: a run has at most 1 + maxRetries attempts, and is dead only after all of them."""
    for case in checker.everything:
        limit = 1 if case.at_most_once else 1 + case.record.spec.retry.max_retries
        for run in case.runs.values():
            paid = [w for w in case.by_run.get(run.id, []) if w.token not in checker.auditor.returned]
            if len(paid) > limit or run.attempt > limit:
                raise Violation("I12", f"{case}: run {run.id} had {len(paid)} attempts, allowed are {limit}")
            if run.status is Status.DEAD and run.attempt != limit:
                raise Violation("I12", f"{case}: run {run.id} is dead after {run.attempt} of {limit} attempts")


def _one_successor(checker: Checker) -> None:
    """I13: a retry replaces one run, once, and both refer to each other."""
    runs = {run.id: run for case in checker.everything for run in case.runs.values()}
    for case in checker.cases:
        for run in case.runs.values():
            if run.origin is not Origin.RETRY or run.retry_of is None:
                continue
            old = runs.get(run.retry_of)
            if old is None or old.retried_as != run.id:
                raise Violation("I13", f"{case}: run {run.id} is the retry of {run.retry_of}, which has another: {old}")


def _at_most_once(checker: Checker) -> None:
    """I12 for `at_most_once`: no run starts twice, and a run that never started does not count as interrupted."""
    for case in checker.everything:
        for run in case.runs.values() if case.at_most_once else ():
            starts = case.by_run.get(run.id, [])
            if len(starts) > 1:
                raise Violation("I12", f"{case}: run {run.id} is delivered at most once and started twice: {starts}")
            if run.status is Status.DEAD or (run.failure == INTERRUPTED and not starts):
                raise Violation("I12", f"{case}: {run} ended as if it might have done something; starts: {starts}")


def _idempotent(checker: Checker) -> None:
    """I14: the same key with the same body gives the same job and answer; with another body it is refused."""
    for record in checker.records:
        jobs = checker.jobs.get(record.uid, [])
        if len(jobs) > 1:
            raise Violation("I14", f"job {record.uid} exists {len(jobs)} times: {[job.id for job in jobs]}")
        same = [r for r in record.submissions if r.outcome == "ok" and r.spec is record.spec]
        other = [r for r in record.submissions if r.spec is not record.spec]
        if len({r.answer.job_id for r in same}) > 1 or (record.key and len({r.answer.answer for r in same}) > 1):
            raise Violation("I14", f"job {record.uid}: different answers: {[r.answer for r in same]}")
        for request in record.submissions:
            told = any(r.answered is not None and r.answered < request.invoked for r in same)
            if request.spec is record.spec and told and request.outcome == "refused":
                raise Violation("I14", f"job {record.uid}: a repetition was refused: {request.answer!r}")
        for request in other:
            repeated = any(r.answered is not None and r.answered < request.invoked for r in same)
            if repeated and request.outcome == "ok":
                raise Violation("I14", f"job {record.uid}: another body was accepted under its key: {request}")
            if repeated and request.outcome == "refused" and not isinstance(request.answer, IdempotencyMismatch):
                raise Violation("I14", f"job {record.uid}: {request.answer!r}")


def _overlap(checker: Checker) -> None:
    """I16: runs of a job that may not overlap never do, also across retries; a skip names a run that was alive."""
    world = checker.world
    for case in checker.cases:
        if not case.serial:
            continue
        lives = sorted(
            (attempts[0].start, _life_ends(checker, case.runs.get(run_id), run_id, attempts, world.now), run_id)
            for run_id, attempts in case.by_run.items()
        )
        for first, second in pairwise(lives):
            if first[1] > second[0]:
                raise Violation("I16", f"{case}: run {second[2]} started at {second[0]} beside {first}")
        for row in case.rows:
            if row.status is Status.SKIPPED and row.verdict is Verdict.SKIPPED:
                _check_skip(checker, case, row)


def _life_ends(checker: Checker, run: Run | None, run_id: str, attempts: list[Witness], now: Micros) -> Micros:
    if run is not None and run.finished_at is not None and "replaced this run" in run.reason:
        return max(run.finished_at, *(witness.end or now for witness in attempts))
    ended = checker.auditor.ended.get(run_id)
    if ended is not None:
        return ended[0]
    return max(witness.end or now for witness in attempts)


def _check_skip(checker: Checker, case: Case, row: Run) -> None:
    if DEADLINE in row.reason or calendars.is_excluded(row):
        return
    policy = case.record.spec.overlap
    if policy is Overlap.QUEUE:
        raise Violation("I16", f"{case}: skipped, but its policy is {policy}: {row}")
    if policy in (Overlap.CANCEL_PREVIOUS, Overlap.TERMINATE_PREVIOUS):
        if not any(run.fire_time > row.fire_until for run in case.runs.values() if run.fires == 1):
            raise Violation("I16", f"{case}: skipped for a later fire that never was: {row}")
        return
    blockers = [word for word in row.reason.split() if word.startswith("r_")]
    alive = [blocker for blocker in blockers if blocker in case.runs]
    if not alive:
        raise Violation("I16", f"{case}: skipped without naming the run in its way: {row}")
    ended = checker.auditor.ended.get(alive[0])
    if ended is not None and ended[0] < row.fire_time:
        raise Violation("I16", f"{case}: instant {row.fire_time} was skipped for a run that had ended at {ended}")


def _caught_up(checker: Checker) -> None:
    """I20: late fires were caught up or missed exactly as the rule of the job requires."""
    for case in checker.cases:
        if not case.record.recurring or any(c.kind == "reschedule" and c.possible for c in case.record.changes):
            continue
        if follows.follows(case) is not None:
            continue  # an upstream event may be applied later than one of a run that ended after it
        rule, window = case.record.spec.catch_up, WINDOWS[str(case.record.spec.catch_up_window)]
        rows = [row for row in case.rows if not calendars.is_excluded(row)]
        for index, row in enumerate(rows):
            following = rows[index + 1] if index + 1 < len(rows) else None
            if row.verdict is Verdict.MISSED:
                _check_missed(case, row, following, rule, window)
            elif row.origin is Origin.CATCH_UP:
                _check_caught_up(case, row, following, rule, window)
            elif row.status is Status.SKIPPED and case.record.spec.jitter is not None:
                continue  # the jitter of a run that never ran is not known
            elif row.origin is Origin.SCHEDULE and row.fires == 1 and DEADLINE not in row.reason:
                late = planned_at(row) - due_at(row)
                if late > TOLERANCE + LAG:
                    raise Violation("I20", f"{case}: planned {late} µs late, but not as a catch-up: {row}")


def due_at(run: Run) -> Micros:
    """Return when a run should start: its fire time and its jitter."""
    return run.fire_time if run.due_at is None else run.due_at


def planned_at(row: Run) -> Micros:
    """Return when the planner decided about a fire. Ids are made then; the commit may be seconds later."""
    return int(row.id[2:14], 16) * MS


def _check_missed(case: Case, row: Run, following: Run | None, rule: str, window: Micros) -> None:
    if "paused" in row.reason or rule == "none":
        return
    if following is None:
        raise Violation("I20", f"{case}: the newest missed instant did not run under catchUp {rule}: {row}")
    if case.record.spec.jitter is not None or DEADLINE in following.reason:
        return
    if following.verdict is not Verdict.MISSED and following.origin is not Origin.CATCH_UP:
        raise Violation(
            "I20", f"{case}: the newest missed instant did not run under catchUp {rule}: {row}, {following}"
        )
    if rule == "all" and row.fire_until >= planned_at(following) + MS - window:
        raise Violation("I20", f"{case}: missed within its catch-up window: {row}, {following}")


def _check_caught_up(case: Case, row: Run, following: Run | None, rule: str, window: Micros) -> None:
    if row.status is Status.SKIPPED:
        return
    if due_at(row) >= planned_at(row) - TOLERANCE + LAG:
        raise Violation("I20", f"{case}: called a catch-up although it was not late: {row}")
    newest = following is None or following.fire_time >= planned_at(row) - TOLERANCE - LAG
    if rule == "none":
        raise Violation("I20", f"{case}: caught up although catchUp is none: {row}")
    if case.record.spec.jitter is not None:
        return  # fires may change their order
    if rule == "last" and not newest:
        raise Violation("I20", f"{case}: caught up, but a newer instant was missed too: {row}, {following}")
    if rule == "all" and not newest and row.fire_time < planned_at(row) - window - LAG:
        raise Violation("I20", f"{case}: caught up although older than its window: {row}")


def _judged_truly(checker: Checker) -> None:
    """The ledger says on time only for runs that started on time. A step of the clock that the store accepted after the
    due instant is no delay: the worker got the run before the step, and waited for the time that was left."""
    for case in checker.cases:
        for row in case.rows:
            if row.verdict is Verdict.ON_TIME:
                started = min((w.start for w in case.by_run.get(row.id, [])), default=None)
                if row.started_at is None and row.failure is not None and row.failure.kind == "lost":
                    continue  # not known: the run was assigned in time, and its worker never reported again
                hidden = 0 if started is None else clocks.hidden(checker.world, due_at(row), started)
                if started is None or started - hidden > due_at(row) + TOLERANCE + LAG:
                    raise Violation("I2", f"{case}: the ledger says on time, but it started {started}: {row}")


def _all_ended(checker: Checker) -> None:
    """I26: all runs have ended, and no claim is left in the record of the auditor."""
    if checker.world.bounded and checker.auditor.held:
        raise Violation("I26", f"still held: {list(checker.auditor.held.values())[:3]}")


TERMINAL = frozenset({Status.SUCCEEDED, Status.FAILED, Status.DEAD, Status.CANCELLED, Status.SKIPPED})

PROMISES: tuple[Callable[[Checker], None], ...] = (
    _never_early,
    _durable,
    _idempotent,
    _one_at_a_time,
    _one_completion,
    _attributed,
    _cancel_wins,
    _edits_win,
    _bounded_attempts,
    _one_successor,
    _at_most_once,
    _overlap,
    _covered_once,
    _counted,
    _caught_up,
    _judged_truly,
    _punctual,
    _all_ended,
)
