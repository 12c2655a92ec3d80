"""`timeball chaos`: does every promise hold when things break?"""

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
MOST: Final = 50


def _kinds(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    if value is None or value == "none":
        return None if value is None else ()
    kinds = tuple(dict.fromkeys(word.strip() for word in value.split(",") if word.strip()))
    for kind in kinds:
        if kind not in KINDS:
            raise click.BadParameter(f"{kind!r} is no fault; use some of {','.join(KINDS)}")
    return kinds


@click.command(short_help="Break a fleet on purpose, and check every promise.")
@click.option(
    "--minutes",
    type=click.FloatRange(0.05, 24 * 60),
    default=2.0,
    show_default=True,
    metavar="N",
    help="How long jobs are submitted and things are broken.",
)
@click.option("--seed", type=int, metavar="N", help="The same seed breaks the same things at the same time.")
@click.option(
    "--jobs",
    type=click.IntRange(1, 5_000),
    default=100,
    show_default=True,
    metavar="N",
    help="Fires per second: two thirds of jobs that repeat every second, one third of new jobs.",
)
@click.option(
    "--servers", type=click.IntRange(1, MOST), default=3, show_default=True, metavar="N", help="In the fleet."
)
@click.option(
    "--workers", type=click.IntRange(1, MOST), default=4, show_default=True, metavar="N", help="In the fleet."
)
@click.option(
    "--faults",
    callback=_kinds,
    metavar="KIND[,KIND…]",
    help="Some of kill, pause, cut, hang, delay, restart; all of them by default; or none.",
)
@click.option(
    "--every", type=click.FloatRange(0.1), default=2.0, show_default=True, metavar="S", help="Seconds between faults."
)
@click.option("--store", metavar="DSN", help="An empty PostgreSQL database for the fleet; one is started by default.")
@click.option("--plant", type=click.Choice(list(BUGS)), help="Put this bug into the fleet, to see it found.")
@click.option("--url", metavar="URL[,URL…]", help="Do not start a fleet: judge the one that is there.")
@click.option("--token-file", metavar="PATH", help="A file with the key to use with --url (TIMEBALL_TOKEN_FILE).")
@click.option("--token", "--key", metavar="KEY", help="The key itself; others can read it here (TIMEBALL_TOKEN).")
@click.option("--break", "command", metavar="COMMAND", help="With --url: what sh runs for every fault, to cause it.")
@click.option("--keep", metavar="FOLDER", help="Keep the logs and everything that was judged in this folder.")
@output_option
def chaos(*, form: Form | None, minutes: float, seed: int | None, **given: Any) -> None:
    """Break a fleet on purpose, and check that every promise held.

    Starts servers and workers as real processes on a PostgreSQL of their own, submits a known load of jobs that write
    down themselves when they run, and meanwhile kills (-9) and pauses servers and workers, cuts, silences (hang) and
    delays their connections, and restarts the database. Then it waits until everything is quiet and compares what was
    promised, what the jobs wrote down and what the ledger says. Nothing of it is left afterwards.

    With --url it submits its load to a fleet that is there, and judges the ledger; nothing is broken unless --break
    says how. The jobs stay in the history; they are called timeball-chaos and do nothing.

    Exits with 1 if a fire was lost, early, doubled or got stuck.

    \b
    Examples:
      timeball chaos
      timeball chaos --minutes 10 --jobs 300 --faults kill,pause --seed 7
      timeball chaos --minutes 0.5 --plant no-rescue
      timeball chaos --url https://staging.example.com --token-file FILE --break 'kubectl delete pod -l app=timeball'
    """
    from timeball import system

    output = Output(form)
    settings = _settings(minutes * 60, system.dice().getrandbits(31) if seed is None else seed, given)
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
            raise click.UsageError("--break and --token-file need --url; without it, chaos breaks a fleet of its own")
        if store is not None and kinds is not None and "restart" in kinds:
            raise click.UsageError("chaos restarts only a database that it started itself; leave --store or restart")
        if kinds is None:
            kinds = KINDS if store is None else tuple(kind for kind in KINDS if kind != "restart")
    else:
        if store is not None or plant is not None or kinds is not None:
            raise click.UsageError("--store, --plant and --faults are for a fleet that chaos starts; leave --url")
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
    """Progress in a pipe: plain lines, beside what is printed in the end."""

    def stage(self, text: str) -> None:
        click.echo(text, err=True)

    def event(self, seconds: float, text: str) -> None:
        click.echo(f"{seconds:6.1f} s  {text}", err=True)


class _Status:
    """Progress on a terminal: one line that changes, and the faults above it."""

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
