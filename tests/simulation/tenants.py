"""The tenants of a world: which one owns each job, which ones each worker serves, and the checks of their isolation and
of their fair shares of the workers.

In some worlds all jobs belong to the default tenant, in the others a part of them belongs to two more tenants. Random
sources of their own decide this, so that it changes no other decision of a world.

In worlds of the theme `tenants`, the tenants flood a few slots with short runs, have weights, and quotas of running
runs, which an administrator changes. In some of these worlds they also have quotas of jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from tests.simulation.records import FOREVER, Micros, Violation, Witness
from tests.simulation.storage import at_once
from tests.simulation.weather import MS, S
from timeball.domain.dispatch.fair_share import TenantShare
from timeball.domain.dispatch.overlap import Overlap
from timeball.domain.job.job import JobSpec
from timeball.domain.schedule.schedule import Immediate
from timeball.domain.tenant import DEFAULT_TENANT, NO_QUOTAS, QuotaLimits, Tenant
from timeball.ports.store.jobs import Accepted, OverQuota, Submission, Submitted
from timeball.ports.store.runs import Claim
from timeball.ports.store.workers import WorkerRecord
from timeball.stores.sql.runs import claiming
from timeball.stores.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from tests.simulation.checker import Checker
    from tests.simulation.rules import Offer
    from tests.simulation.world import World

THEME: Final = "tenants"
OTHERS: Final = ("acme", "beta")
SHARES: Final = (0.0, 0.0, 0.2, 0.4)
"""The shares of jobs that belong to another tenant than the default one. Each world has one of them."""
NO_RULES: Final = TenantShare()
MANY: Final = 100
"""More runs than the workers of a world have slots. A claim that assigns fewer runs does not share all slots."""
PLAIN_OF_TENANTS: Final = """
SELECT r.tenant, COUNT(*) FROM runs r
WHERE r.state = 'ready' AND r.eligible_at <= ? AND (r.start_by IS NULL OR r.start_by >= ? OR r.attempt > 0)
  AND (r.profile IS NULL OR r.profile LIKE '%|1|0|0|~' || r.tenant)
  AND NOT EXISTS (SELECT 1 FROM runs g WHERE g.tenant = r.tenant AND g.gated = 1 AND g.state <> 'running')
GROUP BY r.tenant
"""
"""The number of due runs that need nothing but a slot, of each tenant without runs that share a limit: a claim may find
that these have to wait, and then considers the others only the next time."""


JOBS_THAT_MAY_FIRE: Final = """
SELECT tenant, COUNT(*) FROM jobs WHERE state <> 'cancelled'
  AND (next_fire_at IS NOT NULL OR id IN (SELECT follower FROM follows)) GROUP BY tenant
