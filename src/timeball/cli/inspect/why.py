"""`timeball why`: why a job or a run waits, did not run, or was late."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from timeball.cli.inspect.audit import EXCEPTIONS
from timeball.cli.output.failures import printable
from timeball.cli.output.output import Column
from timeball.cli.session import CliSession, connected
from timeball.domain.ids import is_id
from timeball.domain.run.status import TERMINAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timeball.client.models.diagnosis import JobWhy, Reason, RunWhy


@click.command(short_help="Explain why a job or a run waits, did not run, or was late.")
@click.argument("ident", metavar="JOB|RUN")
@connected
def why(session: CliSession, ident: str) -> None:
    """Explain why a job or a run waits, did not run, or was late.

    Prints the answer in one sentence, then all other reasons, and what would resolve each of them. JOB is the name or
    the id of a job, RUN the id of a run.

    \b
    Examples:
      timeball why etl
      timeball why r_0194f3a1c2b79f86d081884c7d65
    """
    from timeball.client.requests import jobs as job_requests
    from timeball.client.requests import runs as run_requests

    if is_id("r", ident):
        run = session.ask(run_requests.why_run(ident))
        if run is not None:
            _tell_run(session, run)
        return
    job = session.ask(job_requests.why_job(session.job_id(ident)))
    if job is not None:
        _tell_job(session, job)


def _tell_run(session: CliSession, run: RunWhy) -> None:
    called = f" of {run.job_name}" if run.job_name else ""
    _answer(session, run.answer, f"Run {run.run_id}{called} is {run.status}.")
    _reasons(session, run.reasons, run.answer)


def _tell_job(session: CliSession, job: JobWhy) -> None:
    _answer(session, job.answer, f"Job {job.job_name or job.job_id} is {_state(job)}.")
    reasons = job.reasons if job.run is None else [*job.reasons, *job.run.reasons]
    if job.run is not None and job.answer == job.run.answer:
        reasons = [*job.run.reasons, *job.reasons]
    _reasons(session, reasons, job.answer)
    if job.run is not None and session.output.pretty:
        click.secho(f"\nThe reasons are those of run {job.run.run_id}, which is {job.run.status}.", dim=True)
    if job.exceptions:
        click.echo("\nThe newest fires that did not start on time:" if session.output.pretty else "")
        session.output.table(EXCEPTIONS, job.exceptions, nothing="")


def _state(job: JobWhy) -> str:
    """Return the state as `jobs list` shows it: an active job without a further fire and without a live run is
    completed."""
    ended = job.state == "active" and any(reason.code in _ENDED for reason in job.reasons)
    return "completed" if ended and (job.run is None or job.run.status in TERMINAL) else job.state


def _answer(session: CliSession, answer: str, subject: str) -> None:
    if session.output.pretty:
        click.secho(printable(subject), dim=True)
        click.echo()
    click.secho(printable(answer), bold=session.output.pretty)


def _reasons(session: CliSession, reasons: Sequence[Reason], answer: str) -> None:
    if not session.output.pretty:
        session.output.table(_COLUMNS, reasons, nothing="")
        return
    for reason in reasons:
        if reason.text != answer:
            click.echo(f"\n{printable(reason.text)}")
        if reason.unblocks:
            click.secho(f"  → {printable(reason.unblocks)}", fg="cyan")


_ENDED = ("completed", "exhausted", "ended")
"""The codes of the reasons of jobs that have no further fire."""
_COLUMNS: list[Column[Reason]] = [
    Column("code", lambda reason: reason.code),
    Column("reason", lambda reason: reason.text),
    Column("unblocks", lambda reason: reason.unblocks),
    Column("since", lambda reason: reason.since),
    Column("until", lambda reason: reason.until),
    Column("run", lambda reason: reason.run_id),
]
