"""Answers about web sessions (browsers that are signed in) and one-time links."""

from __future__ import annotations

from datetime import datetime

from timeball.client.models.model import Model


class SignInLink(Model, frozen=True):
    """A link that opens the web UI signed in, once."""

    url: str
    expires_at: datetime | None = None


class WebSession(Model, frozen=True):
    """A browser that is signed in. It acts with the tenant and the role of its key, or of the user that signed in."""

    id: str
    key_id: str | None = None
    """None: a user of the identity provider signed in."""
    name: str = ""
    role: str = ""
    created_at: datetime | None = None
    last_used_at: datetime | None = None
    expires_at: datetime | None = None


class WebSessions(Model, frozen=True):
    items: list[WebSession]
    next_cursor: str | None = None
