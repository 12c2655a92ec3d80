"""Receives the body of a request, up to a maximum size and without a content encoding."""

from __future__ import annotations

from collections.abc import Mapping

from timeball.api.asgi import Receive
from timeball.domain.errors import TooLarge
from timeball.jobspec.errors import Malformed, UnsupportedEncoding


def check_encoding(headers: Mapping[bytes, bytes]) -> None:
    if headers.get(b"content-encoding", b"identity").strip().lower() not in (b"", b"identity"):
        raise UnsupportedEncoding("send the body without Content-Encoding")


async def read_body(headers: Mapping[bytes, bytes], receive: Receive, limit: int) -> bytes:
    """Return the whole body. A body that is too large is refused as soon as that is known, also without a
    Content-Length.
    """
    check_encoding(headers)
    length = headers.get(b"content-length", b"")
    if length.isdigit() and int(length[:20]) > limit:
        raise _too_large(limit)
    message = await receive()
    body: bytes = message.get("body", b"")
    if message.get("more_body"):
        chunks, size = [body], len(body)
        while message.get("more_body") and size <= limit:
            message = await receive()
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
        body = b"".join(chunks)
    if message["type"] == "http.disconnect":
        raise Malformed("the body ended early")
    if len(body) > limit:
        raise _too_large(limit)
    return body


def _too_large(limit: int) -> TooLarge:
    size = f"{limit >> 20} MiB" if limit >= 1 << 20 else f"{limit >> 10} KiB"
    return TooLarge(f"the body is larger than {size}")
