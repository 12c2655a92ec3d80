"""The target of HTTP jobs: a server that answers every request with 200 and the time at which it arrived.

python -m bench.kinds.target

Prints its port. It needs about 10 µs of CPU for a request, so that it does not decide what is measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import uvloop

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 19\r\n\r\n%d"


@dataclass(frozen=True)
class Target:
    url: str
    pid: int


@contextlib.contextmanager
def target() -> Iterator[Target]:
    process = subprocess.Popen([sys.executable, "-m", "bench.kinds.target"], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        yield Target(f"http://127.0.0.1:{port}/", process.pid)
    finally:
        process.terminate()
        process.communicate()


class _Answering(asyncio.Protocol):
    """One connection, kept open. It understands only bodies with a Content-Length."""

    def __init__(self) -> None:
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport is one, but its type does not say so

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (head := self._received.find(b"\r\n\r\n")) >= 0:
            length = _LENGTH.search(self._received, 0, head)
            end = head + 4 + (int(length[1]) if length else 0)
            if len(self._received) < end:
                return
            self._received = self._received[end:]
            self._transport.write(_ANSWER % time.time_ns())


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(_Answering, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve())
