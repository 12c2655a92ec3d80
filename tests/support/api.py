"""The API over a real store and real loops, called in process. No port is opened, and only the worker is a fake."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.support.migrated import sqlite_store
from timeball import system
from timeball.api.app import create_app
from timeball.api.asgi import Application
from timeball.domain.identity.role import Role
from timeball.domain.tenant import Tenant
from timeball.operation.storage.large_values import LargeValueStore, ValuePlace
from timeball.operation.storage.search_archive import Archive
from timeball.ports.clock import Rng
from timeball.ports.object_store import Objects
from timeball.ports.store.registry import Key
from timeball.ports.store.store import Store
from timeball.server.metrics import ServerMetricsPage
from timeball.server.readiness import ReadinessProbe
from timeball.server.server import Server

ADMIN = "admin-key-of-the-tests-0123456789abcdef"
WORKER = "worker-key-of-the-tests-0123456789abcdef"
OTHER = "key-of-another-tenant-0123456789abcdef00"


class Api:
    """An application of the API and an HTTP client of it."""

    def __init__(self, app: Application, server: Server, client: httpx2.AsyncClient) -> None:
        self.app = app
        self.server = server
        self.client = client

    async def __call__(self, method: str, path: str, key: str | None = ADMIN, **options: Any) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        headers |= options.pop("headers", {})
        return await self.client.request(method, path, headers=headers, **options)

    async def get(self, path: str, **options: Any) -> Any:
        answer = await self("GET", path, **options)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def create(self, **job: Any) -> dict[str, Any]:
        answer = await self("POST", "/v1/jobs", json={"task": {"kind": "shell", "command": "true"}, **job})
        assert answer.status_code == 201, answer.text
        created: dict[str, Any] = answer.json()
        return created


@asynccontextmanager
async def running_api(folder: Path, **options: Any) -> AsyncIterator[Api]:
    async with serving(sqlite_store(folder / "timeball.db"), **options) as api:
        yield api


@asynccontextmanager
async def serving(
    store: Store,
    archive: Archive | None = None,
    objects: Objects | None = None,
    rng: Rng | None = None,
    **options: Any,
) -> AsyncIterator[Api]:
    """Start the API over a store, which is opened and closed here. Large values go to `objects`, if given. `options`
    are those of `create_app`.
    """
    await store.open()
    clock = system.SystemClock()
    large_value_store = (
        None if objects is None else LargeValueStore(ValuePlace(objects, store, await store.number(1), clock))
    )
    server = Server(store, clock, rng or system.rng(), archive=archive, large_value_store=large_value_store)
    await add_keys(store)
    await server.read_limits()
    server.start()

    async with asyncio.timeout(60):
        while server.stalled():  # until each loop has ended its first turn
            await asyncio.sleep(0.001)
    app = _app(server, **options)
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=True)
    try:
        async with httpx2.AsyncClient(transport=transport, base_url="http://timeball") as client:
            yield Api(app, server, client)
    finally:
        await server.stop()
        await store.close()


def _app(server: Server, **options: Any) -> Application:
    ready = ReadinessProbe(server, lambda: False)
    return create_app(
        server.context,
        server.gateway,
        ready=ready,
        new_secret=system.secret,
        version="0.0.0",
        **{"read_metrics": ServerMetricsPage(server, "0.0.0"), **options},
    )


def beside(api: Api, **options: Any) -> Api:
    """The API with other options over the same store, as a server that was started again with other settings."""
    app = _app(api.server, **options)
    return Api(app, api.server, httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://timeball"))


_KEYS: tuple[tuple[str, str, Role, str], ...] = (
    (ADMIN, "admin", "system", "default"),
    (WORKER, "worker", "worker", "default"),
    (OTHER, "admin", "admin", "other"),
)


async def add_keys(store: Store) -> None:
    if await store.tenant("other") is None:
        await store.create_tenant(Tenant(id="other", created_at=1, updated_at=1))
    for secret, name, role, tenant in _KEYS:
        digest = hashlib.sha256(secret.encode()).hexdigest()
        ident = f"k_{digest[:28]}"
        await store.add_key(Key(id=ident, tenant=tenant, name=name, role=role, digest=digest, created_at=store.now()))


class FakeWorker:
    """Sends the messages of the worker protocol over the API, as the test directs."""

    def __init__(self, api: Api, key: str = WORKER) -> None:
        self._api = api
        self._key = key
        self._seq = 0
        self.session = ""

    async def send(self, message: str, body: Any, status: int = 200) -> Any:
        answer = await self._api("POST", f"/v1/worker/{message}", self._key, json=body)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    async def hello(self, slots: int = 4) -> None:
        welcome = await self.send("hello", {"name": "w1", "slots": slots})
        self.session = welcome["session"]

    async def take(self, held: tuple[int, ...] = ()) -> dict[str, Any]:
        """Poll until there is an assignment, and return it."""
        while True:
            self._seq += 1
            body = {"session": self.session, "seq": self._seq, "free": 1, "held": list(held), "wait": 5_000_000}
            orders = await self.send("poll", body)
            if orders.get("assignments"):
                assigned: dict[str, Any] = orders["assignments"][0]
                return assigned

    async def poll(self, wait: int = 0) -> list[dict[str, Any]]:
        """Poll once, and return the assignments."""
        self._seq += 1
        body = {"session": self.session, "seq": self._seq, "free": 1, "held": [], "wait": wait}
        assignments: list[dict[str, Any]] = (await self.send("poll", body)).get("assignments") or []
        return assignments

    async def report(self, **what: Any) -> Any:
        return await self.send("report", {"session": self.session, "pollSeq": self._seq, "free": 1, **what})

    async def end(self, assigned: dict[str, Any], outcome: dict[str, Any], *, placed: bool = False, **rest: Any) -> Any:
        same = {name: assigned[name] for name in ("runId", "jobId", "attempt", "token", "serial")}
        return await self.report(
            ended=[{**same, "outcome": outcome, "age": 2_000, "took": 1_000, "placed": placed}], **rest
        )

    async def succeed(self, assigned: dict[str, Any], result: Any = None) -> None:
        await self.end(assigned, {"type": "succeeded", "result": result})

    async def fail(self, assigned: dict[str, Any], message: str = "boom") -> None:
        failure = {"kind": "exit", "message": message, "exitCode": 1}
        await self.end(assigned, {"type": "failed", "failure": failure})

    async def write(self, assigned: dict[str, Any], *texts: str) -> None:
        same = {name: assigned[name] for name in ("runId", "attempt", "token")}
        chunks = [{**same, "seq": seq, "stream": "stdout", "text": text} for seq, text in enumerate(texts)]
        await self.report(logs=chunks)
