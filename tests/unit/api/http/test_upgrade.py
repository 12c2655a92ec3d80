"""A request that asks for another protocol is an ordinary HTTP/1.1 request, and its body is never a request (I28)."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

import pytest

from tests.support.raw_http import Client, House, get, post, serving, until

INNER = get("/echo/inner")
"""A body that is a complete request."""
H2C = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA")
"""As curl and Java's HttpClient send it."""

both_paths = pytest.mark.parametrize("fast", [True, False], ids=["fast path", "uvicorn"])
upgrades = pytest.mark.parametrize(
    "upgrade",
    [
        H2C,
        ("Connection: Upgrade", "Upgrade: foo"),
        ("Upgrade: websocket", "Connection: keep-alive, upgrade"),
        ("UPGRADE: foo", "Upgrade: bar", "connection: uPGRADE"),
        ("Proxy-Connection: Upgrade", "Upgrade: foo"),
    ],
    ids=["h2c", "foo", "websocket", "twice", "proxy"],
)
segments = pytest.mark.parametrize("segment", [100_000, 200, 7], ids=["one segment", "few segments", "many segments"])


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with serving() as running:
        yield running


async def connect(house: House, *, fast: bool) -> Client:
    client = await Client.of(house)
    if not fast:
        assert (await client.ask(get("/lines"))).status == 200
    return client


async def send(client: Client, data: bytes, segment: int) -> None:
    for start in range(0, len(data), segment):
        await client.send(data[start : start + segment])
        await asyncio.sleep(0)


def chunked(body: bytes, path: str, headers: Sequence[str], trailers: bytes = b"") -> bytes:
    half = len(body) // 2
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:half], body[half:]))
    head = get(path, "Transfer-Encoding: chunked", *headers, method="POST")
    return head + chunks + b"0\r\n" + trailers + b"\r\n"


# --- one request ------------------------------------------------------------------------------------------------------


@both_paths
@segments
@upgrades
@pytest.mark.parametrize("is_chunked", [False, True], ids=["length", "chunks"])
async def test_the_body_of_an_upgrade_is_its_body(
    house: House, upgrade: Sequence[str], segment: int, fast: bool, is_chunked: bool
) -> None:
    client = await connect(house, fast=fast)
    request = chunked(INNER, "/echo", upgrade) if is_chunked else post(INNER, "/echo", *upgrade)
    for _ in range(2):
        await send(client, request, segment)
        answer = await client.answer()
        assert (answer.status, answer.json()["body"]) == (200, INNER.decode())
    assert (await client.ask(get("/echo/next"))).json()["path"] == "/echo/next"
    assert house.seen == [INNER.decode(), INNER.decode(), ""]


@both_paths
@segments
@pytest.mark.parametrize("path", ["/nope", "/mine", "/refuse"])
async def test_the_body_of_a_refused_upgrade_is_no_request(house: House, path: str, segment: int, fast: bool) -> None:
    client = await connect(house, fast=fast)
    await send(client, post(INNER, path, *H2C), segment)
    assert (await client.answer()).status in {401, 404, 405}
    assert (await client.ask(get("/echo/next"))).json()["path"] == "/echo/next"
    assert house.seen == [""]


@both_paths
@segments
@upgrades
async def test_an_upgrade_without_a_body_is_answered(
    house: House, upgrade: Sequence[str], segment: int, fast: bool
) -> None:
    client = await connect(house, fast=fast)
    for _ in range(2):
        await send(client, get("/echo/name", *upgrade), segment)
        answer = await client.answer()
        assert (answer.status, answer.json()["path"], "upgrade" in answer.headers) == (200, "/echo/name", False)


@both_paths
async def test_an_upgrade_that_is_the_last_request_closes_the_connection(house: House, fast: bool) -> None:
    client = await connect(house, fast=fast)
    await client.send(post(INNER, "/echo", "Connection: close, Upgrade", "Upgrade: foo") + get("/echo/next"))
    answer = await client.answer()
    assert (answer.json()["body"], answer.headers["connection"]) == (INNER.decode(), "close")
    assert await client.rest() == b""
    assert house.seen == [INNER.decode()]


