"""The route of a request, and the headers that decide: the same on the fast path and with uvicorn (I28)."""

from collections.abc import AsyncIterator

import pytest

from tests.support.raw_http import Client, House, get, post, serving


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with serving() as running:
        yield running


async def _ask(house: House, request: bytes, *, fast: bool) -> tuple[int, bytes]:
    client = await Client.of(house)
    if not fast:
        assert (
            await client.ask(get("/echo/first", "Connection: keep-alive", method="GET") + get("/lines"))
        ).status == 200
        assert (await client.answer()).status == 200
    answer = await client.ask(request)
    client.close()
    return answer.status, answer.body


@pytest.mark.parametrize("fast", [True, False], ids=["fast path", "uvicorn"])
@pytest.mark.parametrize(
    "path",
    [
        "/echo%2fname",
        "/echo%2Fname",
        "/%65cho",
        "/echo/a%5cb",
        "/echo/%2e%2e",
        "/echo/..",
        "/echo/%2e",
        "/echo/a%00",
        "/echo/a%0d%0ab",
        "/echo/a%7f",
    ],
)
async def test_an_encoded_path_routes_nowhere_else(house: House, path: str, fast: bool) -> None:
    status, _ = await _ask(house, get(path), fast=fast)
    assert status == 404


@pytest.mark.parametrize("fast", [True, False], ids=["fast path", "uvicorn"])
@pytest.mark.parametrize("path", ["/echo/a%2fb", "/echo;x=1", "/echo;x/name", "/echo/", "//echo", "/x/../echo"])
async def test_a_path_that_looks_like_a_route_is_none(house: House, path: str, fast: bool) -> None:
    status, _ = await _ask(house, get(path), fast=fast)
    assert status == 404


@pytest.mark.parametrize("fast", [True, False], ids=["fast path", "uvicorn"])
async def test_a_parameter_of_the_path_may_be_encoded(house: House, fast: bool) -> None:
    status, body = await _ask(house, get("/echo/x%20y%C3%BC%2525"), fast=fast)
    assert status == 200
    assert '"name":"x yü%25"'.encode() in body


@pytest.mark.parametrize("fast", [True, False], ids=["fast path", "uvicorn"])
@pytest.mark.parametrize(
    "header",
    ["Authorization", "Host", "Idempotency-Key", "If-Match", "Content-Encoding", "Content-Type"],
)
@pytest.mark.parametrize("values", [("a", "b"), ("a", "a")], ids=["different", "equal"])
async def test_a_header_that_decides_something_comes_once(
    house: House, header: str, values: tuple[str, str], fast: bool
) -> None:
    first = len(house.seen)
    lines = [f"{header}: {values[0]}", f"{header.lower()}: {values[1]}"]
    request = post(b"x", "/echo", *lines)
    if header == "Host":
        request = request.replace(b"Host: x\r\n", b"")
    status, body = await _ask(house, request, fast=fast)
    assert status == 400
    assert header.lower().encode() in body
    assert "x" not in house.seen[first:]


@pytest.mark.parametrize("fast", [True, False], ids=["fast path", "uvicorn"])
async def test_headers_that_decide_nothing_may_repeat(house: House, fast: bool) -> None:
    status, _ = await _ask(house, post(b"x", "/echo", "X-Forwarded-For: a", "X-Forwarded-For: b"), fast=fast)
    assert status == 200
