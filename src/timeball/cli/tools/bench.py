"""`timeball bench`: measures the speed of an installation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from timeball.cli.output.failures import RUN_FAILED, printable, say
from timeball.cli.session import CliSession, connected

if TYPE_CHECKING:
    from timeball.cli.tools.load_test import Figures
    from timeball.client.models.workers import Worker

JOBS: Final = 5_000
MAX_JOBS: Final = 100_000


@click.command(short_help="Measure the speed of this installation.")
@click.option(
    "--jobs",
    type=click.IntRange(1, MAX_JOBS),
    default=JOBS,
    show_default=True,
    metavar="N",
    help="Number of jobs to submit in batches.",
)
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation if the server is on another machine.")
@connected
def bench(session: CliSession, *, jobs: int, yes: bool) -> None:
    """Measure the speed of this installation: the server, its database and the workers, in their current state.

    Submits jobs that do nothing: 50 one by one, then --jobs of them in batches, then 200 that are due one after the
    other within 5 s. Their name is timeball-bench. Every worker can execute them without registration, and they stay
    in the history like all others. Other load on the installation during the measurement affects the results.

    Prints the time until a single job is accepted and until it is picked up, the number of jobs per second that are
    accepted and that are completed, from submission to a durable result, and the lateness of starts. Exits with 1 if a
    job did not succeed.

    \b
    Examples:
      timeball bench
      timeball bench --jobs 20000
      timeball bench --url https://timeball.example.com --yes -o json
    """
    from timeball.cli.tools import load_test

    servers = ", ".join(session.settings.servers)
    if not yes and not session.settings.local:
        click.confirm(f"Run {jobs + load_test.ONE_BY_ONE + load_test.SPREAD:,} jobs on {servers}?", abort=True)
    workers = load_test.able_workers(session.client)
    if session.output.pretty:
        from timeball.cli.output.output import console

        with console().status("measuring") as line:
            figures = load_test.measure(session.client, jobs, line.update)
    else:
        figures = load_test.measure(session.client, jobs, lambda _: None)
    if session.output.form == "json":
        import msgspec

        session.output.json(msgspec.json.encode(_as_json(servers, workers, jobs, figures)))
    else:
        session.output.fields(_as_fields(servers, workers, jobs, figures))
    if figures.unwell:
        _complain(figures)


def _as_fields(servers: str, workers: Sequence[Worker], jobs: int, figures: Figures) -> list[tuple[str, str]]:
    from timeball.cli.tools import load_test

    slots = sum(worker.slots for worker in workers)
    together = f"{len(workers)} with {slots} slots" + (" together" if len(workers) > 1 else "")
    versions = ", ".join(sorted({worker.version for worker in workers}))
    spread = f"{load_test.SPREAD} due one after the other within {load_test.SPREAD_SECONDS} s"
    return [
        ("server", servers),
        ("workers", f"{together}, version {versions}"),
        ("jobs", f"no-op; {load_test.ONE_BY_ONE} one by one, {jobs:,} in batches of {load_test.BATCH}, {spread}"),
        ("one job accepted", _spread(figures.accepted_after)),
        ("one job picked up", _spread(figures.picked_up_after)),
        ("ingest", f"{figures.ingest:,.0f} jobs/s"),
        ("life cycle", f"{figures.life_cycle:,.0f} jobs/s"),
        ("start lateness", _spread(figures.lateness)),
    ]


def _as_json(servers: str, workers: Sequence[Worker], jobs: int, figures: Figures) -> dict[str, Any]:
    from timeball.cli.tools import load_test

    return {
        "server": servers,
        "workers": [{"name": worker.name, "slots": worker.slots, "version": worker.version} for worker in workers],
        "jobs": {"oneByOne": load_test.ONE_BY_ONE, "atOnce": jobs, "spread": load_test.SPREAD},
        "acceptedMs": _percentiles(figures.accepted_after),
        "pickedUpMs": _percentiles(figures.picked_up_after),
        "ingestPerSecond": round(figures.ingest),
        "lifeCyclePerSecond": round(figures.life_cycle),
        "latenessMs": _percentiles(figures.lateness),
        "failed": len(figures.unwell),
    }


def _percentiles(values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values) or [0.0]
    places = {"p50": len(ordered) // 2, "p99": len(ordered) * 99 // 100, "max": len(ordered) - 1}
    return {name: round(ordered[place], 1) for name, place in places.items()}


def _spread(values: Sequence[float]) -> str:
    return ", ".join(f"{name} {value:,} ms" for name, value in _percentiles(values).items())


def _complain(figures: Figures) -> None:
    example = figures.unwell[0]
    reason = example.error.message if example.error is not None else example.reason or "no reason is known"
    count = f"{len(figures.unwell):,} job{'' if len(figures.unwell) == 1 else 's'}"
    say(printable(f"{count} did not succeed; {example.run_id} {example.status}: {reason}"))
    click.get_current_context().exit(RUN_FAILED)
