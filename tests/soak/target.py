"""An HTTP target that answers badly: bodies that cannot be decoded, refusals, and no answer at all."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator

from tests.support.raw_target import RawRequest, listening, response

HANG_SECONDS = 30.0


async def respond(request: RawRequest, writer: asyncio.StreamWriter) -> None:
    match request.path.strip("/"):
        case "latin":
            writer.write(b'HTTP/1.1 200 OK\r\nLocation: /\xe9\xff\r\nETag: "\xe9"\r\nContent-Length: 2\r\n\r\n\xe9\xff')
        case "charset":
            writer.write(response(b"\xff\xfe\x00", headers=("Content-Type: text/plain; charset=no-such",)))
        case "retry-after":
            writer.write(response(b"", status="429 Too Many Requests", headers=("Retry-After: 86400",)))
        case "hang":
            await asyncio.sleep(HANG_SECONDS)
        case _:
            writer.write(response(b"", status="503 Service Unavailable"))


@contextlib.contextmanager
def bad_target() -> Iterator[str]:
    """Its address; it runs in a thread of its own."""
    address: list[str] = []
    ready = threading.Event()
    loop = asyncio.new_event_loop()
    stopping = asyncio.Event()

    async def serve() -> None:
        async with listening(respond) as url:
            address.append(url)
            ready.set()
            await stopping.wait()

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.set_exception_handler(lambda *_: None)  # connections that are open at the end
        loop.run_until_complete(serve())
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(30)
    try:
        yield address[0]
    finally:
        loop.call_soon_threadsafe(stopping.set)
        thread.join(10)
