"""`timeball capacity`: what an installation needs for a number of jobs per day, computed from measured costs.

The constants are the least favourable repeats in `bench/results`: the highest cost per job, and the lowest rate. They
are those of the configuration that each store is used in: SQLite with the worker in the process of the server,
PostgreSQL with separate workers. `tests/unit/cli/test_capacity.py` compares them with these files.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

import click

from timeball.cli.output.output import Form, Output
from timeball.cli.session import output_option
from timeball.config import readers
from timeball.domain.dispatch.slot_bounds import DEFAULT_SLOTS
from timeball.domain.instant import DAY, SECOND, Micros

StoreKind = Literal["sqlite", "postgresql"]

SUBMIT_US: Final[dict[StoreKind, float]] = {"sqlite": 98.3, "postgresql": 56.1}
"""CPU of the server for a job that is submitted by a request of its own: `ingest.json`, "server µs"."""
LIFE_US: Final[dict[StoreKind, float]] = {"sqlite": 44.3, "postgresql": 26.3}
"""CPU of the server for a job from its submit in a batch to its end: `lifecycle.json`, "server µs"."""
DATABASE_US: Final[dict[StoreKind, float]] = {"sqlite": 0.0, "postgresql": 30.9}
"""CPU of PostgreSQL for a job: `lifecycle.json`, "postgres µs". SQLite is in the process of the server."""
WORKER_US: Final[dict[StoreKind, float]] = {"sqlite": 0.0, "postgresql": 7.1}
"""CPU of a worker for an attempt, without the job itself: `lifecycle.json`, "worker µs"."""
LIMIT_PER_SECOND: Final[dict[StoreKind, float]] = {"sqlite": 32_598, "postgresql": 22_375}
"""Jobs per second of one store on 2 cores, the lowest of the repeats: `lifecycle.json`, "jobs/s"."""
RUN_BYTES: Final = 470
JOB_BYTES: Final = 300
LOG_BYTES: Final = 2_000
"""Bytes of a finished run, of a job, and of write-ahead log for a job, with indexes: `docs/explanation/scale.md`."""
BLOAT: Final = 1.5
"""Room for rows that are deleted and not yet reused."""
POOL: Final = 10
"""Connections of a server to PostgreSQL."""
EXTRA_CONNECTIONS: Final = 3
"""Further connections of a server: one for wakeups, the others as a reserve, such as for a migration at its start."""
MAX_LOAD: Final = 0.5
"""The share of a core that is planned for: the other half is for lists, peaks within a second, and a lost machine."""


@dataclass(frozen=True, kw_only=True)
class Capacity:
    store: StoreKind
    peak_per_second: float
    servers: int
    server_cores: float
    database_cores: float
    worker_cores: float
    """Without what the jobs themselves use, unless that was given."""
    slots: int
    workers: int
    database_connections: int
    disk_bytes: int
    log_bytes_per_day: int
    warnings: tuple[str, ...] = ()


def compute(
    jobs_per_day: float,
    retention: Micros,
    *,
    p95_seconds: float = 1.0,
    peak: float = 10.0,
    cpu_seconds: float = 0.0,
    recurring: bool = False,
    store: StoreKind | None = None,
) -> Capacity:
    """Return the servers, workers, cores, connections and disk that are needed. `peak` is the busiest second divided by
    the average, `cpu_seconds` the CPU time of one job, and `recurring` says that jobs fire often, so that their own
    rows do not count."""
    rate = jobs_per_day * peak / (DAY / SECOND)
    chosen: StoreKind = store or ("sqlite" if rate <= MAX_LOAD * LIMIT_PER_SECOND["sqlite"] else "postgresql")
    submit = 0.0 if recurring else SUBMIT_US[chosen]
    server = rate * (submit + LIFE_US[chosen]) / SECOND / MAX_LOAD
    slots = max(1, math.ceil(rate * p95_seconds))
    servers = 1 if chosen == "sqlite" else max(2, math.ceil(server))
    workers = 1 if chosen == "sqlite" else max(2, math.ceil(slots / DEFAULT_SLOTS))
    return Capacity(
        store=chosen,
        peak_per_second=round(rate, 3),
        servers=servers,
        server_cores=_cores(server),
        database_cores=_cores(rate * DATABASE_US[chosen] / SECOND / MAX_LOAD),
        worker_cores=_cores(rate * (WORKER_US[chosen] / SECOND + cpu_seconds) / MAX_LOAD),
        slots=slots,
        workers=workers,
        database_connections=0 if chosen == "sqlite" else servers * (POOL + EXTRA_CONNECTIONS),
        disk_bytes=round(jobs_per_day * retention / DAY * (RUN_BYTES + (0 if recurring else JOB_BYTES)) * BLOAT),
        log_bytes_per_day=round(jobs_per_day * LOG_BYTES),
        warnings=tuple(_warnings(chosen, rate, server, slots)),
    )


def _cores(cores: float) -> float:
    return math.ceil(cores * 100) / 100


def _warnings(store: StoreKind, rate: float, server: float, slots: int) -> Sequence[str]:
    found = []
    if rate > MAX_LOAD * LIMIT_PER_SECOND[store]:
        found.append(
            f"{rate:,.0f} jobs per second are more than half of what one store carried on 2 cores"
            f" ({LIMIT_PER_SECOND[store]:,.0f}): "
            + ("use PostgreSQL" if store == "sqlite" else "see docs/explanation/scale.md, and measure on your machines")
        )
    if store == "sqlite" and slots > DEFAULT_SLOTS:
        found.append(f"{slots:,} slots are more than the {DEFAULT_SLOTS} of one worker: set --slots, or add workers")
    if store == "sqlite" and server > 1:
        found.append("the server uses one core for the API and the loops: use PostgreSQL and several servers")
    return found


@click.command()
@click.option("--jobs-per-day", type=click.FloatRange(min=1), required=True, metavar="N", help="Runs per day.")
@click.option("--retention", default="90d", show_default=True, metavar="TIME", help="How long finished runs are kept.")
@click.option(
    "--p95-seconds",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    metavar="S",
    help="How long a job takes: 95 of 100 take at most this long.",
)
@click.option(
    "--peak",
    type=click.FloatRange(min=1),
    default=10.0,
    show_default=True,
    metavar="FACTOR",
    help="The busiest second, compared with the average.",
)
@click.option(
    "--cpu-seconds",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    metavar="S",
    help="The CPU time of one job.",
)
@click.option("--recurring", is_flag=True, help="The jobs fire often: their submits and rows do not count.")
@click.option(
    "--store", type=click.Choice(["sqlite", "postgresql"]), help="The database (default: the one that suffices)."
)
@output_option
def capacity(*, form: Form | None, retention: str, jobs_per_day: float, **how: Any) -> None:
    """Compute cores, disk, connections, slots and workers for a number of jobs per day.

    The costs per job are measured on 2 cores; docs/explanation/capacity.md has them, and what the result leaves out.

    \b
    Examples:
      timeball capacity --jobs-per-day 1000000 --retention 30d
      timeball capacity --jobs-per-day 50000 --retention 1y --p95-seconds 20 --cpu-seconds 3
    """
    try:
        kept = readers.retention(retention)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--retention") from None
    if not kept:
        raise click.BadParameter("write a time: without retention, the disk grows for ever", param_hint="--retention")
    found = compute(jobs_per_day, kept, **how)
    output = Output(form)
    if output.form == "json":
        import msgspec

        output.json(msgspec.json.encode(asdict(found)))
        return
    output.fields(_rows(found, pretty=output.pretty))
    for warning in found.warnings:
        click.secho(warning, fg="yellow", err=True)


def _rows(found: Capacity, *, pretty: bool) -> list[tuple[str, Any]]:
    def size(count: int) -> str | int:
        return _size(count) if pretty else count

    return [
        ("store", found.store),
        ("jobs per second at the peak", found.peak_per_second),
        ("servers", found.servers),
        ("cores of the servers", found.server_cores),
        ("cores of the database", found.database_cores or None),
        ("workers", found.workers),
        ("cores of the workers", found.worker_cores or None),
        ("slots", found.slots),
        ("connections to the database", found.database_connections or None),
        ("disk", size(found.disk_bytes)),
        ("write-ahead log per day", size(found.log_bytes_per_day)),
    ]


def _size(count: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1_000:
            return f"{count:.3g} {unit}"
        count /= 1_000
    return f"{count:,.3g} TB"
