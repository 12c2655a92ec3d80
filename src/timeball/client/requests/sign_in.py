"""Requests about browsers that are signed in."""

from __future__ import annotations

from urllib.parse import quote

from timeball.client.models.sign_in import SignInLink, WebSessions
from timeball.client.requests.request import Request, get, post


def create_sign_in_link() -> Request[SignInLink]:
    return post("/v1/sign-in-links", SignInLink)


def sessions(*, limit: int | None = None, cursor: str | None = None) -> Request[WebSessions]:
    return get("/v1/sessions", WebSessions, limit=limit, cursor=cursor)


def revoke_session(session_id: str) -> Request[bytes]:
    path = f"/v1/sessions/{quote(session_id, safe='')}"
    return Request(method="DELETE", path=path, answer=bytes, repeatable=True)
