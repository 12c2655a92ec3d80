"""Waiting for a run, with its progress on a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

import click

from timeball.cli.output.failures import RUN_FAILED, printable
from timeball.cli.session import CliSession

if TYPE_CHECKING:
    from timeball.client.models.runs import Run

T = TypeVar("T")

MAX_LINES: Final = 20
"""Maximum number of lines of output that are shown after a wait on a terminal."""


def wait_and_exit(session: CliSession, run_id: str, timeout: float | None) -> None:
    """Wait for a run. Exit with 0 if it succeeds, and with 1 if it ends in any other way."""
    run = _watched(session, run_id, timeout) if session.output.pretty else session.client.wait(run_id, timeout)
    _tell(session, run)
    if not run.succeeded:
        click.get_current_context().exit(RUN_FAILED)


def wait_or_say(session: CliSession, run_id: str, sentence: str, *, wait: bool) -> None:
    """With `--wait`, wait for a run and exit with its result. Without it, print the sentence that says that the run was
    created."""
    if wait:
        wait_and_exit(session, run_id, None)
    else:
        session.output.done(run_id, sentence)


def first_run(session: CliSession, job_id: str) -> str:
    """Wait until a job has a run, not until that run ends. Return its id."""
    return look_until(lambda: session.client.status(job_id).run_id)


def look_until(look: Callable[[], T | None], every: float = 0.2) -> T:
    """Call `look` until it returns a value, and return that. Restarts of servers are tolerated: `Unavailable` is raised
    only after 60 seconds without an answer, or if no server has answered before."""
    from timeball.client.retrying import Retrying
    from timeball.domain.errors import Unavailable

    retrying = Retrying()
    while True:
        try:
            if (seen := look()) is not None:
                return seen
            retrying.relax()
            pause = every
        except Unavailable as error:
            pause = retrying.pause(error)
        time.sleep(pause)


def _watched(session: CliSession, run_id: str, timeout: float | None) -> Run:
    from timeball.cli.output.output import console

    with console().status("waiting") as line:
        return session.client.wait(run_id, timeout, seen=lambda run: line.update(_how_it_goes(run)))


def _how_it_goes(run: Run) -> str:
    from rich.markup import escape

    parts = [run.status, str(run.progress or ""), run.progress_note]
    if run.attempt > 1:
        parts.append(f"attempt {run.attempt}")
    return escape(printable(" · ".join(part for part in parts if part)))


def _tell(session: CliSession, run: Run) -> None:
    if session.output.form == "json":
        from timeball.client.requests import runs as requests

        session.ask(requests.run(run.run_id))
        return
    sentence = f"{run.run_id} {run.status}"
    if session.output.pretty and run.job_name:
        sentence = f"{run.job_name} {sentence}"
    if run.error is not None and not run.succeeded:
        sentence += f": {run.error.message}"
    elif run.reason:
        sentence += f": {run.reason}"
    if session.output.pretty:
        click.secho(printable(sentence), fg="green" if run.succeeded else "red")
        _show_output(session, run)
    else:
        click.echo(f"{run.run_id}\t{run.status}")


def _show_output(session: CliSession, run: Run) -> None:
    """Print the last lines of the last attempt's output. If the output cannot be read, say so on stderr: such an error
    must not change the exit code of the command, which is that of the run."""
    from timeball.client.requests import runs as requests
    from timeball.domain.errors import TimeballError

    if not run.attempt:
        return
    try:
        output = session.client.send(requests.logs(run.run_id, attempt=run.attempt))
    except TimeballError as error:
        click.secho(printable(f"its output cannot be shown: {error.detail}"), dim=True, err=True)
        return
    lines = output.decode(errors="replace").splitlines()
    if len(lines) > MAX_LINES:
        click.secho(f"the last {MAX_LINES} of {len(lines):,} lines; all: timeball runs logs {run.run_id}", dim=True)
    for line in lines[-MAX_LINES:]:
        click.echo(printable(line.expandtabs()))
