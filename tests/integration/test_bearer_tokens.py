"""Requests with tokens of an identity provider: who they act as, and which are refused."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import structlog
from aiohttp import web
from msgspec.json import decode

from tests.support.api import ADMIN, Api, serving
from tests.support.identity_provider import IdentityProvider, identity_provider
from tests.support.migrated import sqlite_store
from tests.support.tokens import SECRET, hmac_token
from timeball import config, system
from timeball.client.models.registry import Credential
from timeball.domain.instant import SECOND
from timeball.identity_providers import compact_token
from timeball.identity_providers.open import open_identity_provider

JOB = {"task": {"kind": "shell", "command": "true"}}


class Scene:
    def __init__(self, api: Api, provider: IdentityProvider) -> None:
        self.api = api
        self.provider = provider

    def token(self, **changed: Any) -> str:
        return self.provider.issue("timeball", **changed)

    async def ask(self, token: str, method: str = "GET", path: str = "/v1/me", **options: Any) -> httpx2.Response:
        return await self.api(method, path, token, **options)


@asynccontextmanager
async def scene_of(folder: Path, **settings: str) -> AsyncIterator[Scene]:
    store = sqlite_store(folder / "timeball.db")
    async with identity_provider(lambda: store.now() / SECOND) as provider, AsyncExitStack() as stack:
        chosen = {"jwt_issuer": provider.url, "jwt_audience": "timeball", **settings}
        environ = {f"TIMEBALL_{name.upper()}": value for name, value in chosen.items()}
        found = config.server({"data_dir": str(folder)}, {"HOME": str(folder), **environ})
        opened = open_identity_provider(found, system.SystemClock(), store.now, stack)
        async with serving(store, provider=opened) as api:
            yield Scene(api, provider)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene_of(tmp_path) as found:
        yield found


async def test_a_token_acts_with_its_tenant_and_role(scene: Scene) -> None:
    """I24."""
    answer = await scene.ask(scene.token())
    assert answer.status_code == 200, answer.text
    me = answer.json()
    assert (me["tenant"], me["role"], me["name"], me["via"]) == ("default", "editor", "Ada", "jwt")
    assert me["keyId"] is me["session"] is None
    assert decode(answer.content, type=Credential).key_id is None, "the client understands it, too"
    assert me["permissions"] == ["read", "run", "edit"]
    created = await scene.ask(scene.token(), "POST", "/v1/jobs", json=JOB)
    assert created.status_code == 201, created.text
    viewer = scene.token(role="viewer")
    assert (await scene.ask(viewer, path=f"/v1/jobs/{created.json()['jobId']}")).status_code == 200
    assert (await scene.ask(viewer, "POST", "/v1/jobs", json=JOB)).status_code == 403
    assert (await scene.ask(scene.token(), path="/v1/api-keys")).status_code == 403


async def test_a_user_without_an_api_key_uses_no_route_that_needs_one(scene: Scene) -> None:
    admin = scene.token(role="admin")
    hello = {"name": "w1", "slots": 1}
    assert (await scene.ask(admin, "POST", "/v1/worker/hello", json=hello)).status_code == 403
    assert (await scene.ask(admin, "POST", "/v1/sign-in-links")).status_code == 409
    assert (await scene.ask(admin, path="/v1/sessions")).json()["items"] == []
    assert (await scene.ask(admin, "POST", "/v1/sign-out")).json() == {"providerUrl": None}


async def test_a_system_token_does_not_send_messages_of_workers(tmp_path: Path) -> None:
    async with scene_of(tmp_path, jwt_roles="root=system") as scene:
        root = scene.token(role="root")
        assert (await scene.ask(root)).json()["role"] == "system"
        answer = await scene.ask(root, "POST", "/v1/worker/hello", json={"name": "w1", "slots": 1})
        assert answer.status_code == 403, answer.text


async def test_keys_are_accepted_beside_tokens(scene: Scene) -> None:
    assert (await scene.ask(ADMIN)).json()["via"] == "key"
    assert (await scene.ask("tb_unknown")).status_code == 401
    assert scene.provider.requests == []


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"exp": 1_000}, "expired"),
        ({"aud": "billing"}, "aud"),
        ({"iss": "https://evil.example.org"}, "iss"),
        ({"tenant": "acme"}, "does not exist"),
        ({"tenant": "default' OR 1=1"}, "does not exist"),
        ({"tenant": None}, "'tenant'"),
        ({"role": "root"}, "role"),
        ({"exp": 99_999_999_999}, "too long"),
    ],
)
async def test_a_wrong_token_is_a_401_that_says_why_and_is_not_logged(
    scene: Scene, changed: dict[str, Any], reason: str
) -> None:
    token = scene.token(**changed)
    with structlog.testing.capture_logs() as logged:
        answer = await scene.ask(token)
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["www-authenticate"].startswith("Bearer")
    problem = answer.json()
    assert problem["code"] == "unauthorized"
    assert reason in problem["detail"]
    for text in (answer.text, json.dumps(logged, default=str)):
        assert not [part for part in token.split(".") if part in text]


async def test_a_token_that_is_too_long_for_a_credential_is_refused(scene: Scene) -> None:
    assert (await scene.ask(scene.token(extra="x" * 6_000))).status_code == 401
    assert (await scene.ask(scene.token(extra="x" * 20_000))).status_code == 401


async def test_tokens_mean_nothing_to_a_server_that_accepts_none(tmp_path: Path) -> None:
    async with scene_of(tmp_path, jwt_audience="", oidc_client_id="ui") as scene:
        answer = await scene.ask(scene.token())
        assert answer.status_code == 401
        assert "API key" in answer.json()["detail"]
        assert scene.provider.requests == []


async def test_a_provider_that_is_away_is_a_503_and_costs_no_key_anything(scene: Scene) -> None:
    scene.provider.answers["/keys"] = web.Response(status=500)
    answer = await scene.ask(scene.token())
    assert answer.status_code == 503
    assert answer.headers["retry-after"]
    assert (await scene.ask(ADMIN)).status_code == 200


async def test_a_secret_verifies_tokens_without_a_provider_that_answers(tmp_path: Path) -> None:
    async with scene_of(tmp_path, jwt_secret=SECRET.decode()) as scene:
        now = int(scene.provider.clock())
        content = {**scene.provider.user, "iss": scene.provider.url, "aud": "timeball", "iat": now, "exp": now + 60}
        assert (await scene.ask(hmac_token(SECRET, content))).status_code == 200
        assert (await scene.ask(hmac_token(SECRET + b"x", content))).status_code == 401
        assert (await scene.ask(scene.token())).status_code == 401
        assert scene.provider.requests == []


async def test_many_requests_with_one_token_verify_it_once(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    token, read, verified = scene.token(), compact_token.read, []

    def counted(given: bytes) -> compact_token.CompactToken:
        verified.append(given)
        return read(given)

    monkeypatch.setattr(compact_token, "read", counted)
    assert {(await scene.ask(token)).status_code for _ in range(20)} == {200}
    assert len(verified) == 1
