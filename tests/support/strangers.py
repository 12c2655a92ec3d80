"""Clients without a key that cost a server as much as possible: `python -m tests.support.strangers PORT COUNT SECONDS`.

Each client repeats one kind of attack, and connects again shortly after the server has closed its connection. The last
line of the output has the number of closed connections by kind.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections import Counter
from collections.abc import Awaitable, Callable

AGAIN = 0.5
"""Seconds until a client connects again."""

Stranger = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def half_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nX-Half: ")
    await reader.read()


async def half_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 1_000)
    await reader.read()


async def byte_by_byte(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    for byte in b"GET /" + b"x" * 10_000:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0.5)


async def pipelining(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send as many requests as the server accepts, and read no answer."""
    requests = b"GET /v1/jobs HTTP/1.1\r\nHost: x\r\n\r\n" * 1_000
    while True:
        writer.write(requests)
        await writer.drain()
        await asyncio.sleep(0.5)


async def unread(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 20)
    await asyncio.sleep(60)


async def long_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"GET / HTTP/1.1\r\n")
    while True:
        writer.write(b"X: y\r\n" * 1_000)
        await writer.drain()
        await asyncio.sleep(0.2)


KINDS: tuple[Stranger, ...] = (silent, half_head, half_body, byte_by_byte, pipelining, unread, long_head, silent)


async def bother(port: int, kind: Stranger, seconds: float, closed: Counter[str]) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while loop.time() < end:
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout_at(end):
                stranger = socket.socket()
                stranger.setblocking(False)
                stranger.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
                await loop.sock_connect(stranger, ("127.0.0.1", port))
                reader, writer = await asyncio.open_connection(sock=stranger, limit=1_000)
                # Unread data stays with the server: this side receives nothing unless it reads.
                if kind in (pipelining, unread):
                    writer.transport.pause_reading()  # type: ignore[attr-defined]
                await kind(reader, writer)
        except (OSError, TimeoutError):
            pass
        finally:
            if writer is not None:
                writer.transport.abort()
        closed[kind.__name__] += 1
        await asyncio.sleep(AGAIN)


async def main(port: int, count: int, seconds: float) -> None:
    closed: Counter[str] = Counter()
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(bother(port, KINDS[number % len(KINDS)], seconds, closed))
            if number % 50 == 49:
                await asyncio.sleep(0.05)
    print(json.dumps(closed))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
