"""`timeball audit-log`: lists, exports and verifies the audit log."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, BinaryIO, Final

import click

from timeball.cli import listing
from timeball.cli.lazy_group import LazyGroup
from timeball.cli.output import times
from timeball.cli.output.failures import RUN_FAILED, printable
from timeball.cli.output.output import Column
from timeball.cli.session import CliSession, connected

if TYPE_CHECKING:
    from timeball.client.models.registry import AuditEntry
    from timeball.domain.audit_log.verification import ChainVerifier

MAX_SHOWN: Final = 20
"""Maximum number of problems that are printed one by one."""
_scope = click.option(
    "--scope",
    type=click.Choice(("tenant", "system")),
    default="tenant",
    show_default=True,
    help="The changes in the tenant of the key, or those that belong to no tenant.",
)


@click.group("audit-log", cls=LazyGroup)
def audit_log() -> None:
    """Show which credential changed what, when and from where; verify that no entry was changed or deleted."""


@audit_log.command("list")
@click.option("--actor", metavar="ACTOR", help="Id or name of a credential, or id of a user.")
@click.option("--action", metavar="ACTION", help="An action, such as job.pause; job.* for all of jobs.")
@click.option("--resource", metavar="ID", help="Id or name of what was changed.")
@click.option("--from", "since", metavar="WHEN", help="Start of the range: a time, or 24h for 24 hours ago.")
@click.option("--to", "until", metavar="WHEN", help="End of the range: a time, or 1h for one hour ago.")
@_scope
@listing.limits
@connected
def list_entries(
    session: CliSession,
    *,
    actor: str | None,
    action: str | None,
    resource: str | None,
    since: str | None,
    until: str | None,
    scope: str,
    limit: int,
    everything: bool,
) -> None:
    """List entries, newest first. With -o json, they have the values before and after each change.

    \b
    Examples:
      timeball audit-log list --action "job.*" --from 24h
      timeball audit-log list --actor anna -o json
    """
    from timeball.client.requests import audit_log as requests
    from timeball.system import wall

    now = wall()
    start = times.when(since, now, past=True) if since else None
    end = times.when(until, now, past=True) if until else None
    listing.show(
        session,
        lambda cursor: requests.audit_log(
            scope=scope,
            actor=actor,
            action=action,
            resource=resource,
            since=start,
            until=end,
            limit=limit,
            cursor=cursor,
        ),
        _COLUMNS,
        everything=everything,
        nothing="No entries.",
        at_least=1,
    )


@audit_log.command("export")
@click.option("--file", "path", type=click.Path(dir_okay=False, writable=True), help="The file to write.")
@_scope
@connected
def export(session: CliSession, *, path: str | None, scope: str) -> None:
    """Write all entries, oldest first, as one line of JSON each, to standard output or a file.

    The first line has the number and the hash of the last entry. An export that is not complete does not verify.
    """
    lines = session.client.export_audit_log(scope=scope)
    if path is None:
        _write(lines, sys.stdout.buffer)
        return
    with open(path, "wb") as file:
        count = _write(lines, file)
    session.output.done(path, f"Wrote {count - 1} entries to {path}.")


@audit_log.command("verify")
@click.argument("file", required=False, type=click.File("rb"))
@click.option(
    "--anchor", metavar="NUMBER:HASH", help="An entry that an earlier verification printed. It must still be there."
)
@_scope
@connected
@click.pass_context
def verify(
    context: click.Context, session: CliSession, *, file: BinaryIO | None, anchor: str | None, scope: str
) -> None:
    """Compute the hash of every entry again, in the store or in an export. Exits with 1 if an entry was changed, added
    or deleted, and names it.

    An attacker with all rights on the database could write a whole chain again, with new hashes. To recognize that,
    keep the last line of a verification elsewhere, and give it as the anchor of a later one.

    \b
    Examples:
      timeball audit-log verify
      timeball audit-log export --file audit.ndjson && timeball audit-log verify audit.ndjson
    """
    from timeball.domain.audit_log.document import AuditExport
    from timeball.domain.audit_log.verification import ChainVerifier

    found = AuditExport(session.client.export_audit_log(scope=scope) if file is None else file)
    verifier = ChainVerifier(found.chain, _anchor(anchor))
    for entry in found.entries():
        verifier.add(entry)
    verifier.finish(found.head)
    _report(session, verifier)
    if verifier.problems:
        context.exit(RUN_FAILED)


def _write(lines: Iterable[bytes], file: BinaryIO) -> int:
    count = 0
    for line in lines:
        file.write(line)
        count += 1
    file.flush()
    return count


def _anchor(text: str | None) -> tuple[int, str] | None:
    if text is None:
        return None
    number, _, digest = text.partition(":")
    if not (number.isascii() and number.isdigit() and len(number) <= 18 and len(digest) == 64):
        raise click.BadParameter(
            "an anchor is the number and the hash of an entry, such as 12:0a1b…", param_hint="--anchor"
        )
    return int(number), digest


def _report(session: CliSession, verifier: ChainVerifier) -> None:
    last = verifier.last
    anchor = None if last is None else f"{last.seq}:{last.hash}"
    if session.output.form == "json":
        import msgspec

        problems = [
            {"kind": each.kind.value, "seq": each.seq, "last": each.last, "detail": each.sentence}
            for each in verifier.problems
        ]
        found = {"chain": verifier.chain, "entries": verifier.count, "anchor": anchor, "problems": problems}
        session.output.json(msgspec.json.encode(found))
        return
    name = "the system" if verifier.chain == "*" else f"the tenant {verifier.chain}"
    for each in verifier.problems[:MAX_SHOWN]:
        click.echo(printable(f"The audit log of {name}: {each.sentence}."), err=True)
    further = len(verifier.problems) - MAX_SHOWN + verifier.uncounted
    if further > 0:
        click.echo(f"There are {further} further problems.", err=True)
    if not verifier.problems:
        click.echo(printable(f"{verifier.count} entries of {name} are as they were written."))
        if anchor is not None:
            click.echo(anchor)


def _changed(entry: AuditEntry) -> str:
    names = dict.fromkeys((*(entry.before or {}), *(entry.after or {})))
    return ", ".join(names)


_COLUMNS: list[Column[AuditEntry]] = [
    Column("at", lambda entry: entry.at),
    Column("actor", lambda entry: entry.actor.user_id or entry.actor.name),
    Column("from", lambda entry: entry.address, optional=True),
    Column("action", lambda entry: entry.action),
    Column("resource", lambda entry: entry.resource_id),
    Column("changed", _changed, optional=True),
    Column("entry", lambda entry: entry.seq, optional=True),
]
