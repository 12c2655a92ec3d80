"""`timeball stats`: how runs ended lately, what is alive now, what fires next, and what needs attention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import click

from timeball.cli.output import times
from timeball.cli.output.failures import printable
from timeball.cli.session import CliSession, connected
from timeball.domain.instant import Micros

if TYPE_CHECKING:
    from timeball.client.models.overview import Stats

BARS: Final = "▁▂▃▄▅▆▇█"


@click.command(short_help="Show how runs ended lately, and what needs attention.")
@click.option(
    "--window",
    type=click.Choice(["5m", "1h", "24h"]),
    default="1h",
    show_default=True,
    help="How far back the statistics reach.",
)
@connected
def stats(session: CliSession, *, window: Literal["5m", "1h", "24h"]) -> None:
    """Show how runs ended lately, what is alive now, what fires next, and what needs attention.

    Statistics are a few seconds behind. `timeball audit JOB` accounts for every fire.

    \b
    Examples:
      timeball stats
      timeball stats --window 24h
    """
    from timeball.client.requests import overview as requests
    from timeball.system import wall

    found = session.ask(requests.stats(window))
    if found is None:
        return
    session.output.fields(_numbers(found, pretty=session.output.pretty))
    if not session.output.pretty:
        for fire in found.up_next:
            click.echo(f"next\t{times.exact(fire.fire_time)}\t{fire.job_id}\t{printable(fire.job_name)}")
        for item in found.attention:
            place = item.run_id or item.job_id or ""
            click.echo(f"attention\t{item.kind}\t{item.count}\t{place}\t{printable(item.message)}")
        return
    _print_next(found, wall())
    _print_attention(found, wall())


def _numbers(found: Stats, *, pretty: bool) -> list[tuple[str, Any]]:
    totals, now, workers = found.totals, found.now, found.workers
    rate = None if totals.success_rate is None else f"{totals.success_rate:.2%}" if pretty else totals.success_rate
    more = " or more" if now.capped and pretty else ""
    numbers: list[tuple[str, Any]] = [
        ("window", found.window),
        ("finished", totals.finished),
        ("succeeded", totals.succeeded),
        ("failed", totals.failed),
        ("dead", totals.dead),
        ("cancelled", totals.cancelled),
        ("skipped", totals.skipped),
        ("missed", totals.missed),
        ("success rate", rate),
        ("runs per second", round(totals.runs_per_second, 3)),
        ("start lateness p50", _duration(totals.late_p50_ms, pretty=pretty)),
        ("start lateness p99", _duration(totals.late_p99_ms, pretty=pretty)),
        ("scheduled now", now.scheduled),
        ("blocked now", now.blocked),
        ("queued now", now.queued),
        ("oldest queued", _duration(now.oldest_queued_age_ms, pretty=pretty)),
        ("running now", now.running),
        ("retrying now", now.retrying),
        ("dead letters", now.dead_letters),
        ("jobs", now.jobs),
        ("paused jobs", now.paused_jobs),
        ("workers", workers.live),
        ("slots busy", f"{workers.busy}/{workers.slots}"),
    ]
    if not pretty:
        return numbers
    shown = [
        (name, f"{value:,}{more if name in _CAPPED else ''}" if isinstance(value, int) else value)
        for name, value in numbers
    ]
    # On a terminal, counts of zero are left out, except those in `_ALWAYS`.
    kept = [(name, value) for name, value in shown if value != "0" or name in _ALWAYS]
    return [*kept[:2], ("", sparkline([bucket.finished for bucket in found.buckets])), *kept[2:]]


_CAPPED: Final = {"scheduled now", "blocked now", "queued now", "running now", "retrying now", "dead letters", "jobs"}
_ALWAYS: Final = {"finished", "queued now", "running now", "dead letters", "jobs", "workers"}


def sparkline(values: list[int]) -> str:
    """Return one bar for each value, with a height in proportion to it. A value above zero has a bar that is visible
    beside zero."""
    most = max(values, default=0)
    if not most:
        return ""
    return "".join(BARS[0] if not value else BARS[max(1, round(value / most * 7))] for value in values)


def _duration(milliseconds: float | None, *, pretty: bool) -> str | None:
    if milliseconds is None:
        return None
    if not pretty:
        return f"{milliseconds:g} ms"
    return f"{milliseconds:.0f} ms" if milliseconds < 10_000 else f"{milliseconds / 1_000:,.0f} s"


def _print_next(found: Stats, now: Micros) -> None:
    if not found.up_next:
        return
    click.echo("\nUp next")
    for fire in found.up_next:
        click.echo(f"  {times.relative(fire.fire_time, now):>12}  {printable(fire.job_name or fire.job_id)}")


def _print_attention(found: Stats, now: Micros) -> None:
    if not found.attention:
        return
    click.echo("\nNeeds attention")
    for item in found.attention:
        about = f"{printable(item.job_name)}: " if item.job_name else ""
        click.secho(f"  {about}{printable(item.message)} ({times.relative(item.since, now)})", fg="yellow")
