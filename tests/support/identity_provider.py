"""An identity provider for tests: OpenID Connect over real HTTP. Its users sign in without a password."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from aiohttp import web

from tests.support.http_target import serving
from tests.support.tokens import SigningKey, key_set, signing_key

CLIENT_ID = "timeball-ui"
CLIENT_SECRET = "a-secret:of+the-client/"


class IdentityProvider:
    """Signs every user in as `user`. A test changes its keys, its answers and its failures."""

    def __init__(self) -> None:
        self.url = ""
        self.key = signing_key("p256", "first")
        self.published: list[SigningKey] = [self.key]
        self.user: dict[str, Any] = {"sub": "user-1", "name": "Ada", "tenant": "default", "role": "editor"}
        self.clock: Any = None
        """Returns the time of issued tokens in seconds."""
        self.secret: str | None = CLIENT_SECRET
        self.requests: list[str] = []
        """The paths of all requests."""
        self.answers: dict[str, web.Response] = {}
        """Answers by path, instead of the usual ones."""
        self.hangs = False
        self.changed_claims: dict[str, Any] = {}
        """Claims of ID tokens that differ from the usual ones."""
        self.metadata: dict[str, Any] = {}
        """Members of the discovery document that differ from the usual ones."""
        self._codes: dict[str, dict[str, str]] = {}

    def count(self, path: str) -> int:
        return self.requests.count(path)

    def rotate(self, key_id: str, *, keep: bool = True) -> None:
        """Sign with a new key. The old one is published further if it is kept."""
        self.key = signing_key("p256", key_id)
        self.published = [*(self.published if keep else []), self.key]

    def authorize(self, url: str) -> str:
        """Sign a user in, as the provider's page does: return the address that the browser is sent back to."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert asked["response_type"] == "code"
        assert asked["client_id"] == CLIENT_ID
        assert asked["code_challenge_method"] == "S256"
        assert "openid" in asked["scope"].split()
        code = f"code-{len(self._codes)}"
        self._codes[code] = asked
        back = {"code": code, "state": asked["state"], "iss": self.url}
        return f"{asked['redirect_uri']}?{urlencode(back)}"

    def issue(self, audience: str, **changed: Any) -> str:
        """A token for the user."""
        now = int(self.clock())
        content = {"iss": self.url, "aud": audience, "iat": now, "exp": now + 300, **self.user, **changed}
        return self.key.token({name: value for name, value in content.items() if value is not None})

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request.path)
        if self.hangs:
            await asyncio.sleep(60)
        if (answer := self.answers.get(request.path)) is not None:
            return web.Response(status=answer.status, body=answer.body, headers=answer.headers)
        match request.path:
            case "/.well-known/openid-configuration":
                return web.json_response(self._metadata())
            case "/keys":
                return web.Response(body=key_set(*self.published), content_type="application/json")
            case "/token":
                return await self._token(request)
            case "/authorize":
                raise web.HTTPFound(self.authorize(str(request.url)))
            case "/end":
                raise web.HTTPFound(request.query["post_logout_redirect_uri"])
            case _:
                return web.Response(status=404)

    def _metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "end_session_endpoint": f"{self.url}/end",
            **self.metadata,
        }

    async def _token(self, request: web.Request) -> web.Response:
        form = await request.post()
        asked = self._codes.pop(str(form.get("code")), None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(str(form.get("code_verifier")).encode()).digest())
        if asked is None or asked["code_challenge"] != challenge.rstrip(b"=").decode():
            return web.json_response({"error": "invalid_grant"}, status=400)
        if asked["redirect_uri"] != form.get("redirect_uri") or not self._is_client(request, dict(form)):
            return web.json_response({"error": "invalid_client"}, status=401)
        token = self.issue(CLIENT_ID, **{"nonce": asked["nonce"], **self.changed_claims})
        return web.json_response({"access_token": "opaque", "token_type": "Bearer", "id_token": token})

    def _is_client(self, request: web.Request, form: dict[str, Any]) -> bool:
        if self.secret is None:
            return form.get("client_id") == CLIENT_ID
        if "client_secret_post" in self.metadata.get("token_endpoint_auth_methods_supported", []):
            return form.get("client_secret") == self.secret
        given = request.headers.get("Authorization", "").removeprefix("Basic ")
        return base64.b64decode(given) == b"timeball-ui:a-secret%3Aof%2Bthe-client%2F"


@asynccontextmanager
async def identity_provider(clock: Any) -> AsyncIterator[IdentityProvider]:
    """`clock` returns the time of issued tokens in seconds."""
    provider = IdentityProvider()
    provider.clock = clock
    async with serving(provider.handle) as url:
        provider.url = url.rstrip("/")
        yield provider


@contextmanager
def provider_in_a_thread() -> Iterator[IdentityProvider]:
    """Start a provider for processes."""
    started: list[IdentityProvider] = []
    ready, loop = threading.Event(), asyncio.new_event_loop()
    stopping = asyncio.Event()

    async def main() -> None:
        async with identity_provider(time.time) as provider:
            started.append(provider)
            ready.set()
            await stopping.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(main()))
    thread.start()
    assert ready.wait(30)
    try:
        yield started[0]
    finally:
        loop.call_soon_threadsafe(stopping.set)
        thread.join()
        loop.close()


def as_json(answer: object) -> web.Response:
    return web.Response(body=json.dumps(answer).encode(), content_type="application/json")
