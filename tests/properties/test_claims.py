"""Claims of random runs for random workers: with slot pools, task kinds, tenants, priorities and long waits.

I16, I17, I18: no run is claimed twice, or by a worker that has no room for it; and no slot stays free that a waiting
run could use.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from msgspec import Struct

from tests.support.builders import LEASE, one_shot, settlement, worker
from timeball.domain.dispatch.fair_share import TenantShare
from timeball.domain.dispatch.slot_pools import PoolRoom, SlotPool, SlotPools
from timeball.domain.instant import HOUR, MINUTE
from timeball.domain.run.lifecycle import Released
from timeball.domain.task.kinds import KINDS
from timeball.domain.task.task import Http, Python, Script, Shell, Task, kind_of
from timeball.domain.tenant import DEFAULT_TENANT, Tenant
from timeball.ports.store.jobs import Submission
from timeball.ports.store.runs import Claim, SlotRequest
from timeball.stores.sql.runs import claiming
from timeball.stores.sqlite.store import SqliteStore
from timeball.system import monotonic, wall

SEEDS = range(20)
STEPS = 20
MAX_ROUNDS = 300
TASKS: list[Task] = [
    Shell(command="true"),
    Script(script="a.sh"),
    Http(url="http://a"),
    *(Python(function=name) for name in ("coroutine", "thread", "process")),
]


class FakeWorker(Struct):
    session: str
    slots: int
    pools: list[SlotPool]
    kinds: list[str] | None
    held: list[Claim]


class Run(Struct, frozen=True):
    kind: str
    function: str | None
    tenant: str


class Scene:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.store = SqliteStore(":memory:", wall=wall, monotonic=monotonic, inline=True)
        self.workers: list[FakeWorker] = []
        self.runs: dict[str, Run] = {}
        """The runs that are not held by a worker."""
        self.held: dict[str, Run] = {}
        self.shares: dict[str, TenantShare] = {}
        self.tenants = [DEFAULT_TENANT]

    async def open(self) -> None:
        await self.store.open()
        choose = self.random
        if choose.random() < 0.5:
            self.tenants += [f"t{number}" for number in range(choose.randint(1, 5))]
        for tenant in self.tenants[1:]:
            await self.store.create_tenant(Tenant(id=tenant, created_at=0, updated_at=0))
        if len(self.tenants) > 1 and choose.random() < 0.5:
            some = choose.sample(self.tenants, 2)
            self.shares = {each: TenantShare(choose.choice([0.5, 3]), choose.choice([None, 1, 5])) for each in some}
            self.store.share_workers(self.shares)
        for number in range(choose.randint(1, 3)):
            pools = [
                SlotPool("threads", choose.randint(1, 6), [], ["thread"]),
                SlotPool("processes", choose.randint(1, 4), ["shell", "script"], ["process"]),
            ]
            found = FakeWorker(
                f"w_{number}",
                choose.randint(1, 20),
                pools if choose.random() < 0.8 else [],
                choose.sample(KINDS[:4], 2) if choose.random() < 0.2 else None,
                [],
            )
            self.workers.append(found)
            fields: dict[str, Any] = {"slots": found.slots, "pools": found.pools, "kinds": found.kinds}
            await self.store.register(worker(found.session, **fields), LEASE)

    def request(self, of: FakeWorker) -> SlotRequest:
        pools = SlotPools(of.pools)
        left = dict(pools.slots)
        for each in of.held:
            run = self.held[each.run_id]
            if (pool := pools.of(run.kind, run.function)) is not None:
                left[pool] -= 1
        room = PoolRoom(pools, left) if of.pools else None
        return SlotRequest(of.session, "", of.slots - len(of.held), room=room)

    def fits(self, run: Run, of: FakeWorker) -> bool:
        request = self.request(of)
        if request.slots < 1 or (of.kinds is not None and run.kind not in of.kinds) or self.is_limited(run.tenant):
            return False
        return request.room is None or request.room.has(request.room.pools.of(run.kind, run.function))

    def is_limited(self, tenant: str) -> bool:
        limit = self.shares[tenant].concurrent_runs if tenant in self.shares else None
        return limit is not None and sum(run.tenant == tenant for run in self.held.values()) >= limit

    async def submit(self) -> None:
        choose = self.random
        sent: list[Submission] = []
        alike = choose.choice(TASKS) if choose.random() < 0.5 else None
        for _ in range(choose.choice([1, 3, 10, 40])):
            task, tenant = alike or choose.choice(TASKS), choose.choice(self.tenants)
            due = self.store.now() - choose.choice([0, 0, 10 * MINUTE, 2 * HOUR])
            priority = choose.choice(["high", "medium", "low"])
            sent.append(one_shot(due, task=task, tenant=tenant, priority=priority))
            function = task.function if isinstance(task, Python) else None
            self.runs[sent[-1].runs[0].id] = Run(kind_of(task), function, tenant)
        if choose.random() < 0.3:
            _, claims = await self.store.submit_and_claim(sent, [self.request(each) for each in self.workers])
            self.take(claims)
        else:
            await self.store.submit(sent)

    def take(self, claims: list[Claim]) -> None:
        for claim in claims:
            run = self.runs[claim.run_id]
            (by,) = [each for each in self.workers if each.session == claim.session]
            assert self.fits(run, by), (run, self.request(by))
            assert claim.pool == SlotPools(by.pools).of(run.kind, run.function)
            self.held[claim.run_id] = self.runs.pop(claim.run_id)
            by.held.append(claim)

    async def claim(self) -> None:
        """Claim as long as the store says that there may be more."""
        for _ in range(MAX_ROUNDS):
            wants = [want for want in map(self.request, self.workers) if want.slots > 0]
            if not wants:
                return
            claimed = await self.store.claim(wants, 0)
            self.take(claimed.claims)
            if not (claimed.again or claimed.more):
                return
        pytest.fail("the claims have no end")

    async def settle(self) -> None:
        for each in self.workers:
            self.random.shuffle(each.held)
            count = self.random.randint(0, len(each.held))
            ended, each.held = each.held[:count], each.held[count:]
            released = [claim for claim in ended if self.random.random() < 0.1]
            for claim in ended:
                run = self.held.pop(claim.run_id)
                if claim in released:
                    self.runs[claim.run_id] = run
            if ended:
                sent = [settlement(claim, Released() if claim in released else None) for claim in ended]
                await self.store.settle(sent)


@pytest.mark.parametrize("seed", SEEDS)
async def test_claims_fill_the_room_of_workers_and_no_more(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(seed)
    monkeypatch.setattr(claiming, "LOOK_AT", scene.random.choice([3, 10, 500]))
    monkeypatch.setattr(claiming, "MAX_CLAIMS", scene.random.choice([7, 1_000]))
    await scene.open()
    for _ in range(STEPS):
        await scene.submit()
        await scene.claim()
        could = [(run, each.session) for run in scene.runs.values() for each in scene.workers if scene.fits(run, each)]
        assert not could
        await scene.settle()
    await scene.store.close()