# --- pipelines --------------------------------------------------------------------------------------------------------


@both_paths
@segments
async def test_pipelined_upgrades_are_answered_in_order(house: House, segment: int, fast: bool) -> None:
    client = await connect(house, fast=fast)
    requests = [
        post(INNER, "/echo", *H2C),
        get("/echo/second", *H2C),
        chunked(INNER, "/echo", H2C),
        get("/echo/fourth"),
    ]
    sending = asyncio.create_task(send(client, b"".join(requests), segment))
    answers = [(await client.answer()).json() for _ in requests]
    await sending
    assert [(each["path"], each["body"]) for each in answers] == [
        ("/echo", INNER.decode()),
        ("/echo/second", ""),
        ("/echo", INNER.decode()),
        ("/echo/fourth", ""),
    ]


@segments
async def test_an_upgrade_behind_a_slow_request_waits_for_its_answer(house: House, segment: int) -> None:
    client = await connect(house, fast=True)
    sending = asyncio.create_task(send(client, post(b"slow", "/slow") + post(INNER, "/echo", *H2C), segment))
    await until(lambda: "slow" in house.seen)
    house.let_go()
    assert (await client.answer()).json() == {"body": "slow"}
    assert (await client.answer()).json()["body"] == INNER.decode()
    await sending


@pytest.mark.parametrize("behind", range(0, 120, 13))
async def test_an_upgrade_behind_a_body_of_any_length_is_read_as_a_request(house: House, behind: int) -> None:
    """The parser gets both of them in pieces."""
    client = await connect(house, fast=False)
    body = (b"\r\n\r\n" * 50)[:behind]
    first = post(body)
    await client.send(first[:-1] if body else first)
    await client.send((first[-1:] if body else b"") + post(INNER, "/echo", *H2C) * 2 + get("/echo/next"))
    answers = [(await client.answer()).json() for _ in range(4)]
    assert [each["body"] for each in answers] == [body.decode(), INNER.decode(), INNER.decode(), ""]


@pytest.mark.parametrize("trailers", [b"Upgrade: foo\r\n", b"Connection: Upgrade\r\nUpgrade: foo\r\n"])
@pytest.mark.parametrize("headers", [(), ("Connection: Upgrade",)], ids=["no header", "half a header"])
async def test_trailers_ask_for_no_upgrade(house: House, headers: Sequence[str], trailers: bytes) -> None:
    client = await connect(house, fast=True)
    await client.send(chunked(INNER, "/echo", headers, trailers) + get("/echo/next"))
    assert (await client.answer()).json()["body"] == INNER.decode()
    assert (await client.answer()).json()["path"] == "/echo/next"


# --- bounds -----------------------------------------------------------------------------------------------------------


@both_paths
@pytest.mark.parametrize(
    "headers", [["X: y"] * 101, [f"X-{number}: {'x' * 1_000}" for number in range(40)]], ids=["many", "long"]
)
async def test_the_head_of_an_upgrade_is_bounded(house: House, headers: list[str], fast: bool) -> None:
    client = await connect(house, fast=fast)
    await client.send(post(INNER, "/echo", *H2C, *headers))
    assert (await client.answer()).status == 431
    assert await client.rest() == b""
    assert house.seen == []


@both_paths
@pytest.mark.parametrize("in_pieces", [False, True], ids=["one segment", "many segments"])
@pytest.mark.parametrize("target", ["/echo", "http://x/echo"])
async def test_no_tunnel_is_opened(house: House, target: str, in_pieces: bool, fast: bool) -> None:
    client = await connect(house, fast=fast)
    head = get(target, f"Content-Length: {len(INNER)}", method="CONNECT")
    await send(client, head if in_pieces else head + INNER, 7 if in_pieces else 100_000)
    assert (await client.answer()).status == 400
    with suppress(ConnectionError):
        if in_pieces:
            await client.send(INNER)
        assert await client.rest() == b""
    assert house.seen == []
