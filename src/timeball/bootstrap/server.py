"""Starts and stops a server: its store, its loops and its HTTP API."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog
import uvicorn

import timeball
from timeball import system
from timeball.api.app import create_app
from timeball.api.http.connection_limits import ConnectionLimits
from timeball.api.http.fast_protocol import FastProtocol
from timeball.api.http.http_server import HttpServer
from timeball.api.sign_in.site import Site, make_site
from timeball.bootstrap import admin_key
from timeball.bootstrap.private_files import close_files
from timeball.bootstrap.process import StopSignals
from timeball.bootstrap.tls import Certificate
from timeball.bootstrap.tracing import open_tracing
from timeball.config import ServerConfig, remember
from timeball.domain.errors import Conflict
from timeball.operation.storage.large_values import LargeValueStore, ValuePlace
from timeball.operation.storage.search_archive import Archive
from timeball.ports.identity_provider import NO_PROVIDER, IdentityProvider
from timeball.ports.store.store import Store
from timeball.server.loops.archiver import DayArchiver
from timeball.server.readiness import ReadinessProbe
from timeball.server.server import Server

if TYPE_CHECKING:
    from timeball.server.metrics import ServerMetricsPage

LAST_ANSWERS: Final = 5
"""Maximum number of seconds that a stopping server waits for answers in progress."""
CLOSE_TIMEOUT: Final = 1.0
"""Seconds for which a stopping server still listens and reports that it is not ready, so that load balancers stop
sending requests.
"""
PROBE: Final = 1.0
"""Maximum number of seconds to find out whether the process that holds the port is a Timeball server."""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class StartedServer:
    server: Server
    address: str
    site: Site
    admin_key: str
    is_new_key: bool
    """True if the admin key was generated now."""


async def start_server(
    config: ServerConfig, stack: contextlib.AsyncExitStack, stop: StopSignals, limits: ConnectionLimits
) -> StartedServer:
    """Open the store, start a server on it, and serve its API. `stack` gets the callbacks that end all of this; `stop`
    has the signals, the second of which ends the wait for answers in progress."""
    certificate = None
    if config.tls_cert is not None and config.tls_key is not None:
        certificate = Certificate(config.tls_cert, config.tls_key)
    sockets = [stack.enter_context(_listening(config.host, config.port))]
    config.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    close_files(config)
    store = await stack.enter_async_context(_open(config))
    key, is_new = admin_key.find(config)
    await admin_key.allow(store, key, config)
    large_value_store = await _large_value_store(config, store)
    tracing = open_tracing(config, stack)
    archive, archiver = await _archive(config, store, large_value_store, stack)
    server = Server(
        store,
        system.SystemClock(),
        system.rng(),
        keep_for=config.retention,
        archiver=archiver,
        archive=archive,
        large_value_store=large_value_store,
        with_loops=config.loops,
        tracing=tracing,
    )
    await server.read_limits()
    server.start()
    stack.push_async_callback(server.stop)
    stopping = asyncio.Event()
    host, port = sockets[0].getsockname()[:2]
    site = _site(config, port)
    app = create_app(
        server.context,
        server.gateway,
        ready=ReadinessProbe(server, stopping.is_set),
        new_secret=system.secret,
        version=timeball.__version__,
        read_metrics=_metrics(server, config),
        open_metrics=config.metrics_open,
        stopping=stopping.is_set,
        site=site,
        provider=_identity_provider(config, store, stack),
        trusted_proxies=config.trusted_proxies,
    )
    http = HttpServer(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            http=FastProtocol,
            ws="none",
            proxy_headers=False,  # only `TrustedProxies` reads them
            server_header=False,
            timeout_graceful_shutdown=LAST_ANSWERS,
        ),
        limits,
        None if certificate is None else certificate.context,
    )
    serving = asyncio.create_task(http.serve(sockets))
    stack.push_async_callback(_stop_http, http, serving, server, stopping, stop)
    remember(config.data_dir, port, secure=certificate is not None)
    scheme = "http" if certificate is None else "https"
    return StartedServer(server, f"{scheme}://{host}:{port}", site, key, is_new)


def _metrics(server: Server, config: ServerConfig) -> Callable[[], Awaitable[bytes]]:
    pages: list[ServerMetricsPage] = []

    async def read() -> bytes:
        if not pages:
            pages.append(await asyncio.to_thread(_metrics_page, server, config))
        return await pages[0]()

    return read


def _metrics_page(server: Server, config: ServerConfig) -> ServerMetricsPage:
    # imported here, because servers that are not scraped would lose 60 ms
    from timeball.server.metrics import ServerMetricsPage

    return ServerMetricsPage(server, timeball.__version__, by_tenant=config.metrics_tenants)


def _site(config: ServerConfig, port: int) -> Site:
    site = make_site(
        config.host,
        port,
        tls=config.tls_cert is not None,
        public_url=config.public_url,
        allow_insecure=config.insecure_sign_in,
    )
    if site.refusal is not None:
        _log.warning(site.refusal)
    return site


@contextlib.asynccontextmanager
async def _open(config: ServerConfig) -> AsyncIterator[Store]:
    """Open the configured store. Only the adapter that is used is imported."""
    store: Store
    if config.sqlite_path is not None:
        from timeball.stores.sqlite.store import SqliteStore

        store = SqliteStore(
            config.sqlite_path,
            wall=system.wall,
            monotonic=system.monotonic,
            credit=config.priority_credit,
            accept_damaged_log=config.accept_damaged_log,
            accept_clock=config.accept_clock,
            may_migrate=config.migrate,
        )
    else:
        from timeball.stores.postgres.store import PostgresStore

        store = PostgresStore(
            config.store,
            monotonic=system.monotonic,
            direct=config.store_direct,
            replica=config.read_store,
            credit=config.priority_credit,
            may_migrate=config.migrate,
        )
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def _large_value_store(config: ServerConfig, store: Store) -> LargeValueStore:
    """Return the store of large values. If no object storage is configured, it is one that offloads nothing."""
    if config.objects is None:
        return LargeValueStore()
    from timeball.object_stores.bucket import Unopened

    number = await store.number(system.rng().getrandbits(62))
    return LargeValueStore(ValuePlace(Unopened(config.objects), store, number, system.SystemClock()))


async def _archive(
    config: ServerConfig, store: Store, large_value_store: LargeValueStore, stack: contextlib.AsyncExitStack
) -> tuple[Archive | None, DayArchiver | None]:
    """Return the archive and the archiver that writes to it; None if no archive is configured."""
    if config.archive is None:
        return None, None
    # imported here, because servers without an archive would lose 25 ms
    from timeball.object_stores.bucket import open_objects

    objects = open_objects(config.archive)
    archiver = DayArchiver(store, objects, system.SystemClock(), large_value_store)
    stack.push_async_callback(archiver.close)
    return Archive(objects), archiver


def _identity_provider(config: ServerConfig, store: Store, stack: contextlib.AsyncExitStack) -> IdentityProvider:
    if config.jwt_issuer is None:
        return NO_PROVIDER
    # imported here, because servers without an identity provider would lose 100 ms
    from timeball.identity_providers.open import open_identity_provider

    return open_identity_provider(config, system.SystemClock(), store.now, stack)


@contextlib.contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            raise Conflict(_cannot_listen(host, port, error)) from None
        listener.listen(2_048)
        listener.setblocking(False)
        yield listener
    finally:
        listener.close()


def _cannot_listen(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE and _answers_as_timeball(host, port):
        return (
            f"a Timeball server already listens on {host} port {port}, and commands can use it as it is; to start it"
            " anew, stop the other one first; to start a second one, use another --port and another --data-dir"
        )
    return f"cannot listen on {host} port {port}: {error.strerror}; stop the other process, or use another --port"


def _answers_as_timeball(host: str, port: int) -> bool:
    """Return True if the process that holds the port answers `/livez` like a Timeball server without TLS."""
    import http.client

    address = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    connection = http.client.HTTPConnection(address, port, timeout=PROBE)
    try:
        connection.request("GET", "/livez")
        answer = connection.getresponse()
        return answer.status == 200 and b'"alive"' in answer.read(1_024)
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


async def _stop_http(
    http: HttpServer, serving: asyncio.Task[None], server: Server, stopping: asyncio.Event, stop: StopSignals
) -> None:
    """Answer pending polls, so that workers use other servers, then wait for answers in progress. A second signal ends
    the wait.
    """
    server.gateway.close()
    stopping.set()
    server.context.run_events.wake_all()
    server.context.events.close()
    forced = asyncio.create_task(stop.second.wait())
    await asyncio.wait([serving, forced], timeout=CLOSE_TIMEOUT, return_when=asyncio.FIRST_COMPLETED)
    http.should_exit = True
    await asyncio.wait([serving, forced], return_when=asyncio.FIRST_COMPLETED)
    forced.cancel()
    if not serving.done():
        http.force_exit = True
        await asyncio.wait([serving], timeout=1)
        serving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await serving