"""


class Tenants:
    """The tenants of one world."""

    def __init__(self, seed: int, theme: str) -> None:
        self._seed = seed
        self._rng = rng = Random(f"tenants {seed}")
        self._share = rng.choice(SHARES)
        self.shares: dict[str, TenantShare] = {}
        """The weights and quotas of tenants that have some."""
        self._lightest: dict[str, float] = {}
        self.quotas: dict[str, QuotaLimits] = {}
        """The quotas of jobs of tenants that have some."""
        self._has_quotas = theme == THEME and seed % 5 == 2
        if theme == THEME:
            self._share = 0.6
        self.names: tuple[str, ...] = (DEFAULT_TENANT, *OTHERS) if self._share else (DEFAULT_TENANT,)

    def of(self, uid: int) -> str:
        """Return the tenant of a job."""
        rng = Random(f"{self._seed} {uid} tenant")
        return rng.choice(OTHERS) if rng.random() < self._share else DEFAULT_TENANT

    def served_by(self, number: int) -> tuple[str, ...] | None:
        """Return the tenants that a worker serves; None for all of them. The first worker serves all, so that no run
        waits forever."""
        rng = Random(f"{self._seed} worker {number}")
        if number == 0 or len(self.names) == 1 or rng.random() < 0.6:
            return None
        return tuple(sorted(rng.sample(self.names, rng.choice((1, 2)))))

    def begin(self, store: SqliteStore) -> None:
        """Create the tenants."""
        for name in self.names:
            if name != DEFAULT_TENANT:
                at_once(store.create_tenant(Tenant(id=name, created_at=0, updated_at=0)))
        self._draw(store)

    async def change(self, world: World) -> None:
        """Change weights and quotas until calm is due."""
        while True:
            await world.sleep(self._rng.randrange(2, 20) * S)
            if world.now >= world.calm_at:
                return
            self._draw(world.store)
            world.trace("shares", self.shares)
            world.auditor.inspector.shares.forget()

    def _draw(self, store: SqliteStore) -> None:
        rng = self._rng
        self.shares = {
            name: TenantShare(rng.choice((1, 1, 2, 3)), rng.choice((None, None, 1, 1, 2, 3)))
            for name in self.names
            if rng.random() < 0.8
        }
        store.share_workers(self.shares)
        if self._has_quotas:
            self.quotas = {name: QuotaLimits(jobs=rng.randrange(12)) for name in self.names if rng.random() < 0.7}
            store.enforce_quotas(self.quotas)
        for name in self.names:
            self._lightest[name] = min(self._lightest.get(name, self.weight(name)), self.weight(name))

    def weight(self, tenant: str) -> float:
        return self.shares.get(tenant, NO_RULES).weight

    def lightest(self, tenant: str) -> float:
        """Return the smallest weight that a tenant had. The last run before a change counts by the weight of then."""
        return self._lightest.get(tenant, self.weight(tenant))

    def quota(self, tenant: str) -> int:
        limit = self.shares.get(tenant, NO_RULES).concurrent_runs
        return FOREVER if limit is None else limit


class JobQuotas:
    """The quotas of jobs, checked whenever jobs are submitted."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._known: set[str] = set()
        """The jobs that were accepted. A repeated call accepts them again, and creates none."""

    def submitted(self, submissions: Sequence[Submission], answers: Sequence[Submitted]) -> None:
        """I18: jobs are accepted only while there is room for them in the quota of their tenant, and refused only if
        there is none. They are counted independently of the code under test."""
        limits = self._world.tenants.quotas
        new = [each for each in submissions if each.job.id not in self._known]
        counts: Counter[str] = Counter()
        if limits and new:
            counts.update(dict(self._world.rows(JOBS_THAT_MAY_FIRE)))
        for submission, answer in zip(submissions, answers, strict=True):
            job = submission.job
            limit = limits.get(job.tenant, NO_QUOTAS).jobs
            if isinstance(answer, Accepted):
                counts_here = job.next_fire_at is not None and job.id not in self._known
                if limit is not None and counts_here and counts[job.tenant] > limit:
                    raise Violation("I18", f"{job.tenant} has {counts[job.tenant]} jobs that may fire: {limit}")
                self._known.add(job.id)
            elif isinstance(answer, OverQuota) and limit is not None and counts[job.tenant] < limit:
                raise Violation("I18", f"a job is refused: {job.tenant} has {counts[job.tenant]} of {limit}")


