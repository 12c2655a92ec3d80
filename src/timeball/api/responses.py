"""Sends answers through ASGI."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final

from timeball.api.asgi import Receive, Send
from timeball.api.routing import Answer, Headers
from timeball.domain.instant import SECOND, Micros
from timeball.operation.tenants.request_rates import RateState

WITHOUT_BODY: Final = frozenset({204, 304})
"""Statuses of answers that have no body, and so neither its type nor its length."""


def usual_headers(status: int, content_type: bytes, cache_control: bytes) -> Headers:
    """Return the headers of every answer with this status and content type."""
    headers: Headers = [(b"x-content-type-options", b"nosniff"), (b"cache-control", cache_control)]
    return headers if status in WITHOUT_BODY else [(b"content-type", content_type), *headers]


def rate_headers(states: Sequence[RateState]) -> Headers:
    """Return the headers that describe limits of the rate of requests: `q` requests in `w` seconds; `r` are left, and
    all of them again after `t` seconds."""
    policies, current = [], []
    for state in states:
        bucket = state.bucket
        policies.append(f'"{state.counted}";q={bucket.burst};w={_seconds(bucket.burst * bucket.pace)}')
        current.append(f'"{state.counted}";r={state.left};t={_seconds(state.is_full_in)}')
    return [
        (b"ratelimit-policy", ", ".join(policies).encode()),
        (b"ratelimit", ", ".join(current).encode()),
    ]


def _seconds(micros: Micros) -> int:
    return -(-micros // SECOND)


async def send_answer(answer: Answer, receive: Receive, send: Send, *, with_body: bool) -> None:
    body = answer.body
    headers = usual_headers(answer.status, answer.content_type, answer.cache_control)
    if isinstance(body, bytes) and answer.status not in WITHOUT_BODY:
        headers.append((b"content-length", b"%d" % len(body)))
    headers += answer.headers
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    if isinstance(body, bytes):
        await send({"type": "http.response.body", "body": body if with_body else b""})
        return
    if with_body:
        await _stream(body, receive, send)
    await send({"type": "http.response.body", "body": b""})


async def _stream(body: AsyncIterator[bytes], receive: Receive, send: Send) -> None:
    """Send a streamed body until it ends or the client disconnects. The server would drop bytes for a disconnected
    client silently.
    """

    async def forward() -> None:
        async for chunk in body:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def hang_up() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    tasks = (asyncio.ensure_future(forward()), asyncio.ensure_future(hang_up()))
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    if isinstance(outcomes[0], Exception):
        raise outcomes[0]
