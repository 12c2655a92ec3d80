"""The metrics of a worker, which opens a port for them only if a setting asks for it."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from timeball.telemetry.exposition import build_info, counter, gauge, gauges
from timeball.worker.worker import Worker


class WorkerCollector(Collector):
    """Reads plain numbers of a worker, in the thread of a scrape."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def collect(self) -> Iterator[Metric]:
        worker = self._worker
        slots = worker.slots
        yield build_info("worker", worker.version)
        yield gauges(
            "worker_slots",
            "Slots of this worker: all of them (pool `all`), and those of each pool.",
            ("pool",),
            {(pool,): total for pool, (total, _) in slots.items()},
        )
        used: dict[tuple[str, ...], float] = {(pool,): taken for pool, (_, taken) in slots.items()}
        yield gauges("worker_slots_used", "Slots that runs take.", ("pool",), used)
        yield counter("worker_attempts", "Attempts that this worker was given.", worker.taken_attempts)
        yield counter("worker_sessions", "Sessions that this worker has opened.", worker.opened_sessions)
        yield gauge("worker_connected", "1 if this worker has a valid session, else 0.", worker.is_connected)
        yield gauge("worker_draining", "1 if this worker accepts no runs any more, else 0.", worker.is_draining)
