"""No client without a key costs more than bounded memory, descriptors and time (I28)."""

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from tests.support.raw_http import LARGE, Client, House, get, post, serving, until

HEAD = 32 * 1024
"""Bytes of a head that is still answered."""
KEY = "Authorization: Bearer key"
SHORT: dict[str, Any] = {
    "head_seconds": 0.4,
    "body_seconds": 0.4,
    "discard_seconds": 0.4,
    "write_seconds": 0.4,
    "sweep_seconds": 0.05,
}
LASTS = 3.0
"""Seconds after which a connection counts as not closed."""

both_paths = pytest.mark.parametrize("fast", [True, False], ids=["fast path", "uvicorn"])


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with serving(limits=SHORT) as running:
        yield running


async def connect(house: House, *, fast: bool = True) -> Client:
    """A connection on the fast path, or one that has become uvicorn's."""
    client = await Client.of(house)
    if not fast:
        assert (await client.ask(get("/lines"))).status == 200
    return client


async def is_closed(client: Client) -> bool:
    """Whether the server closes it, whatever it says before."""
    try:
        async with asyncio.timeout(LASTS):
            await client.rest()
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True


def with_headers(*headers: str) -> bytes:
    return get("/echo", *headers)


@contextmanager
def counting_cycles() -> Iterator[list[int]]:
    """How many requests the server has taken apart and not answered, from time to time."""
    counts: list[int] = []

    def count() -> None:
        counts.append(sum(isinstance(each, RequestResponseCycle) for each in gc.get_objects()))
        timers.append(loop.call_later(0.05, count))

    loop = asyncio.get_running_loop()
    timers = [loop.call_later(0.05, count)]
    try:
        yield counts
    finally:
        timers[-1].cancel()


# --- heads ------------------------------------------------------------------------------------------------------------


@both_paths
@pytest.mark.parametrize("in_pieces", [False, True], ids=["in one piece", "in pieces"])
@pytest.mark.parametrize(
    "request_",
    [
        with_headers(f"X-Long: {'x' * HEAD}"),
        with_headers(*(f"X-{number}: {'x' * 1_000}" for number in range(40))),
        with_headers(*(f"X-{number}: y" for number in range(101))),
        with_headers(*(["a:"] * 200)),
        get(f"/echo?{'x' * HEAD}"),
        get(f"/{'x' * 300_000}"),
        with_headers(f"X-Endless: {'x' * 300_000}")[:-4],
        get(f"/echo?{'x' * 300_000}")[:-40],
        with_headers(*(["a:"] * 50_000))[:-4],
    ],
    ids=[
        "a long header",
        "long headers",
        "many headers",
        "many empty headers",
        "a long query",
        "a long path",
        "a header without an end",
        "an address without an end",
        "headers without an end",
    ],
)
async def test_a_head_is_bounded(house: House, request_: bytes, in_pieces: bool, fast: bool) -> None:
    client = await connect(house, fast=fast)
    for start in range(0, len(request_), 1_000 if in_pieces else len(request_)):
        try:
            await client.send(request_[start : start + (1_000 if in_pieces else len(request_))])
        except ConnectionError:
            break
        await asyncio.sleep(0)
    async with asyncio.timeout(LASTS):
        answer = await client.answer()
    assert (answer.status, answer.headers["connection"]) == (431, "close")
    assert b"32768" in answer.body
    assert await is_closed(client)
    assert house.seen == []


@both_paths
async def test_a_large_head_below_the_bound_is_answered(house: House, fast: bool) -> None:
    client = await connect(house, fast=fast)
    request = with_headers(*(f"X-{number}: {'x' * 300}" for number in range(99)))
    assert HEAD - 3_000 < len(request) < HEAD
    for _ in range(3):
        assert (await client.ask(request)).status == 200


