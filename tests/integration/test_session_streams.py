"""Event streams of signed-in browsers: they last as long as the session, and no other page can open one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import ADMIN, Api, running_api
from tests.support.browser import Browser
from tests.support.event_streams import EventReader, HttpApi, over_http, until
from timeball.api import event_streams
from timeball.api.sign_in.sessions import Sessions
from timeball.domain.instant import MILLISECOND
from timeball.ports.store.sign_in import WebSession


@pytest.fixture
async def http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[HttpApi]:
    monkeypatch.setattr(event_streams, "CHECK_INTERVAL", 10 * MILLISECOND)
    async with running_api(tmp_path) as api, over_http(api) as http:
        yield http


def cookies_of(browser: Browser) -> dict[str, str]:
    return {"cookie": "; ".join(f"{name}={value}" for name, value in browser.cookies.items())}


@asynccontextmanager
async def events_of(http: HttpApi, browser: Browser) -> AsyncIterator[EventReader]:
    async with http.client.stream("GET", f"{http.url}/v1/events", headers=cookies_of(browser)) as answer:
        assert answer.status_code == 200, await answer.aread()
        yield await EventReader(answer).opened()


async def revoke(api: Api, what: str, key_id: str) -> None:
    session = (await api.get("/v1/sessions"))["items"][0]["id"]
    path = f"/v1/sessions/{session}" if what == "session" else f"/v1/api-keys/{key_id}"
    assert (await api("DELETE", path)).status_code == 204


@pytest.mark.parametrize("what", ["session", "key"])
async def test_the_stream_of_a_session_lasts_until_it_ends(
    http: HttpApi, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    checks = 0
    check = Sessions.check

    async def counted(self: Sessions, digest: str) -> WebSession:
        nonlocal checks
        checks += 1
        return await check(self, digest)

    monkeypatch.setattr(Sessions, "check", counted)
    key = (await http.api("POST", "/v1/api-keys", json={"role": "admin", "name": "page"})).json()
    browser = await Browser(http.api).signed_in(key["key"])
    async with events_of(http, browser) as events:
        await until(lambda: checks >= 5)
        await http.api.create(name="later")
        assert (await events.until("timeball.job.created")).data["name"] == "later"
        await revoke(http.api, what, key["keyId"])
        assert await events.ended()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"host": "evil.example"}, 401),
        ({"cookie": "timeball_1300=wrong"}, 401),
    ],
)
async def test_another_page_opens_no_stream(http: HttpApi, headers: dict[str, Any], status: int) -> None:
    browser = await Browser(http.api).signed_in()
    answer = await http.client.get(f"{http.url}/v1/events", headers={**cookies_of(browser), **headers})
    assert answer.status_code == status


async def test_me_shows_the_session(http: HttpApi) -> None:
    browser = Browser(http.api)
    signed_in = (await browser.sign_in(apiKey=ADMIN)).json()
    me = (await browser.ask("GET", "/v1/me")).json()
    assert {**me, "server": None} == {**signed_in, "server": None}
    assert (me["via"], me["session"].keys()) == ("session", {"id", "createdAt", "expiresAt"})
    assert me["server"].keys() == {"version", "store", "now", "publicUrl", "tzdata"}
