"""Transport of requests for an event loop: the protocol, and an implementation on aiohttp.

aiohttp is used because every worker depends on it. Its import takes ten times as long as that of the standard library's
client, so only the asynchronous client may import this module.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from io import BytesIO
from pathlib import Path
from typing import Final, Protocol

import aiohttp
from yarl import URL

from timeball.client.http_sync import BROKEN_OFF, AnswerInterrupted, Incoming, Outgoing, Unreachable, reason

AT_ONCE: Final = 100
"""Maximum number of concurrent requests. Further requests wait, so that thousands of tasks do not open thousands of
connections. Streams are not counted, because they stay open."""
IDLE: Final = 4.0
"""Seconds for which an idle connection is kept for the next request. The server closes it after 5."""


class AsyncTransport(Protocol):
    async def send(self, server: str, outgoing: Outgoing, timeout: float) -> Incoming:
        """Return the answer. Raise `Unreachable` or `AnswerInterrupted` if there is none. Several tasks may call this
        at once."""
        ...

    def stream(self, server: str, outgoing: Outgoing, timeout: float) -> AsyncGenerator[bytes | Incoming, None]:
        """Yield the head of the answer (with its body, if it is an error), then the body as it arrives. Data that
        arrives immediately before the connection breaks may be lost."""
        ...

    async def close(self) -> None: ...


class AiohttpTransport:
    """Keeps connections open between requests. A transport belongs to the event loop that uses it first."""

    def __init__(self, ca: Path | None = None) -> None:
        """`ca` is a PEM file with the certificate authorities to trust instead of the system's."""
        self._ca = ca
        self._http: aiohttp.ClientSession | None = None
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._closed = False

    async def send(self, server: str, outgoing: Outgoing, timeout: float) -> Incoming:
        async with self._turns, self._exchange(server, outgoing, timeout) as response:
            return Incoming(response.status, _headers(response), await response.read())

    async def stream(self, server: str, outgoing: Outgoing, timeout: float) -> AsyncGenerator[bytes | Incoming, None]:
        async with self._exchange(server, outgoing, timeout) as response:
            failed = response.status >= 400
            yield Incoming(response.status, _headers(response), await response.read() if failed else b"")
            if not failed:
                async for chunk in response.content.iter_any():
                    yield chunk

    async def close(self) -> None:
        self._closed = True
        if self._http is not None:
            await self._http.close()

    @asynccontextmanager
    async def _exchange(self, server: str, outgoing: Outgoing, timeout: float) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yield the answer before its body is read."""
        url = URL(server.rstrip("/") + outgoing.target, encoded=True)
        body = None if outgoing.body is None else BytesIO(outgoing.body)
        limits = aiohttp.ClientTimeout(total=None, sock_connect=timeout, sock_read=timeout)
        with _distinguished_errors():
            # Let the event loop notice idle connections that the server has closed, so that none of them is used.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            # Connecting, writing and waiting may take `timeout` each; aiohttp has no timeout for writing.
            async with asyncio.timeout(3 * timeout):
                response = await self._session().request(
                    outgoing.method, url, headers=outgoing.headers, data=body, timeout=limits, allow_redirects=False
                )
            async with response:
                yield response

    def _session(self) -> aiohttp.ClientSession:
        if self._closed:
            raise RuntimeError("this client is closed")
        if self._http is None:
            self._http = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE, ssl=self._trust()),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"Accept-Encoding": "identity"},
            )
        return self._http

    def _trust(self) -> ssl.SSLContext | bool:
        return True if self._ca is None else ssl.create_default_context(cafile=self._ca)


@contextmanager
def _distinguished_errors() -> Iterator[None]:
    """Convert errors: `Unreachable` if the request cannot have taken effect, `AnswerInterrupted` if it may have."""
    try:
        yield
    except aiohttp.ClientConnectorError as error:
        raise Unreachable(_refusal(error)) from error
    except aiohttp.ConnectionTimeoutError as error:
        raise Unreachable(reason(error)) from error
    except aiohttp.ClientPayloadError as error:
        raise AnswerInterrupted(BROKEN_OFF) from error
    except (aiohttp.ClientError, OSError) as error:
        raise AnswerInterrupted(reason(error)) from error


def _refusal(error: aiohttp.ClientConnectorError) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return reason(error.certificate_error)
    cause = error.os_error
    if isinstance(cause, ConnectionError) and cause.errno:
        return os.strerror(cause.errno)  # the message of asyncio has the address instead of the reason
    return reason(cause)


def _headers(response: aiohttp.ClientResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}
