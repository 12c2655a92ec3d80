"""A body that is too large or encoded is refused before it is in memory."""

from typing import Any

import pytest

from timeball.api.request_body import read_body
from timeball.domain.errors import TooLarge
from timeball.jobspec.errors import UnsupportedEncoding


def chunks(*parts: bytes) -> Any:
    messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    messages[-1]["more_body"] = False

    async def receive() -> Any:
        return messages.pop(0)

    return receive


async def test_a_body_in_pieces_is_put_together() -> None:
    assert await read_body({}, chunks(b"a", b"", b"bc"), 3) == b"abc"


async def test_a_body_without_length_is_refused_when_it_grows_too_large() -> None:
    with pytest.raises(TooLarge):
        await read_body({}, chunks(b"x" * 10, b"x" * 10, b"x" * 10), 25)


async def test_a_declared_length_is_refused_before_anything_is_read() -> None:
    with pytest.raises(TooLarge):
        await read_body({b"content-length": b"99999999999999999999999"}, chunks(b""), 25)


async def test_a_compressed_body_is_refused() -> None:
    with pytest.raises(UnsupportedEncoding):
        await read_body({b"content-encoding": b"gzip"}, chunks(b""), 25)
