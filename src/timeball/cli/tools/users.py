"""`timeball users`: creates, lists, changes and deletes users of the tenant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from timeball.cli import listing
from timeball.cli.lazy_group import LazyGroup
from timeball.cli.output.output import Column
from timeball.cli.session import CliSession, connected

if TYPE_CHECKING:
    from timeball.client.models.registry import User

_ROLE: Final = click.Choice(("viewer", "operator", "editor", "admin", "system"))
_user_id = click.argument("user_id", metavar="USER")


@click.group(cls=LazyGroup)
def users() -> None:
    """Manage the users of the tenant. Their role limits their keys."""


def _fields(command: Any) -> Any:
    command = click.option("--subject", metavar="ID", help="The user's id at the identity provider.")(command)
    command = click.option("--email", metavar="ADDRESS", help="The address for notifications.")(command)
    return click.option("--name", metavar="NAME", help="A name for people.")(command)


@users.command("create")
@_user_id
@click.option("--role", type=_ROLE, required=True, help="The highest role of the user.")
@_fields
@connected
def create(session: CliSession, user_id: str, **flags: Any) -> None:
    """Create a user. Jobs that its credentials create have its id.

    \b
    Examples:
      timeball users create anna --role editor --email anna@example.org
      timeball keys create --role editor --user anna
    """
    from timeball.client.requests import tenants as requests

    given = {name: value for name, value in flags.items() if value is not None}
    if session.ask(requests.create_user(user_id, given)) is not None:
        session.output.done(user_id, f"Created the user {user_id}.")


@users.command("update")
@_user_id
@click.option("--role", type=_ROLE, help="The highest role of the user.")
@click.option("--disable", "state", flag_value="disabled", help="Refuse its credentials.")
@click.option("--enable", "state", flag_value="active", help="Accept its credentials again.")
@_fields
@connected
def update(session: CliSession, user_id: str, **flags: Any) -> None:
    """Change a user. A change takes effect within 3 seconds."""
    from timeball.client.requests import tenants as requests

    given = {name: value for name, value in flags.items() if value is not None}
    if not given:
        raise click.UsageError("give what to change, such as --role viewer")
    if session.ask(requests.update_user(user_id, given)) is not None:
        session.output.done(user_id, f"Changed the user {user_id}.")


@users.command("list")
@listing.limits
@connected
def list_users(session: CliSession, *, limit: int, everything: bool) -> None:
    """List users."""
    from timeball.client.requests import tenants as requests

    listing.show(
        session,
        lambda cursor: requests.users(limit=limit, cursor=cursor),
        _COLUMNS,
        everything=everything,
        nothing="No users.",
    )


@users.command("delete")
@_user_id
@connected
def delete(session: CliSession, user_id: str) -> None:
    """Delete a user, and revoke its keys. Its jobs stay."""
    from timeball.client.requests import tenants as requests

    if session.ask(requests.delete_user(user_id)) is not None:
        session.output.done(user_id, f"Deleted the user {user_id}.")


_COLUMNS: list[Column[User]] = [
    Column("user", lambda user: user.user_id),
    Column("role", lambda user: user.role),
    Column("state", lambda user: user.state),
    Column("name", lambda user: user.name),
    Column("email", lambda user: user.email),
    Column("last seen", lambda user: user.last_seen_at),
]
