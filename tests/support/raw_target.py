"""An HTTP target on bare sockets: a test decides about every byte of its answers.

Requests are framed as RFC 9112 requires (`Transfer-Encoding` before `Content-Length`), so that a request which a client
frames in another way is seen as a strict server sees it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from msgspec import Struct


class RawRequest(Struct):
    connection: int
    """The number of the connection of the request, from 1."""
    method: str
    path: str
    headers: dict[str, str]
    """The headers, by their names in lower case."""
    body: bytes


Respond = Callable[[RawRequest, asyncio.StreamWriter], Awaitable[None]]


def response(body: bytes, *, status: str = "200 OK", headers: tuple[str, ...] = ()) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@asynccontextmanager
async def listening(respond: Respond) -> AsyncIterator[str]:
    """Start the target and yield its address. The requests of a connection are answered one after the other."""
    connections = 0
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        number = connections
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            while (request := await _read(reader, number)) is not None:
                await respond(request, writer)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _read(reader: asyncio.StreamReader, connection: int) -> RawRequest | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    start, *lines = head.strip("\r\n").split("\r\n")
    method, _, rest = start.partition(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = b""
    if "chunked" in headers.get("transfer-encoding", ""):
        while size := int((await reader.readuntil(b"\r\n")).strip() or b"0", 16):
            body += await reader.readexactly(size + 2)
        await reader.readuntil(b"\r\n")
    elif length := int(headers.get("content-length", "0")):
        body = await reader.readexactly(length)
    return RawRequest(connection, method, rest.partition(" ")[0], headers, body)
