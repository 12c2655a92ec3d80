"""The cost of sessions: none for a request with an API key, no write for a request, and little for clients that
guess."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import ADMIN, Api, running_api
from tests.support.browser import Browser
from tests.support.raw_http import Client, listening, post
from timeball.api.http.connection_limits import ConnectionLimits
from timeball.api.routing import Request
from timeball.ports.store.sign_in import FoundSession


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with running_api(tmp_path) as running:
        yield running


class Watched(dict[bytes, bytes]):
    """Headers that record which of them are looked up."""

    def __init__(self, headers: dict[bytes, bytes]) -> None:
        super().__init__(headers)
        self.asked: list[bytes] = []

    def get(self, name: bytes, default: Any = None) -> Any:
        self.asked.append(name)
        return super().get(name, default)

    def __contains__(self, name: object) -> bool:
        assert isinstance(name, bytes)
        self.asked.append(name)
        return super().__contains__(name)


class Counted:
    """Counts the calls of some methods of the store."""

    def __init__(self, api: Api, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
        self.calls = dict.fromkeys(names, 0)
        store = api.server.context.store
        for name in names:
            monkeypatch.setattr(store, name, self._counting(name, getattr(store, name)))

    def _counting(self, name: str, method: Any) -> Any:
        async def counted(*args: Any) -> Any:
            self.calls[name] += 1
            return await method(*args)

        return counted


@pytest.mark.parametrize("key", [ADMIN, "wrong"])
async def test_a_request_with_an_api_key_costs_one_lookup_of_a_credential(api: Api, key: str) -> None:
    headers = Watched({b"authorization": f"Bearer {key}".encode(), b"cookie": b"timeball_1300=x", b"host": b"x"})
    app: Any = api.app
    endpoint, _ = app.find("/v1/clock")

    async def receive() -> Any:
        raise AssertionError("a GET has no body")

    request = Request(method="GET", path="/v1/clock", query=b"", headers=headers, receive=receive)
    answer = await endpoint.answer(request)
    assert answer.status == (200 if key == ADMIN else 401)
    assert headers.asked == [b"authorization"]


async def test_requests_with_a_session_cost_one_read_in_3_s_and_no_write(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = await Browser(api).signed_in()
    counted = Counted(api, monkeypatch, "session_by_digest", "use_session")
    for _ in range(20):
        assert (await browser.ask("GET", "/v1/clock")).status_code == 200
    assert counted.calls["session_by_digest"] < 20
    assert counted.calls["use_session"] == 0


async def test_the_use_of_a_session_is_stored_when_that_is_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_api(tmp_path) as api:
        browser = await Browser(api).signed_in()
        store = api.server.context.store
        find = store.session_by_digest

        async def found_long_ago(digest: str) -> FoundSession | None:
            found = await find(digest)
            return None if found is None else FoundSession(found.session, is_use_due=True)

        monkeypatch.setattr(store, "session_by_digest", found_long_ago)
        counted = Counted(api, monkeypatch, "use_session")
        assert (await browser.ask("GET", "/v1/clock")).status_code == 200
        for _ in range(5):
            await browser.ask("GET", "/v1/clock")
        assert counted.calls["use_session"] <= 2, "at most once for each time that the session is looked up"


async def test_wrong_tokens_and_keys_write_nothing(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(api, monkeypatch, "exchange_token", "open_web_session", "revoke_session", "add_sign_in_token")
    tries = [{"token": f"tb_{at}"} for at in range(10)] + [{"apiKey": f"key {at}"} for at in range(10)]
    answers = await asyncio.gather(*(Browser(api).sign_in(**body) for body in tries))
    assert {answer.status_code for answer in answers} == {401}
    assert set(counted.calls.values()) == {0}


@pytest.mark.parametrize("known", [True, False])
async def test_a_client_that_guesses_is_a_stranger_until_it_signs_in(api: Api, known: bool) -> None:
    """I28: the connection of a stranger closes after some answers."""

    def try_with(body: str) -> bytes:
        sent = post(body.encode(), "/v1/sign-in", "Sec-Fetch-Site: same-origin", "Content-Type: application/json")
        return sent.replace(b"Host: x", b"Host: localhost")

    async with listening(api.app) as house:
        client = await Client.of(house)
        if known:
            answer = await client.ask(try_with(f'{{"apiKey":"{ADMIN}"}}'))
            assert answer.status == 200, answer.body
        closed = 0
        for _ in range(ConnectionLimits().max_stranger_answers):
            answer = await client.ask(try_with('{"token":"tb_wrong"}'))
            assert answer.status == 401
            closed += answer.headers.get("connection") == "close"
        assert closed == (0 if known else 1)
        client.close()
