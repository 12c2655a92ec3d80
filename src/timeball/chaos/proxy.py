"""A TCP proxy that forwards connections, and can cut, silence or delay them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Final, Literal

PIECE: Final = 65_536
_AT_ONCE: Final = struct.pack("ii", 1, 0)
"""Value of SO_LINGER with which a close resets the connection, so that the other side gets an error, not an end of
data.
"""

State = Literal["well", "cut", "hanging", "delayed"]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[], Awaitable[Streams]]


class ProxiedAddress:
    """A local port, and the address to which its connections are forwarded."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._state: State = "well"
        self._delay = 0.0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._hung: set[asyncio.StreamWriter] = set()
        self.port = 0

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        self.cut()
        if self._server is not None:
            self._server.close()

    def heal(self) -> None:
        """End the fault. Connections that were silenced stay silent; both sides have to detect that by themselves."""
        self._state, self._delay = "well", 0.0

    def cut(self) -> None:
        """Reset every connection, and every new one, until `heal` is called."""
        self._state = "cut"
        for writer in [*self._writers]:
            _reset(writer)

    def hang(self) -> None:
        """Drop all data of every connection without closing it, and do the same with new connections until `heal` is
        called."""
        self._state = "hanging"
        self._hung |= self._writers

    def delay(self, seconds: float) -> None:
        """Forward all data this many seconds later, until `heal` is called."""
        self._state, self._delay = "delayed", seconds

    async def _accept(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        if self._state == "cut":
            _reset(to_client)
            return
        try:
            from_server, to_server = await self._connect()
        except OSError:
            _reset(to_client)
            return
        ends = {to_client, to_server}
        self._writers |= ends
        if self._state == "hanging":
            self._hung |= ends
        try:
            await asyncio.gather(self._carry(from_client, to_server), self._carry(from_server, to_client))
        finally:
            self._writers -= ends
            self._hung -= ends
            for writer in ends:
                writer.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(PIECE):
                if self._delay:
                    await asyncio.sleep(self._delay)
                if writer in self._hung:
                    continue
                writer.write(piece)
                await writer.drain()
        if writer not in self._hung:
            with contextlib.suppress(OSError, RuntimeError):
                writer.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    writer.transport.abort()
