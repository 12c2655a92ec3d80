"""The metrics of a server. Only a scrape reads them: what the server has counted, and the state of the fleet, which is
read from the store at most once per `FLEET_INTERVAL`."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

import structlog
from prometheus_client.metrics_core import Metric

from timeball.domain.errors import Unavailable
from timeball.domain.instant import SECOND, Micros
from timeball.domain.overview import tally
from timeball.domain.run.lateness import Lateness
from timeball.domain.run.status import TERMINAL
from timeball.ports.metrics import DELAYS, Histogram
from timeball.ports.store.overview import FleetState
from timeball.server.server import Server
from timeball.telemetry.exposition import (
    Labels,
    build_info,
    counter,
    counters,
    gauge,
    gauges,
    histograms,
    render,
)

FLEET_INTERVAL: Final = 5 * SECOND
"""Microseconds for which the state of the fleet is not read again."""
FLEET_TIMEOUT: Final = 3 * SECOND
"""Maximum number of microseconds that a scrape waits for the store. Prometheus waits 10 s by default."""
_TENANT: Final = ("tenant",)
OUTCOMES: Final = [(outcome,) for outcome in sorted({*TERMINAL, tally.MISSED})]
"""The labels of `runs`, which exist before the first run."""
_log = structlog.get_logger()


class ServerMetricsPage:
    """Returns the text of `/metrics` when called. Any number of scrapes may use it at the same time."""

    def __init__(self, server: Server, version: str, *, by_tenant: bool = False) -> None:
        """With `by_tenant`, metrics of runs have the label `tenant`."""
        self._server = server
        self._version = version
        self._by_tenant = by_tenant
        self._clock = server.context.clock
        self._store = server.context.store
        self._fleet: FleetState | None = None
        """The state of the fleet; None if the last reading failed."""
        self._read_at: Micros | None = None
        self._reading: asyncio.Task[None] | None = None

    async def __call__(self) -> bytes:
        await self._read_fleet()
        families = [*self._of_server(), *self._of_store(), *self._of_loops(), *self._of_fleet()]
        return await asyncio.to_thread(render, families)

    async def _read_fleet(self) -> None:
        """Read the state of the fleet, unless that happened recently. Scrapes at the same time share one reading."""
        now = self._clock.monotonic()
        if self._reading is None and (self._read_at is None or now - self._read_at >= FLEET_INTERVAL):
            self._read_at = now
            self._reading = asyncio.create_task(self._read(), name="metrics")
        if self._reading is not None:
            await asyncio.wait([self._reading], timeout=FLEET_TIMEOUT / SECOND)
            if self._reading is not None:  # the store does not answer in time
                self._fleet = None

    async def _read(self) -> None:
        try:
            self._fleet = await self._store.fleet_state()
        except Exception as error:
            if self._fleet is not None or not isinstance(error, Unavailable):
                _log.warning("the state of the fleet cannot be read for metrics", error=str(error))
            self._fleet = None
        self._reading = None

    def _of_server(self) -> Iterator[Metric]:
        counted = self._server.context.metrics
        yield build_info("server", self._version, self._store.kind)
        runs: Counter[Labels] = Counter({} if self._by_tenant else dict.fromkeys(OUTCOMES, 0))
        for (tenant, outcome), count in dict(counted.runs).items():
            runs[*self._tenant(tenant), outcome] += count
        yield counters("runs", "Runs that ended, and fires that never became a run.", self._labels("outcome"), runs)
        parts = () if self._by_tenant else Lateness.__struct_fields__
        delays: dict[Labels, Histogram] = {(part,): Histogram(DELAYS) for part in parts}
        for (tenant, part), histogram in dict(counted.delays).items():
            key = (*self._tenant(tenant), part)
            delays.setdefault(key, Histogram(histogram.bounds)).add(histogram)
        yield histograms(
            "run_start_delay_seconds",
            "The parts of the time from when a run was due to its start, for runs that ended after one attempt.",
            self._labels("part"),
            delays,
        )
        sizes = {"submit": counted.submits, "claim": counted.claims, "settle": counted.settles}
        yield histograms(
            "batch_size",
            "Items that shared a commit: submitted jobs, runs of a claim, ended attempts.",
            ("operation",),
            {(name,): sizes[name] for name in sizes},
        )
        for name, meaning in (
            ("submit", "Jobs that were submitted one by one or in batches."),
            ("claim", "Runs that were assigned to workers."),
            ("settle", "Attempts whose end was written."),
        ):
            yield counter(f"{name}s", meaning, sizes[name].sum)
        yield counter(
            "leases_lost", "Attempts that ended because the lease of their worker lapsed.", counted.lost_leases
        )
        yield gauge("event_listeners", "Open event streams.", self._server.context.events.count)

    def _of_store(self) -> Iterator[Metric]:
        counted, use = self._store.metrics, self._store.use()
        yield gauge("store_up", "1 if the store answered the last scrape in time, else 0.", self._fleet is not None)
        yield histograms(
            "store_transaction_seconds",
            "The time of transactions, with the time in the queue.",
            ("kind",),
            {("read",): counted.reads, ("write",): counted.writes},
        )
        if use.connections is not None:
            pool = use.connections
            yield gauges(
                "store_connections",
                "Connections to the database.",
                ("state",),
                {("busy",): pool.busy, ("idle",): pool.open - pool.busy},
            )
            yield gauge("store_connections_limit", "The maximum number of connections to the database.", pool.limit)
            yield gauge("store_connections_waiting", "Transactions that wait for a connection.", pool.waiting)
        if counted.commits is not None:
            yield histograms(
                "sqlite_commit_size", "Transactions that shared a commit of SQLite.", (), {(): counted.commits}
            )
        if counted.checkpoints is not None:
            yield counter("sqlite_checkpoints", "Checkpoints of SQLite's write-ahead log.", counted.checkpoints)
        if use.log_bytes is not None:
            yield gauge("sqlite_wal_bytes", "The size of SQLite's write-ahead log.", use.log_bytes)

    def _of_loops(self) -> Iterator[Metric]:
        loops = self._server.loops
        turns: dict[Labels, float] = {}
        for loop in loops:
            turns[loop.name, "success"] = loop.succeeded_turns
            turns[loop.name, "failure"] = loop.failed_turns
        yield counters("loop_turns", "Turns of the background loops.", ("loop", "result"), turns)
        yield gauges(
            "loop_last_success_age_seconds",
            "The time since the last successful turn of a background loop, or since the start of the server.",
            ("loop",),
            {(loop.name,): loop.time_without_success / SECOND for loop in loops},
        )
        yield gauges(
            "loop_failed",
            "1 if a background loop had no success for longer than it may take, else 0.",
            ("loop", "required"),
            {(loop.name, str(loop.is_required).lower()): float(bool(loop.problem())) for loop in loops},
        )

    def _of_fleet(self) -> Iterable[Metric]:
        """Yield the metrics of the whole fleet. Every server reads the same numbers from the store, so a Prometheus
        query takes the maximum over the servers, not their sum."""
        fleet = self._fleet
        if fleet is None:
            return
        depths: Counter[Labels] = Counter()
        ages: dict[Labels, float] = {}
        for each in fleet.queues:
            key = (*self._tenant(each.tenant), each.queue, str(each.priority))
            depths[key] += each.depth
            ages[key] = max(ages.get(key, 0), (fleet.now - each.oldest_at) / SECOND)
        if not self._by_tenant and not depths:  # so that the metrics always exist
            depths["default", "5"], ages["default", "5"] = 0, 0.0
        labels = self._labels("queue", "priority")
        yield gauges("queue_depth", "Runs that wait only for a worker.", labels, depths)
        yield gauges("queue_oldest_age_seconds", "How long the first run of a queue has waited.", labels, ages)
        dead: Counter[Labels] = Counter() if self._by_tenant else Counter({(): 0})
        for tenant, count in fleet.dead_letters.items():
            dead[self._tenant(tenant)] += count
        yield gauges("dead_letters", "Runs that failed for good and wait for a decision.", self._labels(), dead)
        yield gauge("runs_running", "Runs that execute.", fleet.running)
        yield gauge("workers", "Workers with a valid lease.", fleet.workers)
        yield gauge("fleet_slots", "Slots of the workers with a valid lease.", fleet.slots)

    def _labels(self, *names: str) -> Labels:
        return (*_TENANT, *names) if self._by_tenant else names

    def _tenant(self, tenant: str) -> Labels:
        return (tenant,) if self._by_tenant else ()
