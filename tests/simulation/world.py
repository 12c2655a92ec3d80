"""A fleet of real servers and workers on one store, made from one seed and simulated in one process."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from contextvars import Context
from random import Random
from typing import Any

from msgspec import json

from tests.simulation import backfills, calendars, clocks, drains, follows, preemption, pruning, tenants, workflows
from tests.simulation.auditor import Auditor
from tests.simulation.chaos import Chaos
from tests.simulation.client import Clients
from tests.simulation.forgery import Forgers
from tests.simulation.inspector import MAX_OPEN_TIME
from tests.simulation.loop import Micros, VirtualLoop
from tests.simulation.network import Link, Network
from tests.simulation.node import Node
from tests.simulation.process import SimulatedExecutor, SimulatedGuard
from tests.simulation.pruning import Gone
from tests.simulation.records import JobRecord, Violation, Witness
from tests.simulation.rules import THEMES, Offer, Rules
from tests.simulation.storage import Connection, at_once, open_migrated
from tests.simulation.usage import Counting
from tests.simulation.weather import Damage, S, Weather
from timeball.domain import retention
from timeball.domain.job.job import JobState
from timeball.domain.run.run import Run
from timeball.domain.run.status import Status
from timeball.domain.task.task import Http
from timeball.operation.jobs.submit import Submit
from timeball.ports.store.jobs import JobFilter, JobStatus
from timeball.ports.store.queries import RunFilter
from timeball.ports.wakeups import Topic
from timeball.ports.worker_protocol import RegisterWorker
from timeball.server.server import Server
from timeball.stores.sqlite.store import SqliteStore
from timeball.worker.session import WAIT
from timeball.worker.worker import Worker

EPOCH: Micros = 1_767_225_600 * S
"""Virtual time begins with the year 2026."""
SETTLING = 22 * S
"""Time after the last fault for leases to lapse and sessions to be opened again. After that, promises about punctuality
hold.
"""
STUCK = (15 + 5 + 60) * S
"""Lease + longest backoff + 60 s without any progress: I26 is broken."""
HEALTHY = 6 * S
"""How long the fleet is observed without faults."""
FORGOTTEN = (
    (
        "too late to start and not skipped",
        "I4",
        "SELECT id, start_by FROM runs WHERE start_by < ? AND state <> 'running' AND attempt = 0",
    ),
    (
        "no run probes a host after the pause of its circuit breaker",
        "I26",
        """SELECT gate, open_until FROM gates g WHERE open_until < ? AND probe IS NULL
           AND EXISTS (SELECT 1 FROM runs r WHERE r.tenant = g.tenant AND r.gate = g.gate AND r.holds = 4)""",
    ),
)
"""By violation: a query that must find nothing some time after the last fault."""
LIVE = frozenset({Status.SCHEDULED, Status.BLOCKED, Status.QUEUED, Status.RUNNING, Status.RETRYING})


OF_THEMES: dict[str, tuple[str, Topic | None]] = {
    "backfiller": (backfills.THEME, Topic.BACKFILL),
    "follow_trigger": (follows.THEME, Topic.FOLLOW),
    "workflow_advancer": (workflows.THEME, Topic.WORKFLOW),
    "preemptor": (preemption.THEME, None),
    "tenant_watcher": (tenants.THEME, None),
}
"""Loops that have work only in worlds of one theme, and the topic that wakes them. They do not run in other worlds, so
the traces of these seeds stay the same.
"""


class ServerHouse:
    """The place of a server: one process after the other."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.node: Node | None = None
        self.server: Server | None = None
        self.submit: Submit | None = None
        self.connection: Connection | None = None
        self.skew: Micros = world.rng.randrange(-3600 * S, 3600 * S)
        self.down_until: Micros = 0
        self._lives = 0

    def start(self) -> None:
        if (self.node is not None and self.node.alive) or self.world.now < self.down_until:
            return
        world = self.world
        self._lives += 1
        self.node = node = Node(world.loop, f"{self.name}.{self._lives}", world.rng.randrange(10**12))
        world.trace("start", node.name)
        self.connection = connection = Connection(world, node)
        world.homes[node.name] = self

        def boot() -> None:
            self.server = server = Server(connection, node.clock, world.rng, keep_for=world.keep_for)  # type: ignore[arg-type]
            idle = {name for name, (theme, _) in OF_THEMES.items() if theme != world.theme}
            server.loops = tuple(loop for loop in server.loops if loop.name not in idle)
            self.submit = Submit(server.context, render)
            server.start()

        self.server = None
        node.call(boot)

    def kill(self, away: Micros, kind: str = "kill server") -> None:
        if self.node is not None and self.node.alive:
            self.node.kill()
            self.server = None
            self.world.damage.spell(kind, self.world.now, self.world.now + away)
            self.down_until = max(self.down_until, self.world.now + away)
            self.world.after(away + 1, self.start)

    def stop(self, away: Micros) -> None:
        """Stop the server with a signal, as an operator does."""
        node, server = self.node, self.server
        if node is None or server is None or not node.alive:
            return

        async def leave() -> None:
            await server.stop()
            self.world.after(0, self._gone, node, away)

        node.spawn(leave(), "stop server")
        self.world.damage.spell("stop server", self.world.now, self.world.now + away)

    def _gone(self, node: Node, away: Micros) -> None:
        if node is self.node:
            self.kill(self.world.absence(away), "stopped server gone")


