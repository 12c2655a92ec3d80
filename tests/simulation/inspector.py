"""Checks every claim: the run was the next of its ordering key, its limits had room, and so had the worker
that got it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tests.simulation import tenants
from tests.simulation.records import Micros, Violation
from tests.simulation.weather import MS, S
from timeball.domain.job.job import Job, JobSpec, JobState, decode_spec
from timeball.domain.run.ledger import Origin
from timeball.domain.run.lifecycle import Failed, Succeeded
from timeball.domain.run.run import Run
from timeball.domain.run.status import Status
from timeball.domain.task.task import Http
from timeball.domain.tenant import DEFAULT_TENANT
from timeball.ports.store.runs import Claim, Settled, Settlement
from timeball.ports.store.workers import WorkerRecord
from timeball.stores.sql.runs import claiming

if TYPE_CHECKING:
    from tests.simulation.world import World

OLDER_UNDER_KEY = """
SELECT id FROM runs WHERE tenant = ? AND ordering_key = ? AND (fire_time, id) < (?, ?) ORDER BY fire_time, id
"""
OUTRANKED = """
SELECT id, priority, eligible_at FROM runs
WHERE state = 'ready' AND gated = 0 AND eligible_at <= ? AND eligible_at - priority * ? < ?
  AND (start_by IS NULL OR start_by >= ? OR attempt > 0)
  AND tenant = ? AND priority = COALESCE(?, priority)
  AND (profile IS NULL OR profile LIKE '%|1|0|0|~' || tenant)
"""
WAITING_FOR_A_WORKER = """
SELECT r.id, r.profile, r.priority, r.eligible_at,
  r.gated OR EXISTS (SELECT 1 FROM workers w WHERE w.reserved_for = r.profile AND w.reserved_until > ?)
