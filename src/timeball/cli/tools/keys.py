"""`timeball keys`: creates, lists and revokes API keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from timeball.cli.lazy_group import LazyGroup
from timeball.cli.output.output import Column
from timeball.cli.session import CliSession, connected

if TYPE_CHECKING:
    from timeball.client.models.registry import Key


@click.group(cls=LazyGroup)
def keys() -> None:
    """Create, list and revoke API keys."""


@keys.command("create")
@click.option("--role", type=click.Choice(["worker", "admin"]), required=True, help="The role of the key.")
@click.option("--name", default="", metavar="NAME", help="A name for the key, for lists.")
@connected
def create(session: CliSession, *, role: str, name: str) -> None:
    """Create a key and print it. Timeball stores only its digest, so it cannot be printed again.

    \b
    Examples:
      timeball keys create --role worker --name rack-7
      (umask 077; timeball keys create --role worker > worker.key)
      timeball worker --server http://10.0.0.5:1300 --token-file worker.key
    """
    from timeball.client.requests import registry as requests

    key = session.ask(requests.create_key(role, name))
    if key is None:
        return
    click.echo(key.key)
    if session.output.pretty:
        click.echo(f"Store this {role} key: it is not shown again. To revoke it, use its id, {key.key_id}.", err=True)


@keys.command("list")
@connected
def list_keys(session: CliSession) -> None:
    """List keys, without their secrets."""
    from timeball.client.requests import registry as requests

    answer = session.ask(requests.keys())
    if answer is not None:
        session.output.table(_COLUMNS, answer.items, nothing="No keys.")


@keys.command("revoke")
@click.argument("key_id", metavar="KEY_ID")
@connected
def revoke(session: CliSession, key_id: str) -> None:
    """Revoke a key. This takes effect at once on the server, and within 3 seconds on other servers."""
    from timeball.client.requests import registry as requests

    if session.ask(requests.revoke_key(key_id)) is not None:
        session.output.done(key_id, f"Revoked {key_id}.")


_COLUMNS: list[Column[Key]] = [
    Column("id", lambda key: key.key_id),
    Column("role", lambda key: key.role),
    Column("name", lambda key: key.name),
    Column("created", lambda key: key.created_at),
    Column("revoked", lambda key: key.revoked_at),
]
