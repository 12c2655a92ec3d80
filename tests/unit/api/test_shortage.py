"""A server that lacks a resource answers with 503 and a time to try again (I25, I29)."""

import errno
import os

import pytest

from tests.support.raw_http import Client, get, serving
from timeball.api.routing import Answer, Call


@pytest.mark.parametrize(
    "error",
    [
        *(OSError(number, os.strerror(number)) for number in (errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.ENOMEM)),
        MemoryError(),
        RuntimeError("can't start new thread"),
    ],
    ids=lambda error: repr(error)[:40],
)
async def test_a_shortage_is_answered_with_503(error: Exception) -> None:
    async with serving() as house:

        async def fail(call: Call) -> Answer:
            raise error

        house.echo = fail  # type: ignore[method-assign]
        client = await Client.of(house)
        answer = await client.ask(get("/broken"))
        assert (answer.status, int(answer.headers["retry-after"]) >= 1) == (503, True)
        assert answer.headers["content-type"] == "application/problem+json"
