"""Requests about browsers that are signed in."""

from __future__ import annotations

from urllib.parse import quote

from timeball.client.models.sign_in import SignInLink, WebSessions
from timeball.client.requests.request import ApiRequest, get, post


def create_sign_in_link() -> ApiRequest[SignInLink]:
    return post("/v1/sign-in-links", SignInLink)


def sessions(*, limit: int | None = None, cursor: str | None = None) -> ApiRequest[WebSessions]:
    return get("/v1/sessions", WebSessions, limit=limit, cursor=cursor)


def revoke_session(session_id: str) -> ApiRequest[bytes]:
    path = f"/v1/sessions/{quote(session_id, safe='')}"
    return ApiRequest(method="DELETE", path=path, answer=bytes, repeatable=True)
