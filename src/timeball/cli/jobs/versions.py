"""`timeball jobs versions`."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import click

from timeball.cli import listing
from timeball.cli.output.failures import printable
from timeball.cli.output.output import Column
from timeball.cli.session import CliSession, connected
from timeball.domain.errors import NotFound

if TYPE_CHECKING:
    from timeball.client.models.jobs import JobVersion

_READ_ONLY = ("scheduleType", "scheduleTime", "cronExpression", "maxRetries")
"""Fields of the API's answer that repeat parts of `schedule` and `retry`. Versions are compared without them."""


@click.command()
@click.argument("job", metavar="JOB")
@click.option(
    "--diff", "compared", type=int, nargs=2, metavar="FROM TO", help="Show what changed between two versions, as JSON."
)
@connected
def versions(session: CliSession, job: str, *, compared: tuple[int, int] | None) -> None:
    """List the definitions of a job, newest first: when each was made, by which key, and which fields it changed.

    At most 50 former definitions are listed. A pause or a resume increments the version number, but is
    not listed, because the definition stays the same.

    \b
    Examples:
      timeball jobs versions etl
      timeball jobs versions etl --diff 3 7
    """
    job_id = session.job_id(job)
    if compared is None:
        _list(session, job_id)
        return
    found = list(session.client.job_versions(job_id))
    old, new = (_in_force(found, number, job) for number in compared)
    for line in _difference(old, new):
        click.secho(printable(line), fg={"+": "green", "-": "red"}.get(line[:1]) if session.output.pretty else None)


def _list(session: CliSession, job_id: str) -> None:
    if session.output.form == "json":
        from timeball.client.requests import jobs as requests

        listing.show_json(session, lambda cursor: requests.versions(job_id, cursor=cursor), everything=True)
        return
    found = list(session.client.job_versions(job_id))
    changes = {new.version: _changed_fields(old.job, new.job) for new, old in pairwise(found)}
    columns: list[Column[JobVersion]] = [
        Column("version", lambda each: each.version),
        Column("at", lambda each: each.at),
        Column("by", lambda each: each.by),
        Column("changed", lambda each: changes.get(each.version, ["created"] if each.version == 1 else [])),
    ]
    session.output.table(columns, found, nothing="No versions.")


def _in_force(found: list[JobVersion], number: int, job: str) -> JobVersion:
    """Return the definition that the job had with this version number. Raise `NotFound` if it is no longer listed."""
    each = next((each for each in found if each.version <= number), None)
    if each is None:
        raise NotFound(f"version of job {job}", str(number))
    return each


def _difference(old: JobVersion, new: JobVersion) -> list[str]:
    import difflib
    import json

    before, after = (json.dumps(_defined(each.job), indent=2, ensure_ascii=False).splitlines() for each in (old, new))
    return list(difflib.unified_diff(before, after, f"version {old.version}", f"version {new.version}", lineterm=""))


def _changed_fields(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    before, after = _defined(old), _defined(new)
    return [name for name in {**before, **after} if before.get(name) != after.get(name)]


def _defined(job: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in job.items() if name not in _READ_ONLY}