class WorkerHouse:
    """The place of a worker: one process after the other."""

    def __init__(self, world: World, name: str, offer: Offer) -> None:
        self.world = world
        self.name = name
        self.offer = offer
        self.node: Node | None = None
        self.worker: Worker | None = None
        self.skew: Micros = world.rng.randrange(-3600 * S, 3600 * S)
        self.down_until: Micros = 0
        self._lives = 0

    def start(self) -> None:
        if (self.node is not None and self.node.alive) or self.world.now < self.down_until:
            return
        world = self.world
        self._lives += 1
        self.node = node = Node(world.loop, f"{self.name}.{self._lives}", world.rng.randrange(10**12))
        world.trace("start", node.name)
        guard = SimulatedGuard(world, node)
        world.homes[node.name] = self

        async def live() -> None:
            self.worker = worker = Worker(
                Link(world, self.name, self.offer.tenants),
                {kind: SimulatedExecutor(world, node, guard, kind) for kind in ("shell", "python", "http")},
                node.clock,
                RegisterWorker(
                    name=node.name,
                    slots=self.offer.slots,
                    labels=list(self.offer.labels),
                    cpu=self.offer.cpu,
                    memory_mb=self.offer.memory_mb,
                    dedicated=self.offer.dedicated,
                ),
                rng=world.rng,
                guard=guard,
            )
            await worker.start()
            if world.theme == drains.THEME:
                await worker.wait()
                world.after(0, self._gone, node, drains.AWAY)

        self.worker = None
        node.spawn(live(), "worker")

    def kill(self, away: Micros, kind: str = "kill worker") -> None:
        if self.node is not None and self.node.alive:
            self.node.kill()
            self.world.damage.spell(kind, self.world.now, self.world.now + away)
            self.down_until = max(self.down_until, self.world.now + away)
            self.world.after(away + 1, self.start)

    def leave(self, away: Micros, patience: Micros | None) -> None:
        """Stop the worker with a signal. Let jobs finish for `patience`, or kill them (None)."""
        node, worker = self.node, self.worker
        if node is None or worker is None or not node.alive:
            return

        async def go() -> None:
            await (worker.stop() if patience is None else worker.drain(patience))
            self.world.after(0, self._gone, node, away)

        kind = "stop worker" if patience is None else "drain worker"
        node.spawn(go(), kind)
        self.world.damage.spell(kind, self.world.now, self.world.now + away)

    def _gone(self, node: Node, away: Micros) -> None:
        if node is self.node:
            self.kill(self.world.absence(away), "drained worker gone")


