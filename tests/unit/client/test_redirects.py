"""A key is sent only to the server that it is for (I31): not to the target of a redirect, and not to a proxy of the
environment."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from timeball import AsyncClient, Client, TimeballError
from timeball.domain.errors import Unavailable
from timeball.ports.worker_protocol import RegisterWorker
from timeball.worker.transport.http_worker_protocol import HttpWorkerProtocol

KEY = "the-key-that-stays"


class Site:
    """Answers every request with a redirect, and remembers what came."""

    def __init__(self, location: str | None) -> None:
        self.requests: list[str] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                site.requests.append(f"{self.requestline}\n{self.headers}")
                self.send_response(307 if location else 200)
                if location:
                    self.send_header("Location", location)
                body = b'{"items": [], "jobs": []}'
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_CONNECT = _answer

            def log_request(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@contextmanager
def serving(location: str | None) -> Iterator[Site]:
    site = Site(location)
    thread = threading.Thread(target=site.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield site
    finally:
        site.server.shutdown()
        thread.join()
        site.server.server_close()


@pytest.fixture
def stranger() -> Iterator[Site]:
    with serving(None) as site:
        yield site


@pytest.fixture
def redirecting(stranger: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Points to the stranger, which the environment names as a proxy, too."""
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, stranger.url)
    with serving(f"{stranger.url}/v1/jobs") as site:
        yield site


def test_a_client_follows_no_redirect(redirecting: Site, stranger: Site) -> None:
    with Client(redirecting.url, KEY) as client, pytest.raises(TimeballError, match=f"redirects to {stranger.url}"):
        list(client.jobs())
    assert len(redirecting.requests) == 1
    assert KEY in redirecting.requests[0]
    assert stranger.requests == []


def test_an_asynchronous_client_follows_no_redirect(redirecting: Site, stranger: Site) -> None:
    async def ask() -> None:
        async with AsyncClient(redirecting.url, KEY) as client:
            with pytest.raises(TimeballError, match=f"redirects to {stranger.url}"):
                async for _ in client.jobs():
                    pass

    asyncio.run(ask())
    assert len(redirecting.requests) == 1
    assert KEY in redirecting.requests[0]
    assert stranger.requests == []


def test_a_worker_follows_no_redirect(redirecting: Site, stranger: Site) -> None:
    async def ask() -> None:
        async with HttpWorkerProtocol([redirecting.url], KEY) as dispatch:
            with pytest.raises(Unavailable, match="answered with status 307"):
                await dispatch.hello(RegisterWorker(name="w", slots=1))

    asyncio.run(ask())
    assert len(redirecting.requests) == 1
    assert KEY in redirecting.requests[0]
    assert stranger.requests == []
