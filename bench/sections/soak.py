"""A load of half the maximum for ten minutes: memory must stay flat, and tables no larger than their rows."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import pairwise

from bench import consistency
from bench.batch_load import BATCH, CONNECTIONS, feeding
from bench.database import Database
from bench.deployment import USUAL_WORKER, Deployment, deployed
from bench.measurements import Figure, Findings, median
from bench.recorder import Recorder, Scale, TableInProgress, say
from bench.sections.lifecycle import SLOTS, steady

MAX_GROWTH = 2.0
MAX_BLOAT = 2.0
TABLES = ("jobs", "history", "runs")


@dataclass(frozen=True)
class Sizes:
    seconds: float
    every: float
    """Seconds between two samples."""
    settled: int
    """Number of samples until the steady state: the first minute."""


USUAL = Sizes(seconds=600, every=10, settled=6)
QUICK = Sizes(seconds=12, every=1, settled=4)


@dataclass(frozen=True)
class Sample:
    executed: int
    memory: dict[str, float]
    """MiB by process."""
    disk: dict[str, float]
    """MiB by table or file."""


def run(scale: Scale) -> Findings:
    notebook = Recorder("soak", "Soak: a steady load of half the maximum")
    sizes = scale.pick(USUAL, QUICK)
    configuration = {
        "seconds": f"{sizes.seconds:g}",
        "sampled every": f"{sizes.every:g} s",
        "settled after": f"{sizes.settled * sizes.every:g} s",
        "batches": BATCH,
        "connections": CONNECTIONS,
        "slots": SLOTS,
    }
    disk = notebook.table("Disk in MiB; bloat is against the same rows packed anew", **configuration)
    memory = notebook.table("Memory in MiB, without mapped files and shared memory", **configuration)
    with disk as disks, memory as memories, notebook.table("Jobs per second", **configuration) as rates:
        for store in scale.stores:
            with deployed(store, USUAL_WORKER[store], SLOTS) as running:
                most = steady(running, scale.pick(3.0, 1.0), scale.pick(10.0, 2.0)).rate
                say(f"{store}: at most {most:,.0f} jobs/s")
                samples = _load(notebook, running, most / 2, sizes)
                running.await_rest()
                achieved = _rates(samples, sizes.every)
                figures = {"maximum": Figure(values=[most]), "load": Figure(values=achieved, least=most / 2 * 0.95)}
                rates.row({"store": store, "worker": running.worker}, figures)
                _memory(memories, running, samples, sizes)
                consistency.check(notebook, running)
                _disk(disks, running, samples, sizes)
    return notebook.findings()


def _load(notebook: Recorder, running: Deployment, rate: float, sizes: Sizes) -> list[Sample]:
    samples: list[Sample] = []
    with running.database() as database, feeding(running, rate=rate):
        began = time.monotonic()
        for number in notebook.takes(int(sizes.seconds / sizes.every)):
            time.sleep(max(0.0, began + (number + 1) * sizes.every - time.monotonic()))
            samples.append(Sample(running.executed, running.memory_mib(), _disk_mib(running, database)))
    return samples


def _rates(samples: list[Sample], every: float) -> list[float]:
    """Return the jobs that were executed per second between two samples."""
    counts = [sample.executed for sample in samples]
    return [(later - earlier) / every for earlier, later in pairwise(counts)]


def _memory(table: TableInProgress, running: Deployment, samples: list[Sample], sizes: Sizes) -> None:
    for process in samples[0].memory:
        used = [sample.memory[process] for sample in samples]
        early, late = _early(used, sizes), _late(used, sizes)
        figures = {
            "settled": Figure(values=[early], digits=1),
            "at the end": Figure(values=[late], digits=1),
            "growth %": Figure(values=[(late / early - 1) * 100], most=MAX_GROWTH, digits=1),
            "all samples": Figure(values=used, digits=1),
        }
        table.row({"store": running.store, "process": process}, figures)


def _disk(table: TableInProgress, running: Deployment, samples: list[Sample], sizes: Sizes) -> None:
    """Compare the sizes of tables with the same rows written anew. A table that is emptied all the time cannot be
    compared: it must not grow.
    """
    packed = _packed_mib(running)
    for name in samples[0].disk:
        used = [sample.disk[name] for sample in samples]
        early, late = _early(used, sizes), _late(used, sizes)
        figures = {"settled": Figure(values=[early], digits=1), "at the end": Figure(values=[late], digits=1)}
        if name in packed:
            figures["packed"] = Figure(values=[packed[name]], digits=1)
            figures["bloat ×"] = Figure(values=[used[-1] / packed[name]], most=MAX_BLOAT, digits=2)
        else:
            figures["growth ×"] = Figure(values=[late / early], most=MAX_BLOAT, digits=2)
        table.row({"store": running.store, "what": name}, figures)


def _early(values: list[float], sizes: Sizes) -> float:
    """Return the value at the beginning of the steady state."""
    return median(values[sizes.settled : 2 * sizes.settled])


def _late(values: list[float], sizes: Sizes) -> float:
    return median(values[-sizes.settled :])


def _disk_mib(running: Deployment, database: Database) -> dict[str, float]:
    if running.store == "sqlite":
        data = running.folder / "data"
        return {
            "file": (data / "timeball.db").stat().st_size / 2**20,
            "write-ahead log": (data / "timeball.db-wal").stat().st_size / 2**20,
        }
    return {name: _with_partitions(database, name) / 2**20 for name in TABLES}


def _with_partitions(database: Database, table: str) -> int:
    """Return the size in bytes of a table and its indexes. A table with partitions has no rows itself."""
    ((own, parts),) = database.rows(
        f"SELECT pg_total_relation_size('{table}'), sum(pg_total_relation_size(relid)) FILTER (WHERE isleaf)"
        f" FROM pg_partition_tree('{table}')"
    )
    return int(own) + int(parts or 0)


def _packed_mib(running: Deployment) -> dict[str, float]:
    """Return the sizes that the tables have when the same rows are written anew."""
    with running.database() as database:
        if running.store == "sqlite":
            copy = running.folder / "packed.db"
            database.execute(f"VACUUM INTO '{copy}'")
            return {"file": copy.stat().st_size / 2**20}
        for name in ("jobs", "history"):
            database.execute(f"VACUUM FULL {name}")
        return {name: size for name, size in _disk_mib(running, database).items() if name != "runs"}
