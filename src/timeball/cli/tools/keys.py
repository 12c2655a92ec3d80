"""`timeball keys`: creates, lists, rotates and revokes API keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, get_args

import click

from timeball.cli import listing
from timeball.cli.lazy_group import LazyGroup
from timeball.cli.output.output import Column
from timeball.cli.session import CliSession, connected
from timeball.domain.identity.role import Role

if TYPE_CHECKING:
    from timeball.client.models.registry import Key


@click.group(cls=LazyGroup)
def keys() -> None:
    """Create, list, rotate and revoke API keys."""


@keys.command("create")
@click.option(
    "--role",
    type=click.Choice(get_args(Role)),
    required=True,
    help="The role of the key.",
)
@click.option("--name", default="", metavar="NAME", help="A name for the key, for lists.")
@click.option("--tenant", metavar="TENANT", help="The tenant of the key, if it is another one.")
@click.option("--user", "user_id", metavar="USER", help="The user of the key. Its role limits the key.")
@click.option("--scope", "scopes", multiple=True, metavar="PERMISSION", help="Only this permission. Repeatable.")
@click.option("--label", "labels", multiple=True, metavar="LABEL", help="Only label of its workers. Repeatable.")
@click.option(
    "--serves", "tenants", multiple=True, metavar="TENANT|*", help="Tenant that its workers serve. Repeatable."
)
@click.option("--expires", "expires_at", metavar="TIME", help="When the key expires (default: never).")
@connected
def create(
    session: CliSession, *, role: str, name: str, tenant: str | None, expires_at: str | None, **rules: Any
) -> None:
    """Create a key and print it. Timeball stores only its digest, so it cannot be printed again.

    \b
    Examples:
      timeball keys create --role worker --name rack-7
      (umask 077; timeball keys create --role worker > worker.key)
      timeball worker --server http://10.0.0.5:1300 --token-file worker.key
      timeball keys create --role worker --serves acme --serves beta --label gpu
      timeball keys create --role editor --user anna --scope read --expires 2036-01-01T00:00:00Z
    """
    from timeball.client.requests import registry as requests

    given = {_FIELDS[option]: value for option, value in rules.items() if value}
    key = session.ask(requests.create_key(role, name, given, tenant=tenant, expires_at=expires_at))
    if key is None:
        return
    click.echo(key.key)
    if session.output.pretty:
        click.echo(f"Store this {role} key: it is not shown again. To revoke it, use its id, {key.key_id}.", err=True)


@keys.command("rotate")
@click.argument("key_id", metavar="KEY_ID")
@click.option("--overlap", default="1d", show_default=True, metavar="TIME", help="How long the old key stays valid.")
@connected
def rotate(session: CliSession, key_id: str, *, overlap: str) -> None:
    """Create a key with the same rules and print it. The old key expires after the overlap."""
    from timeball.client.requests import registry as requests

    key = session.ask(requests.rotate_key(key_id, overlap))
    if key is None:
        return
    click.echo(key.key)
    if session.output.pretty:
        click.echo(f"Store this key: it is not shown again. Its id is {key.key_id}.", err=True)


@keys.command("list")
@listing.limits
@connected
def list_keys(session: CliSession, *, limit: int, everything: bool) -> None:
    """List keys, without their secrets."""
    from timeball.client.requests import registry as requests

    listing.show(
        session,
        lambda cursor: requests.keys(limit=limit, cursor=cursor),
        _COLUMNS,
        everything=everything,
        nothing="No keys.",
    )


@keys.command("revoke")
@click.argument("key_id", metavar="KEY_ID")
@connected
def revoke(session: CliSession, key_id: str) -> None:
    """Revoke a key. The server that gets the request refuses the key at once, other servers within 3 seconds."""
    from timeball.client.requests import registry as requests

    if session.ask(requests.revoke_key(key_id)) is not None:
        session.output.done(key_id, f"Revoked {key_id}.")


_FIELDS: Final = {"user_id": "userId", "scopes": "scopes", "labels": "labels", "tenants": "tenants"}
"""Options of the rules of a key, and the fields of the API that they set."""


def _rules(key: Key) -> str:
    given = {"user": key.user_id, "scopes": key.scopes, "labels": key.labels, "serves": key.tenants}
    return "; ".join(
        f"{name} {value if isinstance(value, str) else ', '.join(value)}" for name, value in given.items() if value
    )


_COLUMNS: list[Column[Key]] = [
    Column("id", lambda key: key.key_id),
    Column("role", lambda key: key.role),
    Column("name", lambda key: key.name),
    Column("rules", _rules),
    Column("created", lambda key: key.created_at),
    Column("last used", lambda key: key.last_used_at),
    Column("expires", lambda key: key.expires_at),
    Column("revoked", lambda key: key.revoked_at),
]
