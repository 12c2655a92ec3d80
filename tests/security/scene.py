"""A server over HTTP with two tenants and a credential of every kind. Each thing exists once in the default tenant."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import httpx2

from tests.support.api import ADMIN, OTHER, Api, FakeWorker, serving
from tests.support.event_streams import HttpApi, over_http
from tests.support.identity_provider import IdentityProvider, identity_provider
from tests.support.migrated import sqlite_store
from tests.support.provider_sign_in import opened_provider
from tests.support.tokens import SECRET, claims, hmac_token
from timeball.domain.identity.role import Role
from timeball.domain.instant import HOUR, SECOND, render
from timeball.ports.store.registry import Key

MARK: Final = "of-default"
"""Part of the names of everything that belongs to the default tenant."""
HOST: Final = "127.0.0.1:1300"
JOB: Final = {"task": {"kind": "shell", "command": "true"}}
PAGE: Final = {"sec-fetch-site": "same-origin", "content-type": "application/json"}
NEVER: Final = {"type": "cron", "expression": "0 0 1 1 *"}
Credential = dict[str, str]


@dataclass
class Scene:
    http: HttpApi
    provider: IdentityProvider
    ids: dict[str, str] = field(default_factory=dict)
    credentials: dict[str, Credential] = field(default_factory=dict)
    made: int = 0

    @property
    def api(self) -> Api:
        return self.http.api

    async def send(self, who: str, method: str, path: str, body: Any = None) -> httpx2.Response:
        headers = {"host": HOST, "sec-fetch-site": "same-origin", **self.credentials[who]}
        self.http.client.cookies.clear()
        return await self.http.client.request(method, f"{self.http.url}{path}", headers=headers, json=body)

    async def make(self, method: str, path: str, **body: Any) -> Any:
        """Make something in the default tenant."""
        answer = await self.send("system", method, path, body or None)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None

    def fresh(self) -> str:
        self.made += 1
        return f"{MARK}-{self.made}"


def bearer(secret: str) -> Credential:
    return {"authorization": f"Bearer {secret}"}


@asynccontextmanager
async def a_scene(folder: Path) -> AsyncIterator[Scene]:
    store = sqlite_store(folder / "timeball.db")
    secret = folder / "jwt.secret"
    secret.write_bytes(SECRET)
    secret.chmod(0o600)
    async with AsyncExitStack() as stack:
        provider = await stack.enter_async_context(identity_provider(lambda: store.now() / SECOND))
        provider.user["role"] = "operator"
        tokens = {"jwt_audience": "timeball", "jwt_secret_file": str(secret)}
        opened = opened_provider(folder, provider, store, stack, **tokens)
        api = await stack.enter_async_context(serving(store, provider=opened))
        scene = Scene(await stack.enter_async_context(over_http(api)), provider)
        await _credentials(scene)
        await _things(scene)
        yield scene


async def _credentials(scene: Scene) -> None:
    store = scene.api.server.context.store
    now = store.now()
    scene.credentials = {"none": {}, "unknown": bearer("x" * 43), "system": bearer(ADMIN), "other_admin": bearer(OTHER)}
    roles: dict[str, tuple[Role, str]] = {
        **{role: (role, "default") for role in ("viewer", "operator", "editor", "admin", "worker")},  # type: ignore[dict-item]
        "expired": ("system", "default"),
        "revoked": ("system", "default"),
        "other_worker": ("worker", "other"),
    }
    for who, (role, tenant) in roles.items():
        secret = f"secret-of-{who}-0123456789abcdef0123456789"
        digest = hashlib.sha256(secret.encode()).hexdigest()
        ident = f"k_{digest[:28]}"
        expires = now - SECOND if who == "expired" else None
        await store.add_key(
            Key(
                id=ident,
                tenant=tenant,
                name=f"{MARK}-{who}" if tenant == "default" else "admin",
                role=role,
                digest=digest,
                created_at=now,
                expires_at=expires,
            )
        )
        scene.credentials[who] = bearer(secret)
        scene.ids[f"key of {who}"] = ident
        if who == "revoked":
            await store.revoke_key(ident)
    seconds = now // SECOND
    token = claims(iss=scene.provider.url, aud="timeball", role="operator", iat=seconds - 5, exp=seconds + 600)
    scene.credentials["jwt_operator"] = bearer(hmac_token(SECRET, token))
    for who, sign_in in SESSIONS.items():
        scene.credentials[who] = await sign_in(scene)


async def signed_in(scene: Scene, who: str) -> tuple[Credential, str]:
    """Return the cookie of a new web session with a key, and the id of the session."""
    secret = scene.credentials[who]["authorization"].removeprefix("Bearer ")
    cookie, view = await _sign_in(scene, {"apiKey": secret})
    return cookie, view["session"]["id"]


async def _sign_in(scene: Scene, body: Any, attempt: Credential = PAGE) -> tuple[Credential, Any]:
    """Return the cookie that a sign-in sets, and its answer. `attempt` has the cookie of a sign-in that has begun."""
    url = f"{scene.http.url}/v1/sign-in{'' if body else '/provider'}"
    answer = await scene.http.client.post(url, headers={"host": HOST, **PAGE, **attempt}, json=body)
    scene.http.client.cookies.clear()
    assert answer.status_code == 200, answer.text
    name, morsel = next(iter(SimpleCookie(answer.headers.get_list("set-cookie")[0]).items()))
    return {"cookie": f"{name}={morsel.value}", **PAGE}, answer.json()


async def _with_key(scene: Scene) -> Credential:
    return (await signed_in(scene, "editor"))[0]


async def _at_provider(scene: Scene) -> Credential:
    attempt, page = await _sign_in(scene, {})
    back = parse_qs(urlsplit(scene.provider.authorize(page["url"])).query)
    answer = {name: values[0] for name, values in back.items()}
    return (await _sign_in(scene, {"provider": answer}, attempt))[0]


SESSIONS: Final = {"session_editor": _with_key, "session_of_user": _at_provider}
"""The columns of the file that are web sessions, and how each one is opened."""


async def _things(scene: Scene) -> None:
    ids, make = scene.ids, scene.make
    worker = await a_worker(scene)
    ids["taskId"] = (await make("PUT", f"/v1/tasks/{MARK}", kind="shell", command="true"))["taskId"]
    ids["name"] = (await make("PUT", f"/v1/calendars/{MARK}", entries=[{"dates": ["2030-01-01"]}]))["name"]
    ids["userId"] = (await make("POST", "/v1/users", userId=MARK, role="editor"))["userId"]
    ended = await make("POST", "/v1/jobs", **JOB, name=f"{MARK}-ended")
    assigned = await worker.take()
    await worker.write(assigned, f"output {MARK}")
    await worker.succeed(assigned, result=MARK)
    ids["ended"], ids["ended job"] = assigned["runId"], ended["jobId"]
    await make("POST", "/v1/jobs", **JOB, name=f"{MARK}-dead", retry={"maxRetries": 0})
    assigned = await worker.take()
    await worker.fail(assigned, f"failure {MARK}")
    ids["dead"] = assigned["runId"]
    ids["jobId"] = (await make("POST", "/v1/jobs", **JOB, name=MARK, schedule=NEVER, tags=[MARK]))["jobId"]
    ids["cancelled"] = (await make("POST", "/v1/jobs", **JOB, name=f"{MARK}-gone", schedule=NEVER))["jobId"]
    await make("DELETE", f"/v1/jobs/{ids['cancelled']}")
    day = {"type": "interval", "expression": "1h"}
    hourly = (await make("POST", "/v1/jobs", **JOB, name=f"{MARK}-hourly", schedule=day))["jobId"]
    now = scene.api.server.context.store.now()
    span = {"from": render(now - 5 * HOUR), "to": render(now - HOUR)}
    ids["backfillId"] = (await make("POST", f"/v1/jobs/{hourly}/backfill", **span))["backfillId"]
    ids["span from"], ids["span to"] = span["from"], span["to"]
    await make("POST", f"/v1/backfills/{ids['backfillId']}/cancel")
    flow = {"name": f"{MARK}-flow", "tasks": [{"name": "a", **JOB}], "schedule": NEVER}
    ids["workflowId"] = (await make("POST", "/v1/workflows", **flow))["workflowId"]
    ids["workflowRunId"] = (await make("POST", f"/v1/workflows/{ids['workflowId']}/run"))["runId"]
    gone = await make("POST", "/v1/workflows", **{**flow, "name": f"{MARK}-flow-gone"})
    ids["cancelled workflow"] = gone["workflowId"]
    await make("DELETE", f"/v1/workflows/{ids['cancelled workflow']}")
    rotated = await make("POST", "/v1/api-keys", role="viewer", name=f"{MARK}-rotated")
    await make("POST", f"/v1/api-keys/{rotated['keyId']}/rotate", overlap="1h")
    ids["keyId"] = rotated["keyId"]
    await make("DELETE", f"/v1/api-keys/{(await make('POST', '/v1/api-keys', role='viewer'))['keyId']}")
    ids["workerId"] = (await a_worker(scene)).session


async def a_worker(scene: Scene, slots: int = 4) -> FakeWorker:
    """Register a worker of the default tenant."""
    worker = FakeWorker(scene.api, scene.credentials["worker"]["authorization"].removeprefix("Bearer "))
    await worker.hello(slots)
    return worker
