"""Requests on a socket: the fast path and uvicorn give the same answers, and the fast path handles what arrives
whole."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.raw_http import LARGE, Client, House, get, post, serving, until
from timeball.api import app
from timeball.api.http.buffered_protocol import BufferedProtocol
from timeball.api.http.fast_protocol import MAX_BYTES, MAX_REMEMBERED_LENGTH, FastProtocol


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with serving() as running:
        yield running


@pytest.fixture
async def client(house: House) -> Client:
    return await Client.of(house)


# --- the short way ----------------------------------------------------------------------------------------------------


async def test_whole_requests_take_the_short_way_one_after_the_other(house: House, client: Client) -> None:
    for body in (b"one", b"two", b""):
        answer = await client.ask(post(body))
        assert (answer.status, answer.json()["body"], answer.json()["short"]) == (200, body.decode(), True)
    assert (await client.ask(get("/echo/x%20y?a=b&c"))).json() == {
        "method": "GET",
        "path": "/echo/x y",
        "parameters": {"name": "x y"},
        "query": "a=b&c",
        "body": "",
        "short": True,
    }
    assert house.kinds() == {FastProtocol}
    assert house.state.total_requests == 4
    await until(lambda: not house.state.tasks)


async def test_an_answer_is_the_same_either_way(client: Client) -> None:
    short = await client.ask(post(b"hello"))
    long = await client.ask(b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
    assert short.json() == {**long.json(), "short": True}
    assert not long.json()["short"]
    assert {**short.headers, "date": ""} == {**long.headers, "date": "", "content-length": str(len(short.body))}
    assert short.headers["date"].endswith("GMT")


async def test_an_answer_may_have_no_body(client: Client) -> None:
    answer = await client.ask(get("/nothing", method="DELETE"))
    assert answer.status == 204
    assert not {"content-length", "content-type", "transfer-encoding"} & {*answer.headers}
    assert (await client.ask(post(b"next"))).json()["body"] == "next"


async def test_what_is_not_there_or_not_allowed_is_said(house: House, client: Client) -> None:
    missing = await client.ask(get("/elsewhere"))
    assert (missing.status, missing.headers["content-type"]) == (404, "application/problem+json")
    refused = await client.ask(get("/echo", method="PUT"))
    assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD, OPTIONS, POST")
    packed = await client.ask(post(b"x", "/echo", "Content-Encoding: gzip"))
    assert packed.status == 415
    assert house.kinds() == {FastProtocol}


async def test_after_some_problems_the_connection_closes(client: Client) -> None:
    answer = await client.ask(get("/refuse"))
    assert (answer.status, answer.headers["connection"]) == (413, "close")
    assert await client.rest() == b""


async def test_a_connection_without_questions_is_closed() -> None:
    async with serving(timeout_keep_alive=0.2) as house:
        client = await Client.of(house)
        for _ in range(3):  # the time counts from the last answer
            assert (await client.ask(post(b"x"))).status == 200
            await asyncio.sleep(0.05)
        assert await client.rest() == b""
        await until(lambda: not house.state.connections)


async def test_a_connection_with_an_answer_under_way_is_not_idle() -> None:
    async with serving(timeout_keep_alive=0.1) as house:
        client = await Client.of(house)
        await client.ask(post(b"x"))
        await client.send(post(b"late", "/slow"))
        await asyncio.sleep(0.5)
        house.let_go()
        assert (await client.answer()).json() == {"body": "late"}
        assert await client.rest() == b""


async def test_who_goes_away_leaves_nothing_behind(house: House) -> None:
    client = await Client.of(house)
    await client.send(post(b"x", "/slow"))
    await until(lambda: house.seen)
    client.abort()
    await until(lambda: not house.state.connections)
    house.let_go()
    await until(lambda: not house.state.tasks)


async def test_who_does_not_take_its_answers_is_not_heard(house: House, client: Client) -> None:
    await client.send(get("/large"))
    await until(lambda: house.state.total_requests == 1)
    await client.send(post(b"next"))
    await asyncio.sleep(0.1)
    assert house.seen == []
    assert (await client.answer()).body == LARGE
    assert (await client.answer()).json()["body"] == "next"


# --- heads that came before -------------------------------------------------------------------------------------------


async def test_a_head_that_came_before_brings_another_body(house: House) -> None:
    one, other = await Client.of(house), await Client.of(house)
    for client, body in ((one, b"first"), (one, b"again"), (other, b"third")):
        answer = await client.ask(post(body))
        assert (answer.json()["body"], answer.json()["short"]) == (body.decode(), True)
    assert len(house.paths.asked) == 1
    assert (await one.ask(post(b"four"))).json()["body"] == "four"
    assert len(house.paths.asked) == 2  # its length is part of a head


@pytest.mark.parametrize("at", [10, -3])
async def test_a_known_head_with_less_than_its_body_waits_for_it(house: House, client: Client, at: int) -> None:
    await client.ask(post(b"whole"))
    await client.send(post(b"piece")[:at])
    await asyncio.sleep(0.02)
    assert (await client.ask(post(b"piece")[at:])).json()["body"] == "piece"
    assert house.seen == ["whole", "piece"]


async def test_a_known_head_with_more_than_its_body_is_two_requests(house: House, client: Client) -> None:
    await client.ask(post(b"first"))
    await client.send(post(b"other") + post(b"third"))
    assert [(await client.answer()).json()["body"] for _ in range(2)] == ["other", "third"]
    assert house.seen == ["first", "other", "third"]


@pytest.mark.parametrize(
    "request_",
    [
        b"\r\n\r\n" + post(b"late"),
        b"POST /echo HTTP/1.1\r\nIdempotency-Key: once\r\nContent-Length: 4\r\n\r\nlate",
        post(b"late", "/echo", f"X-Padding: {'x' * MAX_REMEMBERED_LENGTH}"),
    ],
    ids=["lines before it", "said once", "long"],
)
async def test_heads_that_are_not_worth_it_are_not_remembered(house: House, client: Client, request_: bytes) -> None:
    for _ in range(2):
        answer = await client.ask(request_)
        assert (answer.json()["body"], answer.json()["short"]) == ("late", True)
    assert house.paths.asked == {}


async def test_the_oldest_heads_are_forgotten(house: House, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "MAX_REMEMBERED", 2)
    for name in ("a", "b", "c", "b"):
        assert (await client.ask(get(f"/echo/{name}"))).json()["parameters"] == {"name": name}
    assert [asked.request.path for asked in house.paths.asked.values()] == ["/echo/b", "/echo/c"]


# --- and when it ends -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "together", [True, False], ids=["in one piece", "in pieces, the second while the first is answered"]
)
async def test_pipelined_requests_are_answered_in_order(house: House, client: Client, together: bool) -> None:
    requests = [post(b"first", "/slow"), post(b"second"), get("/echo/third"), post(b"fourth")]
    if together:
        await client.send(b"".join(requests))
    else:
        await client.send(requests[0])
        await until(lambda: house.seen)
        for request in requests[1:]:
            await client.send(request)
            await asyncio.sleep(0.01)
    await until(lambda: house.seen)
    assert house.seen == ["slow"]
    house.let_go()
    answers = [await client.answer() for _ in requests]
    assert [answer.json().get("parameters", {}).get("name") or answer.json()["body"] for answer in answers] == [
        "first",
        "second",
        "third",
        "fourth",
    ]
    assert (await client.ask(post(b"fifth"))).json()["body"] == "fifth"
    assert house.kinds() == {BufferedProtocol}


@pytest.mark.parametrize("at", [1, 10, 45, -3, -1])
async def test_a_request_that_comes_slowly_is_answered_too(house: House, client: Client, at: int) -> None:
    assert (await client.ask(post(b"before"))).json()["short"]
    request = post(b"slow body")
    await client.send(request[:at])
    await asyncio.sleep(0.02)
    answer = await client.ask(request[at:])
    assert (answer.json()["body"], answer.json()["short"]) == ("slow body", False)
    assert (await client.ask(post(b"after"))).json()["body"] == "after"


@pytest.mark.parametrize("at", [1, 10, 45, -3])
async def test_half_a_request_is_none(house: House, at: int) -> None:
    client = await Client.of(house)
    await client.send(post(b"never")[:at])
    await until(lambda: BufferedProtocol in house.kinds())
    client.close()
    await until(lambda: not house.state.connections and not house.state.tasks)
    assert house.seen == []


async def test_large_bodies_arrive(client: Client) -> None:
    body = b"x" * (3 * MAX_BYTES)
    assert (await client.ask(post(body))).json()["body"] == body.decode()


async def test_bodies_that_are_too_large_are_refused(house: House, client: Client) -> None:
    answer = await client.ask(post(b"", "/echo").replace(b"Length: 0", b"Length: 999999999"))
    assert (answer.status, answer.headers["connection"]) == (413, "close")
    assert await client.rest() == b""
    assert house.seen == []


async def test_a_body_in_chunks_arrives(client: Client) -> None:
    head = b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert (await client.ask(head + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")).json()["body"] == "abcde"
    assert (await client.ask(post(b"after"))).json()["body"] == "after"


async def test_who_expects_to_be_asked_for_the_body_is_asked(client: Client) -> None:
    request = post(b"expected", "/echo", "Expect: 100-continue")
    head, _, body = request.partition(b"\r\n\r\n")
    await client.send(head + b"\r\n\r\n")
    assert (await client.answer(to_head=True)).status == 100
    assert (await client.ask(body)).json()["body"] == "expected"


async def test_the_last_request_of_a_connection_is_answered(house: House, client: Client) -> None:
    assert (await client.ask(post(b"x"))).status == 200
    answer = await client.ask(post(b"last", "/echo", "Connection: close"))
    assert (answer.json()["body"], answer.headers["connection"]) == ("last", "close")
    assert await client.rest() == b""


@pytest.mark.parametrize("headers", [(), ("Connection: keep-alive",)])
async def test_http_1_0_gets_one_answer(client: Client, headers: tuple[str, ...]) -> None:
    answer = await client.ask(post(b"old", "/echo", *headers, version="1.0"))
    assert (answer.json()["body"], answer.headers["connection"]) == ("old", "close")
    assert await client.rest() == b""


async def test_head_is_answered_without_a_body(client: Client) -> None:
    await client.send(get("/echo", method="HEAD"))
    answer = await client.answer(to_head=True)
    assert (answer.status, int(answer.headers["content-length"]) > 0) == (200, True)
    assert (await client.ask(post(b"next"))).json()["body"] == "next"


async def test_upgrades_are_not_made(client: Client) -> None:
    answer = await client.ask(get("/echo", "Connection: Upgrade", "Upgrade: websocket"))
    assert (answer.status, answer.json()["short"]) == (200, False)


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\x00\x01\r\n\r\n",
        b"GET /echo HTTP/9.7\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nabcde",
        b"POST /echo HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /\xc3\xbc HTTP/1.1\r\n\r\n",
        b"GET /echo HTTP/1.1\r\nbad header\r\n\r\n",
    ],
)
async def test_bytes_that_are_no_request_are_refused(house: House, client: Client, nonsense: bytes) -> None:
    assert (await client.ask(post(b"x"))).status == 200
    answer = await client.ask(nonsense)
    assert (answer.status, answer.headers["connection"]) == (400, "close")
    assert await client.rest() == b""
    assert house.seen == ["x"]


async def test_other_ways_to_write_an_address(client: Client) -> None:
    for address in ("http://x/echo/1", "/echo/1#part"):
        assert (await client.ask(get(address))).json()["path"] == "/echo/1"


async def test_answers_that_come_bit_by_bit(client: Client) -> None:
    answer = await client.ask(get("/lines"))
    assert (answer.body, answer.headers["transfer-encoding"]) == (b"one\ntwo\n", "chunked")


async def test_who_answers_late_knows_when_nobody_waits_any_more(house: House) -> None:
    client = await Client.of(house)
    await client.ask(post(b"x"))
    await client.send(post(b"", "/poll"))
    await until(lambda: "poll" in house.seen)
    client.abort()
    await until(lambda: house.cut_off == ["http.disconnect"])


# --- the server goes --------------------------------------------------------------------------------------------------


async def test_the_server_goes_after_the_answer_that_is_under_way() -> None:
    async with serving() as house:
        idle, busy = await Client.of(house), await Client.of(house)
        await idle.ask(post(b"x"))
        await busy.send(post(b"last", "/slow"))
        await until(lambda: "slow" in house.seen)
        house.server.should_exit = True
        assert await idle.rest() == b""
        house.let_go()
        answer = await busy.answer()
        assert (answer.json(), answer.headers["connection"]) == ({"body": "last"}, "close")
        assert await busy.rest() == b""


async def test_the_server_does_not_wait_for_ever() -> None:
    async with serving(timeout_graceful_shutdown=1) as house:
        client = await Client.of(house)
        await client.send(post(b"late", "/slow"))
        await until(lambda: house.seen)
        house.server.should_exit = True
        assert await client.rest() == b""
        assert not house.state.tasks