class World:
    def __init__(self, seed: int, theme: str | None = None) -> None:
        self.seed = seed
        self.rng = rng = Random(seed)
        # The interface of asyncio loops has many more methods; no simulated code calls those.
        self.loop = VirtualLoop(rng, step=rng.choice((1, 5, 20)), coarse=rng.random() < 0.5)  # type: ignore[abstract]
        self.context = Context()
        self.homes: dict[str, ServerHouse | WorkerHouse] = {}
        self.acting: Node | None = None
        self.stepped: Micros = 0
        """Microseconds that the store's clock has stepped ahead."""
        self.wrong_by: Micros = 0
        """Microseconds that the wall clock is ahead of it for a moment."""
        self.node_clocks = False
        """True only with a planted bug: nodes use their own wall clocks."""
        self.damage = Damage()
        self.witnesses: list[Witness] = []
        self.violation: Violation | None = None
        self.traced: list[tuple[Any, ...]] = []
        self.over = False
        self.last_progress: Micros = self.now
        self.bounded = rng.random() < 0.8
        severity = rng.choice((0.0, 0.3, 1.0, 1.0, 2.0))
        drawn = rng.choice(("mixed", "mixed", "mixed", "zombies", "edits", "deploys", *THEMES))
        self.theme = drawn if theme is None else theme
        """`zombies`: long jobs, and workers that are away for longer than a lease. `edits`: jobs that fire every second
        and are changed all the time. `deploys`: jobs with delivery at most once, and workers that are stopped and
        started all the time. The others: most jobs use one of the rules for what runs share.
        """
        self.storm = Weather.forecast(rng, severity)
        if self.theme == "zombies":
            self.storm.repeated_request, self.storm.slow_message = 0.3, 0.1
        if self.theme == pruning.THEME:
            self.storm.slow_store = 0.15  # the holder of the maintenance lease often loses it during a call
        self.weather = self.storm
        self.wandering = rng.choice((0.0, 0.0, 0.05, 0.5))
        """How often a worker sends a message to another server than its usual one."""
        self.hangs_up = rng.random() < 0.5
        """True if servers notice that a worker gave up a call."""
        length = rng.choice((50, 80)) if self.theme == "zombies" else rng.choice((8, 15, 25, 45))
        self.is_calm = False
        self.calm_at: Micros = self.now + length * S
        self.dark_until: Micros = 0
        """The end of an outage: until then no further fault is caused."""
        self.healthy_from: Micros | None = None
        shared = "mixed" if self.theme in (clocks.THEME, drains.THEME, pruning.THEME, workflows.THEME) else self.theme
        self.tenants = tenants.Tenants(seed, self.theme)
        self.rules = Rules(seed, rng, shared, self.now, self.calm_at, self.tenants)
        if self.theme == preemption.THEME:
            self.rules.offers = preemption.few_slots(self.rules.offers)
        if self.theme == tenants.THEME:
            self.rules.offers = tenants.few_slots(self.rules.offers)
        self.credit: Micros = rng.choice((S // 5, S, 60 * S))
        """How much waiting time a level of priority is worth."""
        self.store = SqliteStore(
            ":memory:", wall=self._wall, monotonic=self._monotonic, inline=True, credit=self.credit
        )
        self.keep_for = pruning.keep_for(seed) if self.theme == pruning.THEME else retention.DEFAULT
        self.gone = Gone(self)
        self.counting = Counting(self, seed, fails=self.theme == pruning.THEME)
        self.auditor = Auditor(self)
        self.network = Network(self)
        self.forgers = Forgers(self)
        self.servers = [ServerHouse(self, f"s{n}") for n in range(rng.choice((1, 1, 2, 2, 3)))]
        self.workers = [WorkerHouse(self, f"w{n}", offer) for n, offer in enumerate(self.rules.offers)]
        self.clients = Clients(self)
        self.flows: list[workflows.Asked] = []
        self.operator = calendars.Operator(self)
        self.chaos = Chaos(self, severity) if severity else None

    # --- time --------------------------------------------------------------------------------------------------

    @property
    def now(self) -> Micros:
        """True time, which is the store's time."""
        return EPOCH + self.loop.now + self.stepped

    def _wall(self) -> Micros:
        return (self.store_time(self.acting) if self.acting is not None else self.now) + self.wrong_by

    def _monotonic(self) -> Micros:
        return self.loop.now if not self.node_clocks else self._wall()

    def store_time(self, node: Node) -> Micros:
        return self.now + (self.homes[node.name].skew if self.node_clocks else 0)

    def seen_time(self, node: Node) -> Micros:
        """Return the store's time as a server sees it, without the delay of its messages."""
        return self.store.now() if self.theme == clocks.THEME else self.store_time(node)

    def after(self, delay: Micros, function: Callable[..., object], *args: Any) -> Any:
        """Call a function later, outside of all nodes: the death or pause of a node does not affect it."""
        return self.loop.call_at((self.loop.now + delay) / 1e6, function, *args, context=self.context)

    async def sleep(self, length: Micros) -> None:
        wake = self.loop.create_future()
        self.after(length, wake.set_result, None)
        await wake

    # --- what the parts ask of it ------------------------------------------------------------------------------

    def trace(self, *what: Any) -> None:
        self.traced.append((self.loop.now, *what))
        if what[0] in ("claim", "settle", "begin", "end"):
            self.last_progress = self.now

    def fail(self, violation: Violation) -> None:
        if self.violation is None:
            self.violation = violation
            self.trace("VIOLATION", str(violation))

    def witness(self, witness: Witness) -> None:
        self.witnesses.append(witness)
        self.trace("begin", witness.run_id, witness.attempt, witness.token, witness.worker)

    def wake_all(self, node: Node, topic: str) -> None:
        if any(topic == unheard and theme != self.theme for theme, unheard in OF_THEMES.values()):
            return
        for house in self.servers:
            if house.node is None or house.node is node or not house.node.alive or house.connection is None:
                continue
            if self.rng.random() < self.weather.lost_hint:
                self.damage.count("lost hint")
                continue
            delay = self.weather.message_delay
            if self.rng.random() < self.weather.slow_hint:
                self.damage.count("slow hint")
                delay += self.rng.randrange(2 * S)
            self.after(delay, house.connection.hear, topic)

    def submit_of(self, server: Server) -> Submit:
        submit = next(house.submit for house in self.servers if house.server is server)
        assert submit is not None
        return submit

    def read(self, name: str, *args: Any) -> Any:
        """Call the store directly, without delay and without faults."""
        return self.gone.recalled(name, args, at_once(getattr(self.store, name)(*args)))

    def rows(self, sql: str, *parameters: Any) -> list[Any]:
        """Return rows of the database."""
        connection = self.store._db._connection  # type: ignore[attr-defined]
        return connection.execute(sql, parameters).fetchall()  # type: ignore[no-any-return]

    @property
    def uses_hosts(self) -> bool:
        return any(isinstance(record.spec.task, Http) for record in self.clients.jobs)

    def jobs(self) -> list[JobStatus]:
        """Return the jobs of all tenants."""
        return [status for tenant in self.tenants.names for status in self._jobs_of(tenant)]

    def _jobs_of(self, tenant: str) -> list[JobStatus]:
        found: list[JobStatus] = []
        cursor = None
        while True:
            page = self.read("list_jobs", JobFilter(tenant=tenant), cursor, 500)
            found += tenants.of_one_tenant(self, tenant, page.items, lambda status: status.job.spec.parameters["uid"])
            cursor = page.next_cursor
            if cursor is None:
                return found

    def find(self, record: JobRecord) -> str | None:
        """Return the id of a job, also if the answer was lost and the job exists."""
        if record.job_id is None:
            found = [status.job.id for status in self.jobs() if status.job.spec.parameters["uid"] == record.uid]
            record.job_id = found[0] if found else None
        return record.job_id

    def pause(self, node: Node, length: Micros, kind: str) -> None:
        if node.alive and not node.paused:
            node.pause()
            self.damage.spell(kind, self.now, self.now + length)
            self.after(length, self._go_on, node)

    def _go_on(self, node: Node) -> None:
        self.trace("goes on", node.name)
        node.resume()

    def poisoned(self, node: Node) -> None:
        house = self.homes[node.name]
        if node.alive and house.node is node:
            self.trace("poisoned", node.name)
            house.kill(self.rng.randrange(S, 4 * S), "poison")

    @property
    def houses(self) -> list[ServerHouse | WorkerHouse]:
        return [*self.servers, *self.workers]

    def absence(self, away: Micros) -> Micros:
        """Return how long a process stays away. One that ends only after the faults have stopped comes back at once."""
        return S if self.is_calm else away

    def outage(self, length: Micros) -> None:
        """Switch everything off for a while."""
        self.damage.count("outage")
        for house in self.houses:
            away = length + self.rng.randrange(S)
            house.down_until = max(house.down_until, self.now + away)
            self.after(away + 1, house.start)
            house.kill(away, "outage of a node")
        self.dark_until = self.now + length
        self.calm_at = max(self.calm_at, self.now + length + 5 * S)

    # --- the course of things ----------------------------------------------------------------------------------

    def run(self) -> None:
        with pruning.short_days() if self.theme == pruning.THEME else nullcontext():
            self._run()

    def _run(self) -> None:
        open_migrated(self.store)
        if self.theme == tenants.THEME:
            self.tenants.begin(self.store)
        if self.theme == calendars.THEME:
            for tenant in self.tenants.names:
                at_once(self.store.put_calendar(self.operator.first_of(tenant)))
        try:
            for house in self.houses:
                house.start()
            self._spawn(self._direct(), "director")
            self.loop.run_until(lambda: self.over or self.violation is not None)
        finally:
            self.loop.close()

    def close(self) -> None:
        at_once(self.store.close())

    def _spawn(self, coroutine: Any, name: str) -> Any:
        return self.loop.create_task(coroutine, name=name, context=self.context.copy())

    async def _direct(self) -> None:
        try:
            await self._course()
        except Violation as violation:
            self.fail(violation)
        except Exception:
            self.fail(Violation("bug", traceback.format_exc(limit=-4)))

    async def _course(self) -> None:
        stories = [
            self._spawn(self.clients.story(self.calm_at), "story")
            for _ in range(self.rng.choice((2, 4) if self.theme == "edits" else (2, 4, 7, 11)))
        ]
        if self.theme == workflows.THEME:
            stories += [self._spawn(workflows.story(self, each), "workflow") for each in range(workflows.STORIES)]
        if self.theme == calendars.THEME:
            stories.append(self._spawn(self.operator.work(self.calm_at), "operator"))
        if self.theme == clocks.THEME:
            self._spawn(clocks.swing(self), "clocks")
        if self.theme == tenants.THEME:
            self._spawn(self.tenants.change(self), "shares")
        if self.theme == drains.THEME:
            self._spawn(drains.order(self), "drains")
        if self.chaos is not None:
            self._spawn(self.chaos.rage(), "chaos")
        while self.now < self.calm_at:
            await self.sleep(self.calm_at - self.now)
        if self.bounded:
            self._calm_down()
            for story in stories:
                while not story.done():
                    await self.sleep(S)
                story.result()
            await self.sleep(SETTLING)
            self.healthy_from = self.now
            await self._watch_health()
            self._look_for_stopped_schedules()
            self._look_for_forgotten()
            await self._wind_up()
        else:
            clocks.use(self)
        self.over = True

    def _calm_down(self) -> None:
        self.trace("calm")
        self.is_calm = True
        self.weather = self.storm.calm()
        self.network.heal()
        for house in self.houses:
            house.down_until = 0
            house.start()
            assert house.node is not None
            house.node.resume()
        for server in self.servers:
            if server.connection is not None:
                server.connection.cut_until = 0

    async def _watch_health(self) -> None:
        """Submit some more jobs after the faults: these must be on time, and must stop when they are cancelled."""
        until = self.now + HEALTHY
        for _ in range(3):
            self._spawn(self.clients.submit(self.clients.new_record(self.now)), "probe")
            await self.sleep(self.rng.randrange(2 * S))
        await self.clients.submit_and_cancel()
        await self.sleep(max(0, until - self.now))

    def _look_for_stopped_schedules(self) -> None:
        """I20: a schedule never stops for good. The planner had enough time."""
        for status in self.jobs():
            job = status.job
            if job.state is JobState.ACTIVE and job.next_fire_at is not None and job.next_fire_at < self.now - 2 * S:
                self.fail(Violation("I20", f"the schedule of job {job.id} stands still since {job.next_fire_at}"))
            if job.state is JobState.PAUSED and job.paused_until is not None and job.paused_until < self.now - 2 * S:
                self.fail(Violation("I20", f"the pause of job {job.id} was to end at {job.paused_until}"))

    def _look_for_forgotten(self) -> None:
        """I4, I26: no run waits past a deadline, or at a host after the pause of its circuit breaker."""
        # A worker whose messages go to different servers may have free slots that no server knows of until its poll
        # ends.
        patience = 5 * S + (WAIT if self.wandering else 0)
        for what, promise, sql in FORGOTTEN:
            if found := self.rows(sql, self.now - patience):
                self.fail(Violation(promise, f"{what}: {found[:3]}"))
        self.auditor.inspector.shares.look(patience)

    async def _wind_up(self) -> None:
        """Pause every schedule, then wait until all accepted runs have ended."""
        uids = {status.job.id: status.job.spec.parameters["uid"] for status in self.jobs()}
        if len(set(uids.values())) < len(uids):
            self.fail(Violation("I14", f"jobs that exist more than once: {Counter(uids.values()).most_common(3)}"))
        gone = [record for record in self.clients.jobs if record.job_id is not None and record.job_id not in uids]
        if gone:
            self.fail(Violation("I1", f"acknowledged and gone: {gone[0]}"))
        for record in list(self.clients.jobs):
            job_id = self.find(record)
            for _ in range(5):
                status = self.read("jobs", [job_id]).get(job_id) if job_id is not None else None
                if status is None:
                    break
                if status.job.paused_until is None:
                    if status.status != "scheduled" or status.next_run_at is None:
                        break
                    if not record.recurring and status.next_run_at <= self.now + 3 * S:
                        break
                await self.clients.change(record, "pause")
        await self._deal_with_dead()
        self.last_progress = self.now
        patience = STUCK + (MAX_OPEN_TIME if self.uses_hosts else 0)
        while alive := self.alive_runs():
            await self.sleep(S)
            self._look_for_forgotten()
            if self.now - self.last_progress > patience:
                self.fail(Violation("I26", f"no progress for {patience // S} s: {alive[:3]}"))
        await self.sleep(3 * S)

    async def _deal_with_dead(self) -> None:
        """Retry half of the runs that block their ordering keys."""
        for key, run_id in sorted(self.blocked_keys().items()):
            if self.rng.random() < 0.5:
                self.trace("retries", *key, run_id)
                await self.clients.retry(run_id)

    def blocked_keys(self) -> dict[tuple[str, str], str]:
        """By tenant and ordering key: the run that gave up and was neither retried nor discarded."""
        inspector = self.auditor.inspector
        return {key: run_id for key, run_id in inspector.gave_up.items() if not inspector.is_dealt_with(run_id)}

    def is_blocked(self, run: Run) -> bool:
        """Return True if a run waits behind one that gave up."""
        return run.ordering_key is not None and (run.tenant, run.ordering_key) in self.blocked_keys()

    def alive_runs(self) -> list[Any]:
        """Return the runs that must end by themselves."""
        blocked = self.blocked_keys()
        alive: list[Any] = []
        for tenant in self.tenants.names:
            alive += self.read("list_runs", RunFilter(tenant=tenant, status=LIVE), None, 1000).items
        waiting: list[Any] = backfills.unfinished(self) if self.theme == backfills.THEME else []
        waiting += follows.unplanned(self) if self.theme == follows.THEME else []
        return [run for run in alive if (run.tenant, run.ordering_key) not in blocked] + waiting


def render(status: JobStatus) -> bytes:
    return json.encode({"jobId": status.job.id, "next": status.next_run_at})