class Shares:
    """How many slots each tenant got since another one waits, counted independently of the code under test. Slots are
    divided by the weight of the tenant that got them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._ahead: dict[tuple[str, str], float] = {}
        """By tenant that waits and other tenant: the slots that the other one got since then, less its own."""
        self._widest = 1
        """The most slots that a run occupied so far."""
        self._idle_since: dict[str, Micros] = {}
        """By tenant: since when runs of it wait although its quota has room and a worker has a free slot, and nothing
        is claimed."""

    def claimed(self, claims: list[Claim]) -> None:
        """I18: no tenant has more running runs than its quota allows. I17: while a tenant with room in its quota has
        runs that need nothing but a slot, no other tenant gets more slots than it, apart from the last run of each.
        Only slots that the waiting run could have got count: those of workers that serve its tenant and that no run
        reserves.
        """
        world = self._world
        running = world.auditor.inspector.running
        for tenant in {claim.tenant for claim in claims}:
            if running[tenant] > world.tenants.quota(tenant):
                raise Violation("I18", f"{tenant} has {running[tenant]} running runs: {world.tenants.shares[tenant]}")
        self._idle_since.clear()
        if len(world.tenants.names) == 1 or world.uses_hosts or claiming.MAX_CLAIMS < MANY:
            return
        waiting = self._waiting()
        slots = {claim.token: self._slots(claim) for claim in claims}
        self._widest = max(self._widest, *slots.values())
        for tenant in world.tenants.names:
            own = sum(slots[claim.token] for claim in claims if claim.tenant == tenant)
            for other in world.tenants.names:
                if tenant not in waiting or other == tenant:
                    self._ahead.pop((tenant, other), None)
                    continue
                got = sum(claim.tenant == other and self._could_be_of(claim, tenant) for claim in claims)
                weight, theirs = world.tenants.weight(tenant), world.tenants.weight(other)
                more = got / theirs - own / weight
                ahead = self._ahead[tenant, other] = max(0, self._ahead.get((tenant, other), 0) + more)
                most = self._widest / world.tenants.lightest(tenant) + 1 / world.tenants.lightest(other)
                if ahead > most + 1e-5:
                    raise Violation("I17", f"{other} is {ahead} slots ahead of {tenant}, which has runs that wait")

    def look(self, patience: Micros) -> None:
        """I18, I26: without faults, a tenant with room in its quota does not wait for a slot that is free."""
        world, now = self._world, self._world.now
        if world.uses_hosts:
            return
        waiting = self._waiting()
        used = Counter[str]()
        for permit in world.auditor.inspector.permits.values():
            used[permit.session] += 1 if permit.spec.resources is None else permit.spec.resources.slots
        for tenant in world.tenants.names:
            free = [
                worker
                for worker in (world.read("workers") if tenant in waiting else ())
                if worker.slots > used[worker.session] and serves(worker, tenant)
                if not worker.dedicated and worker.reserved_for is None and worker.draining_since is None
            ]
            if not free:
                self._idle_since.pop(tenant, None)
            elif now - self._idle_since.setdefault(tenant, now) > patience:
                raise Violation("I26", f"runs of {tenant} wait since {self._idle_since[tenant]}, and {free} are free")

    def _waiting(self) -> set[str]:
        """Return the tenants with room in their quotas that have runs that need nothing but a slot."""
        world = self._world
        running = world.auditor.inspector.running
        rows = world.rows(PLAIN_OF_TENANTS, world.now, world.now)
        return {tenant for tenant, _ in rows if running[tenant] < world.tenants.quota(tenant)}

    def forget(self) -> None:
        """Begin anew, because the weights were changed."""
        self._ahead.clear()

    def _slots(self, claim: Claim) -> int:
        resources = self._world.auditor.inspector.specs[claim.token].resources
        return 1 if resources is None else resources.slots

    def _could_be_of(self, claim: Claim, tenant: str) -> bool:
        """Return True if a plain run of another tenant could have got this slot instead."""
        inspector = self._world.auditor.inspector
        spec = inspector.specs[claim.token]
        return spec.profile is None and serves(inspector.offers[claim.session], tenant)


def serves(worker: WorkerRecord, tenant: str) -> bool:
    return worker.tenants is None or tenant in worker.tenants


def needs_only_a_slot(profile: str, tenant: str) -> bool:
    """Return True for the placement profile of runs without requirements of their own: every worker that serves the
    tenant suits them, so that no worker has to be reserved.
    """
    return profile.split("|", 1)[1] == f"1|0|0|~{tenant}"


def of_one_tenant(world: World, tenant: str, found: Iterable[Any], uid: Callable[[Any], int]) -> list[Any]:
    """I24: return the objects that a list of a tenant has. All of them belong to it."""
    found = list(found)
    for each in found:
        if world.tenants.of(uid(each)) != tenant:
            raise Violation("I24", f"a list of {tenant} has an object of another tenant: {each}")
    return found


# --- what users do ------------------------------------------------------------------------------------------------


def shaped(spec: JobSpec, rng: Random) -> JobSpec:
    """Return a short job, and most often one that runs at once."""
    behave = {**spec.parameters["behave"], "length": rng.choice((200 * MS, S, 2 * S)), "poison": 0}
    parameters = {**spec.parameters, "behave": behave}
    spec = structs.replace(spec, parameters=parameters)
    if rng.random() < 0.8:
        bounds: dict[str, Any] = {"start_at": None, "end_at": None, "max_runs": None, "start_deadline": None}
        return structs.replace(spec, schedule=Immediate(), overlap=Overlap.ALLOW, **bounds)
    return spec


def few_slots(offers: list[Offer]) -> list[Offer]:
    return [replace(offer, slots=min(2, offer.slots)) for offer in offers[:3]]


# --- what must hold -----------------------------------------------------------------------------------------------


def _kept_apart(checker: Checker) -> None:
    """I24, I31: a run belongs to the tenant of its job, and only workers that serve this tenant execute it."""
    world = checker.world
    for case in checker.everything:
        tenant = world.tenants.of(case.record.uid)
        strangers = [run for run in case.runs.values() if run.tenant != tenant]
        if case.job.tenant != tenant or strangers:
            raise Violation(
                "I24", f"{case} belongs to {tenant}, but is of {case.job.tenant}, its runs: {strangers[:3]}"
            )
    for witness in world.witnesses:
        if not _serves_here(world, witness):
            raise Violation(
                "I31", f"{witness} belongs to {world.tenants.of(witness.uid)}, which its worker does not serve"
            )


def _serves_here(world: World, witness: Witness) -> bool:
    served = world.homes[witness.worker].offer.tenants  # type: ignore[union-attr]
    return served is None or world.tenants.of(witness.uid) in served


PROMISES: tuple[Callable[[Checker], None], ...] = (_kept_apart,)