FROM runs r
WHERE r.state = 'ready' AND r.profile IS NOT NULL AND (r.start_by IS NULL OR r.start_by >= ? OR r.attempt > 0)
ORDER BY r.eligible_at, r.fire_time, r.id
"""
TRIPS_AT = 5
FIRST_OPEN_TIME = 30 * S
MAX_OPEN_TIME = 300 * S


@dataclass(slots=True)
class Permit:
    """What a claim that has not ended uses."""

    run_id: str
    tenant: str
    session: str
    spec: JobSpec


@dataclass(slots=True)
class Host:
    """The results of the calls to a host, evaluated independently of the code under test."""

    failures: int = 0
    failed_at: Micros = 0
    open_until: Micros | None = None
    rest: Micros = FIRST_OPEN_TIME
    probe: str | None = None

    def may_be_forgotten(self, now: Micros) -> bool:
        """Return True if the store may have deleted the state of the host, because it was not used for ten minutes."""
        return self.probe is None and max(self.failed_at, self.open_until or 0) < now - 600 * S

    def answered(self, run_id: str, ill: bool, now: Micros) -> None:
        if ill:
            self.failed_at = now
        if not ill:
            self.failures, self.open_until, self.rest, self.probe = 0, None, FIRST_OPEN_TIME, None
        elif self.open_until is None:
            self.failures += 1
            if self.failures >= TRIPS_AT:
                self._rest(now)
        elif self.probe == run_id:
            self._rest(now)

    def _rest(self, now: Micros) -> None:
        self.open_until, self.probe = now + self.rest, None
        self.rest = min(2 * self.rest, MAX_OPEN_TIME)


def millis(text: str | int | float) -> Micros:
    """Return a duration of a job of this simulation in microseconds."""
    number = str(text)
    return int(number[:-2]) * MS if number.endswith("ms") else int(number.removesuffix("s")) * S


def host_in(spec: JobSpec) -> str | None:
    return urlsplit(spec.task.url).hostname if isinstance(spec.task, Http) else None


class Inspector:
    def __init__(self, world: World) -> None:
        self._world = world
        self.permits: dict[int, Permit] = {}
        self.offers: dict[str, WorkerRecord] = {}
        self.hosts: dict[tuple[str, str], Host] = defaultdict(Host)
        """By tenant and name."""
        self.specs: dict[int, JobSpec] = {}
        """By token: the specs of all claims that were ever made."""
        self.gave_up: dict[tuple[str, str], str] = {}
        """By tenant and ordering key: the run that gave up and blocks all others of the key."""
        self._claimed: set[str] = set()
        self.shares = tenants.Shares(world)
        self._unkept: set[tuple[str, str]] = set()
        """Pairs of a run and a worker that could be reserved for it, since the last claim. That claim may not have
        considered them.
        """

    @property
    def running(self) -> Counter[str]:
        """By tenant: the number of its claims that have not ended."""
        return Counter(permit.tenant for permit in self.permits.values())

    def registered(self, worker: WorkerRecord) -> None:
        self.offers[worker.session] = worker

    def claimed(self, claims: list[Claim], asking: set[str], now: Micros) -> None:
        """Check the runs that were assigned to the sessions that polled."""
        for claim in claims:
            spec = decode_spec(claim.spec)
            self.specs[claim.token] = spec
            self._in_turn(claim, spec)
            self._within_limit(claim, spec)
            self._host_is_well(claim, spec, max(now, claim.eligible_at))
            self._in_time(claim, spec, now)
            self.permits[claim.token] = Permit(claim.run_id, claim.tenant, claim.session, spec)
            self._has_room(claim, spec)
            self._claimed.add(claim.run_id)
        if claims:
            self._nobody_better(claims, now)
            self.shares.claimed(claims)
            self._kept_free(asking, now)

    def settled(self, item: Settlement, settled: Settled, now: Micros) -> None:
        """Record a report that the store accepted."""
        permit = self.permits.pop(item.token)
        spec = permit.spec
        host = host_in(spec)
        if host is not None:
            known = self.hosts[permit.tenant, host]
            if known.may_be_forgotten(now) and self._failures_on_record(permit.tenant, host) <= 1:
                known = self.hosts[permit.tenant, host] = Host()
            if item.host is not None and isinstance(item.outcome, Succeeded | Failed):
                known.answered(item.run_id, _is_ill(item.outcome), now)
            elif known.probe == item.run_id:
                known.probe = None
        gave_up = settled.status in (Status.FAILED, Status.DEAD)
        if gave_up and spec.ordering_key is not None and spec.on_failure == "block":
            self.gave_up[permit.tenant, spec.ordering_key] = item.run_id

    def returned(self, token: int) -> None:
        """Record that a claim was released."""
        permit = self.permits.pop(token)
        host = host_in(permit.spec)
        if host is not None and self.hosts[permit.tenant, host].probe == permit.run_id:
            self.hosts[permit.tenant, host].probe = None

    def _failures_on_record(self, tenant: str, host: str) -> int:
        """Return the failures of a host in a row, as they are stored after the current report."""
        ((failures,),) = self._world.rows(
            "SELECT COALESCE(MAX(failures), 0) FROM gates WHERE tenant = ? AND gate LIKE ?", tenant, f"host:{host}%"
        )
        return int(failures)

    # --- one claim ---------------------------------------------------------------------------------------------

    def _in_turn(self, claim: Claim, spec: JobSpec) -> None:
        """I16: one run of an ordering key at a time, in the order of fire times; no run starts behind one
        that gave up.
        """
        key = spec.ordering_key
        if key is None:
            return
        for permit in self.permits.values():
            if (permit.tenant, permit.spec.ordering_key) == (claim.tenant, key):
                raise Violation("I16", f"run {claim.run_id} was claimed while {permit.run_id} has the turn of {key}")
        if claim.run_id in self._claimed:
            return  # it holds the key since then
        run = self._run(claim.run_id)
        blocker = self.gave_up.get((claim.tenant, key))
        if blocker is not None:
            if not self._dealt_with(blocker, run):
                raise Violation("I16", f"run {claim.run_id} of {key} was claimed although {blocker} gave up before it")
            del self.gave_up[claim.tenant, key]
            if _repeats(run, blocker):
                return  # it takes over the key, however many runs wait
        if run.origin is Origin.RETRY:
            return  # no run overtakes one that holds the key: it may have taken it over
        older = self._world.rows(OLDER_UNDER_KEY, claim.tenant, key, claim.fire_time, claim.run_id)
        if older:
            raise Violation("I16", f"run {claim.run_id} of {key} was claimed before {older}, which are older")

    def _dealt_with(self, blocker: str, run: Run) -> bool:
        """Return True if a run that gave up was discarded, or was retried and the retry is this run or has ended."""
        if _repeats(run, blocker):
            return True
        successor = self._run(blocker).retried_as
        return self.is_dealt_with(blocker) and (successor is None or self._run(successor).is_terminal)

    def is_dealt_with(self, blocker: str) -> bool:
        """Return True if a user retried or discarded a run that gave up, or cancelled its job."""
        run = self._run(blocker)
        if run.retried_as is not None or run.discarded_at is not None:
            return True
        job: Job = self._world.read("jobs", [run.job_id])[run.job_id].job
        return job.state is JobState.CANCELLED

    def _within_limit(self, claim: Claim, spec: JobSpec) -> None:
        if spec.concurrency is not None:
            key = spec.concurrency.key
            others = [
                permit.run_id
                for permit in self.permits.values()
                if permit.tenant == claim.tenant
                and permit.spec.concurrency is not None
                and permit.spec.concurrency.key == key
            ]
            if len(others) >= spec.concurrency.limit:
                raise Violation("I16", f"run {claim.run_id} exceeds {spec.concurrency}: {others}")

    def _host_is_well(self, claim: Claim, spec: JobSpec, at: Micros) -> None:
        host = host_in(spec)
        if host is None:
            return
        known = self.hosts[claim.tenant, host]
        if known.open_until is None:
            return
        if at < known.open_until or known.probe is not None:
            raise Violation("I16", f"run {claim.run_id} calls {host} while its circuit is open: {known}")
        known.probe = claim.run_id

    def _in_time(self, claim: Claim, spec: JobSpec, now: Micros) -> None:
        """No first attempt is assigned after the start deadline."""
        if spec.start_deadline is None or claim.attempt > 1:
            return
        if any(witness.run_id == claim.run_id for witness in self._world.witnesses):
            return  # it started in time, and was released
        run = self._run(claim.run_id)
        if run.origin is Origin.BACKFILL:
            return
        due = run.fire_time if run.due_at is None else run.due_at
        if now > due + millis(spec.start_deadline):
            raise Violation("I4", f"run {claim.run_id} was claimed after its start deadline: due {due}, {spec}")

    def _has_room(self, claim: Claim, spec: JobSpec) -> None:
        """I18: the worker has the labels, and enough CPU and memory for all its claims."""
        worker = self.offers[claim.session]
        if not tenants.serves(worker, self._world.tenants.of(spec.parameters["uid"])):
            raise Violation("I31", f"run {claim.run_id} is of {claim.tenant}, which {worker} does not serve")
        if not set(spec.runs_on) <= set(worker.labels) or (worker.dedicated and not spec.runs_on):
            raise Violation("I18", f"run {claim.run_id} runs on {spec.runs_on or 'any'}, but went to {worker}")
        asked = [
            permit.spec.resources
            for permit in self.permits.values()
            if permit.session == claim.session and permit.spec.resources is not None
        ]
        if worker.cpu is not None and sum(each.cpu for each in asked) > worker.cpu + 1e-9:
            raise Violation("I18", f"run {claim.run_id} takes more CPU than {worker} has: {asked}")
        if worker.memory_mb is not None and sum(each.memory_mb for each in asked) > worker.memory_mb:
            raise Violation("I18", f"run {claim.run_id} takes more memory than {worker} has: {asked}")

    # --- all claims of one moment ------------------------------------------------------------------------------

    def _nobody_better(self, claims: list[Claim], now: Micros) -> None:
        """I17: runs of a tenant without special requirements are claimed by rank, and so by age."""
        plain = [claim for claim in claims if _is_plain(self.specs[claim.token])]
        if not plain or self._world.uses_hosts:
            return
        # The limit of runs per claim holds for each placement profile, and so for each priority of such a tenant.
        apart = claiming.MAX_CLAIMS < tenants.MANY
        groups: dict[tuple[str, int | None], list[Claim]] = defaultdict(list)
        for claim in plain:
            level = self._level(claim) if apart and claim.tenant != DEFAULT_TENANT else None
            groups[claim.tenant, level].append(claim)
        for (tenant, level), group in groups.items():
            self._nobody_better_of(tenant, level, group, now)

    def _nobody_better_of(self, tenant: str, level: int | None, plain: list[Claim], now: Micros) -> None:
        credit = self._world.credit
        ranks = {claim.run_id: claim.eligible_at - self._level(claim) * credit for claim in plain}
        worst = max(plain, key=lambda claim: (claim.eligible_at > now, ranks[claim.run_id]))
        limit = 1 << 62 if worst.eligible_at > now else ranks[worst.run_id]
        passed_over = self._world.rows(OUTRANKED, now, credit, limit, now, tenant, level)
        if passed_over:
            raise Violation("I17", f"run {worst.run_id} was claimed before {passed_over}, which rank higher")

    def _level(self, claim: Claim) -> int:
        """Return the priority of a run. Runs of a backfill are one level below the others of their job."""
        level = self.specs[claim.token].level
        if self._world.theme == "backfills" and self._run(claim.run_id).origin is Origin.BACKFILL:
            return max(0, level - 1)
        return level

    def _kept_free(self, asking: set[str], now: Micros) -> None:
        """I17: if a run has waited until no younger run outranks it, a worker that suits it is reserved for it, if such
        a worker polls.
        """
        seen: set[str] = set()
        before, self._unkept = self._unkept, set()
        for run_id, profile, priority, eligible_at, kept in self._world.rows(WAITING_FOR_A_WORKER, now, now):
            first = profile not in seen
            seen.add(profile)
            if kept or not first or now - eligible_at <= (9 - priority) * self._world.credit:
                continue
            run = self._run(run_id)
            if self.running[run.tenant] >= self._world.tenants.quota(run.tenant):
                continue
            spec = self._world.read("jobs", [run.job_id])[run.job_id].job.spec
            if spec.is_workflow or tenants.needs_only_a_slot(profile, run.tenant):
                continue  # it waits for a server, or any free slot of a worker that serves its tenant suits it
            for worker in self._world.read("workers"):
                if worker.reserved_for is not None or worker.session not in asking:
                    continue
                if not tenants.serves(worker, run.tenant) or not _could_run(worker, spec):
                    continue
                self._unkept.add((run_id, worker.session))
                if (run_id, worker.session) in before:
                    raise Violation("I17", f"run {run_id} waits since {eligible_at}; {worker} is not reserved for it")

    def _run(self, run_id: str) -> Run:
        run: Run = self._world.read("runs", [run_id])[run_id]
        return run


def _repeats(run: Run, blocker: str) -> bool:
    return run.retry_of == blocker and run.origin is Origin.RETRY


def _is_plain(spec: JobSpec) -> bool:
    return spec.profile is None and not spec.gated


def _could_run(worker: WorkerRecord, spec: JobSpec) -> bool:
    resources = spec.resources
    if worker.draining_since is not None:
        return False
    if not set(spec.runs_on) <= set(worker.labels) or (worker.dedicated and not spec.runs_on):
        return False
    if resources is None:
        return worker.slots > 0
    return (
        resources.slots <= worker.slots
        and (worker.cpu is None or resources.cpu <= worker.cpu)
        and (worker.memory_mb is None or resources.memory_mb <= worker.memory_mb)
    )


def _is_ill(outcome: Any) -> bool:
    if isinstance(outcome, Succeeded):
        return False
    failure = outcome.failure
    return failure.kind in ("http", "timeout") and (failure.status is None or failure.status >= 500)
