"""The proxies of `timeball chaos`: they forward data, and on order they reset connections, hang, or delay."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from timeball.chaos.proxy import ProxiedAddress

SILENCE = 0.2


@pytest.fixture
async def link() -> AsyncIterator[ProxiedAddress]:
    """To a server that says everything back."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1_000):
                writer.write(data)
        except OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    link = ProxiedAddress(lambda: asyncio.open_connection("127.0.0.1", port))
    await link.open()
    yield link
    await link.close()
    server.close()
    await asyncio.sleep(0.05)


class Caller:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def of(cls, link: ProxiedAddress) -> "Caller":
        return cls(*await asyncio.open_connection("127.0.0.1", link.port))

    async def ask(self, text: bytes, patience: float = 10.0) -> bytes:
        self.writer.write(text)
        return await asyncio.wait_for(self.reader.read(1_000), patience)

    async def is_reset(self) -> None:
        """Not ended, as by somebody who had nothing more to say."""
        with pytest.raises(ConnectionError):
            await asyncio.wait_for(self.reader.read(1_000), 10.0)


async def test_it_carries_both_ways_and_tells_the_end(link: ProxiedAddress) -> None:
    caller = await Caller.of(link)
    assert await caller.ask(b"hello") == b"hello"
    caller.writer.write_eof()
    assert await caller.reader.read() == b""
    caller.writer.close()


async def test_a_cut_resets_connections_until_it_heals(link: ProxiedAddress) -> None:
    caller = await Caller.of(link)
    assert await caller.ask(b"hello") == b"hello"
    link.cut()
    await caller.is_reset()
    late = await Caller.of(link)
    await late.is_reset()
    link.heal()
    healed = await Caller.of(link)
    assert await healed.ask(b"hello") == b"hello"
    for each in (caller, late, healed):
        each.writer.close()


async def test_a_hanging_link_says_nothing_and_what_hung_stays_silent(link: ProxiedAddress) -> None:
    before = await Caller.of(link)
    assert await before.ask(b"hello") == b"hello"
    link.hang()
    during = await Caller.of(link)
    for caller in (before, during):
        with pytest.raises(TimeoutError):
            await caller.ask(b"anybody?", SILENCE)
    link.heal()
    after = await Caller.of(link)
    assert await after.ask(b"hello") == b"hello"
    with pytest.raises(TimeoutError):
        await before.ask(b"anybody?", SILENCE)
    for caller in (before, during, after):
        caller.writer.close()


async def test_a_delay_holds_up_every_message(link: ProxiedAddress) -> None:
    caller = await Caller.of(link)
    link.delay(60.0)
    with pytest.raises(TimeoutError):
        await caller.ask(b"hello", SILENCE)
    link.heal()
    other = await Caller.of(link)
    assert await other.ask(b"hello") == b"hello"
    for each in (caller, other):
        each.writer.close()


async def test_nobody_there_is_a_reset() -> None:
    async def nobody() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        raise ConnectionRefusedError

    link = ProxiedAddress(nobody)
    await link.open()
    caller = await Caller.of(link)
    await caller.is_reset()
    caller.writer.close()
    await link.close()
