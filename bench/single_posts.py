"""Sends one POST after the other on each of many connections: with `wrk` if it is installed, else with our own
generator.

wrk needs a tenth of the CPU of our generator. On two cores that decides whether the server is measured or the load
generator. (Debian: apt install wrk.)
"""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from bench.measurements import percentile

_SCRIPT = """\
wrk.method = "POST"
wrk.body = [==[%s]==]
%s
function done(summary, latency, requests)
  local errors = summary.errors
  print(string.format('\\n{"answers": %%d, "seconds": %%f, "failed": %%d, "p50": %%f, "p99": %%f, "most": %%f}',
    summary.requests, summary.duration / 1e6,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, latency.max / 1e3))
end
"""


@dataclass(frozen=True)
class Posts:
    """The result; times are in milliseconds."""

    answers: int
    seconds: float
    failed: int
    p50: float
    p99: float
    most: float

    @property
    def rate(self) -> float:
        return self.answers / self.seconds


def generator() -> str:
    """Return the name of the load generator."""
    if shutil.which("wrk") is None:
        return "our own generator, for want of wrk (apt install wrk): slower, and it takes CPU from the server"
    return "wrk, 1 thread"


def post(url: str, body: bytes, headers: dict[str, str], *, connections: int, seconds: float) -> Posts:
    if shutil.which("wrk") is None:
        return asyncio.run(_post(url, body, headers, connections, seconds))
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "post.lua"
        lines = "\n".join(f'wrk.headers["{name}"] = "{value}"' for name, value in headers.items())
        script.write_text(_SCRIPT % (body.decode(), lines))
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds:g}s", "-s", str(script), "--latency", url]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return Posts(**json.loads(printed.splitlines()[-1]))


async def post_each(url: str, body: bytes, headers: dict[str, str], *, connections: int, requests: int) -> None:
    """Send this number of requests. Raise `RuntimeError` if one is refused."""
    sent = itertools.count(connections + 1)  # each connection begins with one request
    posters = await _run(url, body, headers, connections, lambda: next(sent) <= requests)
    if failed := sum(poster.failed for poster in posters):
        raise RuntimeError(f"{failed} of {requests} requests failed")


async def _post(url: str, body: bytes, headers: dict[str, str], connections: int, seconds: float) -> Posts:
    began = time.monotonic()
    posters = await _run(url, body, headers, connections, lambda: time.monotonic() < began + seconds)
    times = [each for poster in posters for each in poster.times] or [0.0]
    return Posts(
        answers=len(times),
        seconds=time.monotonic() - began,
        failed=sum(poster.failed for poster in posters),
        p50=percentile(times, 0.5),
        p99=percentile(times, 0.99),
        most=max(times),
    )


async def _run(
    url: str, body: bytes, headers: dict[str, str], connections: int, goes_on: Callable[[], bool]
) -> list[_Poster]:
    parts = urlsplit(url)
    lines = [f"POST {parts.path} HTTP/1.1", f"Host: {parts.netloc}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    request = ("\r\n".join(lines) + "\r\n\r\n").encode() + body
    loop = asyncio.get_running_loop()
    posters = [_Poster(request, goes_on) for _ in range(connections)]
    for poster in posters:
        await loop.create_connection(lambda poster=poster: poster, parts.hostname, parts.port)
    await asyncio.gather(*(poster.ended for poster in posters))
    return posters


class _Poster(asyncio.Protocol):
    """Sends the same request again as soon as the last one was answered. It understands only answers with a
    Content-Length.
    """

    def __init__(self, request: bytes, goes_on: Callable[[], bool]) -> None:
        self._request = request
        self._goes_on = goes_on
        self._received = b""
        self._sent_at = 0.0
        self.times: list[float] = []
        self.failed = 0
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, rest = self._received.partition(b"\r\n\r\n")
        if not separator or len(rest) < int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0]):
            return
        self._received = b""
        self.times.append((time.monotonic() - self._sent_at) * 1_000)
        self.failed += not head.startswith(b"HTTP/1.1 2")
        if self._goes_on():
            self._send()
        else:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.failed += exc is not None
            self.ended.set_result(None)

    def _send(self) -> None:
        self._sent_at = time.monotonic()
        self._transport.write(self._request)
