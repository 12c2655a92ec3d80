"""`timeball events`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from timeball.cli.output.failures import printable
from timeball.cli.session import CliSession, connected
from timeball.domain.task.kinds import KINDS

if TYPE_CHECKING:
    from timeball.client.models.events import StreamEvent


@click.command()
@click.option("--job", metavar="JOB", help="Only events of a job, by its id or name.")
@click.option("--run", metavar="RUN", help="Only events of a run.")
@click.option("--tag", metavar="TAG", help="Only events of jobs with this tag.")
@click.option("--status", metavar="STATUS", help="Only runs that reached this status; several with commas.")
@click.option("--kind", type=click.Choice([*KINDS, "workflow"]), help="Only events of jobs with this kind of task.")
@click.option("--after", metavar="ID", default="", help="Begin after the event with this id, if it is recent.")
@connected
def events(
    session: CliSession,
    *,
    job: str | None,
    run: str | None,
    tag: str | None,
    status: str | None,
    kind: str | None,
    after: str,
) -> None:
    """Print changes of runs, jobs and workers as they happen, until the command is interrupted.

    One line for each event on a terminal; in a pipe, or with -o json, a JSON object on each line. The stream is a hint,
    not a log: many changes at once are one summary, and `reset` says that some were lost. The command connects again
    when a server restarts, and ends with an error if no server answers for a minute.
    """
    stream = session.client.events(
        job_id=None if job is None else session.job_id(job),
        run_id=None if run is None else session.run_id(run),
        tag=tag,
        status=status,
        kind=kind,
        last_event_id=after,
    )
    if session.output.pretty:
        for event in stream:
            click.echo(printable(_line(event)))
        return
    import msgspec

    for event in stream:
        sys.stdout.buffer.write(msgspec.json.encode(event) + b"\n")
        sys.stdout.buffer.flush()


def _line(event: StreamEvent) -> str:
    if event.is_reset:
        return "events were lost"
    data = event.data
    at = "" if event.time is None else event.time.strftime("%H:%M:%S.%f")[:-3]
    name = data.get("jobName") or data.get("name") or data.get("jobId", "")
    words = [at, event.type.removeprefix("timeball."), str(name), (event.subject or "").partition("/")[2]]
    if "count" in data:
        counts = ", ".join(f"{count} {status}" for status, count in data.get("statuses", {}).items())
        words = [at, event.type.removeprefix("timeball."), counts]
    elif "progress" in data:
        words += [f"{data['progress']:.0%}", data.get("note", "")]
    elif data.get("attempt", 1) > 1:
        words.append(f"attempt {data['attempt']}")
    return "  ".join(word for word in words if word)
