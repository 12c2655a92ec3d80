"""`timeball sessions`: browsers that are signed in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from timeball.cli import listing
from timeball.cli.lazy_group import LazyGroup
from timeball.cli.output.output import Column
from timeball.cli.session import CliSession, connected

if TYPE_CHECKING:
    from timeball.client.models.sign_in import WebSession


@click.group(cls=LazyGroup)
def sessions() -> None:
    """List browsers that are signed in, and sign them out."""


@sessions.command("list")
@listing.limits
@connected
def list_sessions(session: CliSession, *, limit: int, everything: bool) -> None:
    """List browsers that are signed in, newest first."""
    from timeball.client.requests import sign_in as requests

    listing.show(
        session,
        lambda cursor: requests.sessions(limit=limit, cursor=cursor),
        _COLUMNS,
        everything=everything,
        nothing="No browser is signed in.",
    )


@sessions.command("revoke")
@click.argument("session_id", metavar="SESSION_ID")
@connected
def revoke(session: CliSession, session_id: str) -> None:
    """Sign a browser out. On other servers that takes up to 3 seconds."""
    from timeball.client.requests import sign_in as requests

    if session.ask(requests.revoke_session(session_id)) is not None:
        session.output.done(session_id, f"Revoked {session_id}.")


_COLUMNS: list[Column[WebSession]] = [
    Column("id", lambda found: found.id),
    Column("key", lambda found: found.name or found.key_id or ""),
    Column("role", lambda found: found.role),
    Column("created", lambda found: found.created_at),
    Column("last used", lambda found: found.last_used_at),
    Column("expires", lambda found: found.expires_at),
]
