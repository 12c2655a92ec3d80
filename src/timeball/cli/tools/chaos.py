"""`timeball chaos`: breaks a fleet and checks the promises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from timeball.chaos.bugs import BUGS
from timeball.cli.output.failures import RUN_FAILED, printable
from timeball.cli.output.output import Column, Form, Output
from timeball.cli.session import output_option

if TYPE_CHECKING:
    from timeball.chaos.campaign import Outcome, Settings

KINDS: Final = ("kill", "pause", "cut", "hang", "delay", "restart")
MAX_PROCESSES: Final = 50


def _kinds(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    if value is None or value == "none":
        return None if value is None else ()
    kinds = tuple(dict.fromkeys(word.strip() for word in value.split(",") if word.strip()))
    for kind in kinds:
        if kind not in KINDS:
            raise click.BadParameter(f"{kind!r} is not a fault; use one or more of {','.join(KINDS)}")
    return kinds


@click.command(short_help="Break a fleet on purpose, and check every promise.")
@click.option(
    "--minutes",
    type=click.FloatRange(0.05, 24 * 60),
    default=2.0,
    show_default=True,
    metavar="N",
    help="Minutes during which jobs are submitted and faults are injected.",
)
@click.option(
    "--seed", type=int, metavar="N", help="Seed of the faults; the same seed gives the same faults at the same times."
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 5_000),
    default=100,
    show_default=True,
    metavar="N",
    help="Fires per second: two thirds from jobs that repeat every second, one third from new jobs.",
)
@click.option(
    "--servers",
    type=click.IntRange(1, MAX_PROCESSES),
    default=3,
    show_default=True,
    metavar="N",
    help="Servers in the fleet.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, MAX_PROCESSES),
    default=4,
    show_default=True,
    metavar="N",
    help="Workers in the fleet.",
)
@click.option(
    "--faults",
    callback=_kinds,
    metavar="KIND[,KIND…]",
    help="Faults to inject: one or more of kill, pause, cut, hang, delay, restart, or none (default: all).",
)
@click.option(
    "--every", type=click.FloatRange(0.1), default=2.0, show_default=True, metavar="S", help="Seconds between faults."
)
@click.option("--store", metavar="DSN", help="An empty PostgreSQL database for the fleet (default: start one).")
@click.option("--plant", type=click.Choice(list(BUGS)), help="Plant this bug in the fleet, to check that it is found.")
@click.option("--url", metavar="URL[,URL…]", help="Check an existing fleet instead of starting one.")
@click.option("--token-file", metavar="PATH", help="With --url: a file with the API key (TIMEBALL_TOKEN_FILE).")
@click.option(
    "--token",
    "--key",
    metavar="KEY",
    help="With --url: the API key; other users can see it in the list of processes (TIMEBALL_TOKEN).",
)
@click.option("--break", "command", metavar="COMMAND", help="With --url: a command that sh runs to cause each fault.")
@click.option("--keep", metavar="FOLDER", help="Keep the logs and all data that was checked in this folder.")
@output_option
def chaos(*, form: Form | None, minutes: float, seed: int | None, **given: Any) -> None:
    """Break a fleet on purpose, and check that every promise held.

    Starts servers and workers as real processes on their own PostgreSQL, and submits a known load of jobs that record
    their own executions. At the same time it kills (-9) and pauses servers and workers, cuts, silences (hang) and
    delays their connections, and restarts the database. Then it waits until all runs have ended, and compares the
    accepted jobs, the records of the jobs and the ledger. It removes everything that it started.

    With --url it submits its load to an existing fleet and checks the ledger; it injects no faults without --break.
    The jobs have the name timeball-chaos, do nothing, and stay in the history.

    Exits with 1 if a fire was lost, early, run twice or stuck.

    \b
    Examples:
      timeball chaos
      timeball chaos --minutes 10 --jobs 300 --faults kill,pause --seed 7
      timeball chaos --minutes 0.5 --plant no-rescue
      timeball chaos --url https://staging.example.com --token-file FILE --break 'kubectl delete pod -l app=timeball'
    """
    from timeball import system

    output = Output(form)
    settings = _settings(minutes * 60, system.rng().getrandbits(31) if seed is None else seed, given)
    outcome = _run(settings, output)
    if output.form == "json":
        import msgspec

        from timeball.chaos import report

        output.json(msgspec.json.encode(report.as_json(settings, outcome)))
    else:
        _show(settings, outcome, output)
    if outcome.judgement.violations:
        click.get_current_context().exit(RUN_FAILED)


def _settings(seconds: float, seed: int, given: dict[str, Any]) -> Settings:
    from timeball import config
    from timeball.chaos.campaign import Settings

    url, token, token_file, command = given["url"], given["token"], given["token_file"], given["command"]
    kinds, store, plant = given["faults"], given["store"], given["plant"]
    if url is None:
        if command is not None or token is not None or token_file is not None:
            raise click.UsageError("--break and --token-file need --url; without --url, chaos starts its own fleet")
        if store is not None and kinds is not None and "restart" in kinds:
            raise click.UsageError("chaos restarts only a database that it started; leave out --store or restart")
        if kinds is None:
            kinds = KINDS if store is None else tuple(kind for kind in KINDS if kind != "restart")
    else:
        if store is not None or plant is not None or kinds is not None:
            raise click.UsageError("--store, --plant and --faults are for a fleet that chaos starts; leave out --url")
        settings = config.client({"url": url, "token": token, "token_file": token_file})
        url, token = ",".join(settings.servers), settings.token
        kinds = () if command is None else ("command",)
    return Settings(
        seconds=seconds,
        seed=seed,
        fires=given["jobs"],
        every=given["every"],
        kinds=kinds,
        servers=given["servers"],
        workers=given["workers"],
        store=store,
        plant=plant,
        url=url,
        token=token,
        command=command,
        keep=given["keep"],
    )


def _run(settings: Settings, output: Output) -> Outcome:
    import asyncio

    from timeball.chaos import campaign

    if not output.pretty:
        return asyncio.run(campaign.run(settings, _Lines()))
    from timeball.cli.output.output import console

    with console().status("") as status:
        return asyncio.run(campaign.run(settings, _Status(status)))


class _Lines:
    """Progress in a pipe: plain lines on stderr, apart from the result."""

    def stage(self, text: str) -> None:
        click.echo(text, err=True)

    def event(self, seconds: float, text: str) -> None:
        click.echo(f"{seconds:6.1f} s  {text}", err=True)


class _Status:
    """Progress on a terminal: one line that is updated, and the faults above it."""

    def __init__(self, status: Any) -> None:
        self._status = status

    def stage(self, text: str) -> None:
        self._status.update(text)

    def event(self, seconds: float, text: str) -> None:
        self._status.console.print(f"[bright_black]{seconds:6.1f} s[/]  {text}")


def _show(settings: Settings, outcome: Outcome, output: Output) -> None:
    from timeball.chaos import report

    where = settings.url or f"{settings.servers} servers, {settings.workers} workers, PostgreSQL"
    planted = [] if settings.plant is None else [("planted", BUGS[settings.plant])]
    output.fields([("fleet", where), ("seed", str(settings.seed)), *planted, *report.summary(outcome)])
    recoveries = report.recoveries(outcome)
    if recoveries:
        click.echo()
        output.table(RECOVERIES, recoveries, nothing="")
    click.echo()
    for line in report.examples(outcome.judgement):
        click.echo(printable(line))
    well = not outcome.judgement.violations
    click.secho(report.verdict(outcome.judgement), fg="green" if well else "red", bold=True)


RECOVERIES: list[Column[tuple[str, int, int, str, str, str]]] = [
    Column("fault", lambda row: row[0]),
    Column("times", lambda row: row[1]),
    Column("runs held up", lambda row: row[2]),
    Column("p50", lambda row: row[3]),
    Column("p99", lambda row: row[4]),
    Column("max", lambda row: row[5]),
]