@pytest.mark.parametrize(
    "tail",
    [
        b"0\r\n" + b"X-Trailer: y\r\n" * 200,
        b"0\r\nX-Trailer: " + b"y" * 300_000,
        b"5;" + b"x" * 300_000,
    ],
    ids=["many trailers", "a long trailer", "a long chunk extension"],
)
async def test_what_stands_around_the_chunks_of_a_body_is_bounded(house: House, tail: bytes) -> None:
    client = await connect(house)
    await client.send(b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
    with counting_cycles():
        for start in range(0, len(tail), 1_000):
            try:
                await client.send(tail[start : start + 1_000])
            except ConnectionError:
                break
        assert await is_closed(client)
    assert house.seen == []


async def test_trailers_are_no_headers(house: House) -> None:
    client = await connect(house)
    request = b"POST /mine HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nAuthorization: Bearer key\r\n\r\n"
    assert (await client.ask(request)).status == 401


# --- pipelining -------------------------------------------------------------------------------------------------------


async def test_pipelined_requests_are_taken_apart_one_by_one() -> None:
    count = 20_000
    async with serving(limits={"max_stranger_answers": count + 2}) as house:
        await _take_apart(house, count)


async def _take_apart(house: House, count: int) -> None:
    client = await connect(house)
    with counting_cycles() as alive:
        sending = asyncio.create_task(client.send(post(b"first", "/slow") + get("/mine") * count))
        await until(lambda: "slow" in house.seen)
        await until(lambda: len(alive) >= 3)
        house.let_go()
        assert (await client.answer()).json()["body"] == "first"
        for _ in range(count):
            assert (await client.answer()).status == 401
        await sending
    assert max(alive) < 10


@pytest.mark.parametrize("pipelined", [False, True])
async def test_a_connection_without_a_key_ends_after_some_answers(pipelined: bool) -> None:
    """Thousands of requests in a row would cost more than the connections that they come on."""
    async with serving(limits={"max_stranger_answers": 5}) as house:
        client = await connect(house)
        if pipelined:
            await client.send(get("/mine") * 5)
        for number in range(1, 6):
            if not pipelined:
                await client.send(get("/mine"))
            answer = await client.answer()
            assert (answer.status, answer.headers.get("connection")) == (401, "close" if number == 5 else None)
        assert await client.rest() == b""


async def test_a_client_that_reads_no_answers_cannot_queue_requests(house: House) -> None:
    client = await connect(house)
    with counting_cycles() as alive:
        sending = asyncio.create_task(client.send(get("/large") + get("/mine") * 200_000))
        await until(lambda: len(alive) >= 4)
        sending.cancel()
        client.abort()
    assert max(alive) < 10


async def test_half_a_request_behind_another_does_not_disturb_its_answer(house: House) -> None:
    client = await connect(house)
    await client.send(post(b"first", "/slow") + get("/echo/second")[:-2])
    await until(lambda: "slow" in house.seen)
    house.let_go()
    assert (await client.answer()).json()["body"] == "first"
    await client.send(get("/echo/second")[-2:])
    assert (await client.answer()).json()["parameters"] == {"name": "second"}


async def test_nonsense_behind_a_request_is_refused_after_its_answer(house: House) -> None:
    client = await connect(house)
    await client.send(post(b"first", "/slow") + b"\x00\x01\r\n\r\n")
    await until(lambda: "slow" in house.seen)
    house.let_go()
    assert (await client.answer()).json()["body"] == "first"
    assert await is_closed(client)


@both_paths
async def test_a_broken_body_is_not_answered_after_its_request_was(house: House, fast: bool) -> None:
    client = await connect(house, fast=fast)
    await client.send(b"POST /mine HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert (await client.answer()).status == 401
    await client.send(b"no chunk\r\n\r\n" + get("/echo"))
    assert await client.until_closed() == b""
    assert house.seen == []


@both_paths
async def test_a_broken_body_does_not_disturb_an_answer_that_has_begun(house: House, fast: bool) -> None:
    client = await connect(house, fast=fast)
    await client.send(get("/endless", "Transfer-Encoding: chunked"))
    await client.until_sent(b"one\n\r\n")
    await client.send(b"no chunk\r\n\r\n" + get("/echo"))
    assert await client.until_closed() == b""
    assert house.seen == []


# --- time -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [b"", b"\r\n", b"G", get("/echo")[:-2], post(b"x")[:-1], b"POST /mine HTTP/1.1\r\nContent-Length: 9\r\n\r\nx"],
    ids=["nothing", "an empty line", "one byte", "half a head", "half a body", "half a body without a key"],
)
async def test_a_request_that_does_not_come_is_not_waited_for(house: House, sent: bytes) -> None:
    client = await connect(house)
    await client.send(sent)
    assert await is_closed(client)
    await until(lambda: not house.state.connections)


async def test_a_head_that_comes_byte_by_byte_ends_in_time(house: House) -> None:
    client = await connect(house)

    async def drip() -> None:
        for byte in get("/echo", f"X: {'x' * 1_000}"):
            await client.send(bytes([byte]))
            await asyncio.sleep(0.05)

    dripping = asyncio.create_task(drip())
    closed = await is_closed(client)
    dripping.cancel()
    await asyncio.gather(dripping, return_exceptions=True)
    assert closed
    assert house.seen == []


async def test_a_body_that_comes_byte_by_byte_ends_in_time(house: House) -> None:
    client = await connect(house)
    await client.send(post(b"x" * 5_000, "/mine", KEY)[:-5_000])

    async def drip() -> None:
        while True:
            await client.send(b"x")
            await asyncio.sleep(0.05)

    dripping = asyncio.create_task(drip())
    closed = await is_closed(client)
    dripping.cancel()
    await asyncio.gather(dripping, return_exceptions=True)
    assert closed
    assert house.seen == []


async def test_a_body_that_comes_steadily_may_take_its_time(house: House) -> None:
    client = await connect(house)
    body = b"x" * 40_000
    await client.send(post(body, "/mine", KEY)[: -len(body)])
    for start in range(0, len(body), 4_000):
        await asyncio.sleep(0.15)
        await client.send(body[start : start + 4_000])
    assert (await client.answer()).json()["body"] == body.decode()


async def test_the_rest_of_a_refused_body_is_not_read_for_ever(house: House) -> None:
    client = await connect(house)
    await client.send(b"POST /mine HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert (await client.answer()).status == 401

    async def pour() -> None:
        while True:
            await client.send(b"1000\r\n" + bytes(0x1000) + b"\r\n")
            await asyncio.sleep(0.001)

    pouring = asyncio.create_task(pour())
    closed = await is_closed(client)
    pouring.cancel()
    await asyncio.gather(pouring, return_exceptions=True)
    assert closed


@both_paths
async def test_a_client_that_does_not_read_is_dropped(house: House, fast: bool) -> None:
    client = await connect(house, fast=fast)
    await client.send(get("/large"))
    async with asyncio.timeout(LASTS):
        await until(lambda: not house.state.connections)


@both_paths
async def test_a_known_client_may_pause_for_longer_than_a_stranger(fast: bool) -> None:
    async with serving(limits={**SHORT, "known_write_seconds": 60}) as house:
        known, stranger = await connect(house, fast=fast), await connect(house, fast=fast)
        assert (await known.ask(get("/mine", KEY))).status == 200
        await known.send(get("/large"))
        await stranger.send(get("/large"))
        await until(lambda: len(house.state.connections) == 1)
        await asyncio.sleep(2 * SHORT["write_seconds"])
        assert len((await known.answer()).body) == len(LARGE)


async def test_a_known_client_that_does_not_read_is_dropped_in_the_end() -> None:
    async with serving(limits={**SHORT, "write_seconds": 60, "known_write_seconds": 0.4}) as house:
        known = await connect(house)
        assert (await known.ask(get("/mine", KEY))).status == 200
        await known.send(get("/large"))
        await until(lambda: not house.state.connections)


async def test_an_answer_that_lasts_is_not_cut(house: House) -> None:
    poll, slow = await connect(house), await connect(house)
    await poll.send(post(b"", "/poll"))
    await slow.send(post(b"late", "/slow"))
    await until(lambda: {"poll", "slow"} <= {*house.seen})
    await asyncio.sleep(1.5)
    assert len(house.state.connections) == 2
    assert house.cut_off == []
    house.let_go()
    assert (await slow.answer()).json() == {"body": "late"}


# --- how many ---------------------------------------------------------------------------------------------------------

FEW: dict[str, Any] = {"max_strangers": 5, "max_connections": 8, "sweep_seconds": 0.05}


async def test_the_oldest_stranger_makes_room() -> None:
    async with serving(limits=FEW) as house:
        known = await connect(house)
        assert (await known.ask(get("/mine", KEY))).status == 200
        half = await connect(house)
        await half.send(post(b"", "/poll", KEY)[:20])
        silent = [await connect(house) for _ in range(20)]
        assert await is_closed(half)
        assert all([await is_closed(each) for each in silent[:15]])
        await until(lambda: len(house.state.connections) == 6)
        assert (await known.ask(get("/mine", KEY))).status == 200
        newcomer = await connect(house)
        assert (await newcomer.ask(get("/mine", KEY))).status == 200


async def test_connections_with_a_key_are_not_evicted_but_counted() -> None:
    async with serving(limits={**FEW, "max_connections": 3}, timeout_keep_alive=60) as house:
        known = [await connect(house) for _ in range(3)]
        for each in known:
            assert (await each.ask(get("/mine", KEY))).status == 200
        assert await is_closed(await connect(house))
        for each in known:
            assert (await each.ask(get("/mine", KEY))).status == 200
        known[0].close()
        await until(lambda: len(house.state.connections) == 2)
        assert (await (await connect(house)).ask(get("/mine", KEY))).status == 200


@pytest.mark.parametrize("lasting", [False, True], ids=["an answer", "an answer that lasts"])
async def test_a_connection_is_known_as_soon_as_its_key_was_checked(lasting: bool) -> None:
    async with serving(limits=FEW) as house:
        known = await connect(house)
        if lasting:
            await known.send(post(b"", "/hanging", KEY))
            await until(lambda: "hanging" in house.seen)
        else:
            assert (await known.ask(get("/mine", KEY))).status == 200
        for _ in range(20):
            await connect(house)
        await asyncio.sleep(0.2)
        house.let_go()
        answer = await known.answer() if lasting else await known.ask(get("/mine", KEY))
        assert answer.status == 200


async def test_few_strangers_may_leave_answers_unread() -> None:
    async with serving(limits={"max_unread_strangers": 3}) as house:
        clients = [await connect(house) for _ in range(8)]
        for client in clients:
            await client.send(get("/large"))
        await until(lambda: len(house.state.connections) <= 3)
        assert await is_closed(clients[0])
