"""Signing in with a browser: what opens a session, what it may do, what ends it, and which requests are refused."""

import asyncio
import hashlib
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import ADMIN, OTHER, WORKER, Api, running_api, serving
from tests.support.browser import JSON, LOCAL, OWN_PAGE, Browser
from timeball import system
from timeball.api.app import ROUTES
from timeball.api.routing import Route
from timeball.api.sign_in.site import make_site
from timeball.domain.sign_in import SESSION_LIFETIME
from timeball.stores.postgres.store import PostgresStore

PUBLIC = "https://timeball.example.org/scheduler"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with running_api(tmp_path) as running:
        yield running


@pytest.fixture
async def proxied(tmp_path: Path) -> AsyncIterator[Api]:
    """Behind a proxy that ends TLS."""
    site = make_site("0.0.0.0", 1300, tls=False, public_url=PUBLIC)
    async with running_api(tmp_path, site=site) as running:
        yield running


async def new_link(api: Api, key: str = ADMIN) -> tuple[str, str]:
    """A one-time link, and its token."""
    answer = await api("POST", "/v1/sign-in-links", key)
    assert answer.status_code == 201, answer.text
    url = answer.json()["url"]
    return url, url.partition("#/sign-in?token=")[2]


# --- signing in -----------------------------------------------------------------------------------------------------


async def test_an_api_key_opens_a_session_that_acts_with_its_tenant_and_role(api: Api) -> None:
    """I24."""
    browser, stranger = Browser(api), Browser(api)
    answer = await browser.sign_in(apiKey=ADMIN)
    assert answer.status_code == 200, answer.text
    view = answer.json()
    assert (view["tenant"], view["role"], view["via"]) == ("default", "system", "session")
    assert {"read", "run", "edit", "admin", "system"} <= set(view["permissions"])
    assert view["server"]["publicUrl"] is None
    assert (await stranger.sign_in(apiKey=OTHER)).status_code == 200
    created = await browser.ask("POST", "/v1/jobs", json={"task": {"kind": "shell", "command": "true"}})
    assert created.status_code == 201
    job = created.json()["jobId"]
    assert (await browser.ask("GET", f"/v1/jobs/{job}")).status_code == 200
    assert (await stranger.ask("GET", f"/v1/jobs/{job}")).status_code == 404


async def test_a_link_signs_in_with_the_key_that_made_it(api: Api) -> None:
    url, token = await new_link(api)
    assert url.startswith(f"{LOCAL}/#/sign-in?token=")
    browser = Browser(api)
    assert (await browser.sign_in(token=token)).json()["tenant"] == "default"
    _, other = await new_link(api, OTHER)
    assert (await Browser(api).sign_in(token=other)).json()["tenant"] == "other"


async def test_a_stolen_link_that_is_used_twice_opens_one_session(api: Api) -> None:
    _, token = await new_link(api)
    browsers = [Browser(api) for _ in range(5)]
    statuses = [
        answer.status_code for answer in await asyncio.gather(*(each.sign_in(token=token) for each in browsers))
    ]
    assert sorted(statuses) == [200, 401, 401, 401, 401]
    assert [bool(browser.cookies) for browser in browsers] == [status == 200 for status in statuses]
    assert len((await api.get("/v1/sessions"))["items"]) == 1


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"token": "tb_wrong"}, 401),
        ({"apiKey": "wrong"}, 401),
        ({"apiKey": WORKER}, 403),
        ({}, 422),
        ({"token": None, "apiKey": None}, 422),
        ({"token": "a", "apiKey": ADMIN}, 422),
        ({"token": ""}, 422),
        ({"apiKey": "\u0000"}, 422),
        ({"apiKey": "ü" * 40}, 401),
        ({"token": "ü" * 40}, 401),
        ({"password": "x"}, 422),
        ({"apiKey": "x" * 5_000}, 422),
        ({"apiKey": "x" * 70_000}, 413),
        ({"apiKey": 1}, 422),
    ],
)
async def test_a_wrong_sign_in_gets_no_cookie(api: Api, body: Any, status: int) -> None:
    browser = Browser(api)
    answer = await browser.ask("POST", "/v1/sign-in", json=body)
    assert answer.status_code == status, answer.text
    assert not browser.set_cookie
    assert answer.headers["content-type"] == "application/problem+json"


async def test_lone_surrogates_are_refused(api: Api) -> None:
    for field in ("token", "apiKey"):
        answer = await Browser(api).ask("POST", "/v1/sign-in", content=b'{"%b":"\\ud800"}' % field.encode())
        assert answer.status_code in (400, 401, 422), answer.text


async def test_a_second_sign_in_of_a_browser_ends_its_first_session(api: Api) -> None:
    browser = await Browser(api).signed_in()
    first = dict(browser.cookies)
    await browser.signed_in()
    assert first != browser.cookies
    assert len((await api.get("/v1/sessions"))["items"]) == 1
    browser.cookies = first
    assert (await browser.ask("GET", "/v1/jobs")).status_code == 401


# --- the cookie -----------------------------------------------------------------------------------------------------


async def test_the_cookie_over_http_has_the_port_in_its_name(api: Api) -> None:
    browser = await Browser(api).signed_in()
    ((name, secret),) = browser.cookies.items()
    assert name == "timeball_1300"
    assert len(secret) >= 43, "256 bits"
    attributes = [part.strip() for part in browser.set_cookie.split(";")[1:]]
    assert sorted(attributes) == ["HttpOnly", f"Max-Age={SESSION_LIFETIME // 1_000_000}", "Path=/", "SameSite=Lax"]


async def test_the_cookie_over_https_is_secure_and_of_this_host_alone(proxied: Api) -> None:
    browser = await Browser(proxied, "https://timeball.example.org").signed_in()
    assert list(browser.cookies) == ["__Host-timeball"]
    attributes = {part.strip() for part in browser.set_cookie.split(";")[1:]}
    assert {"Secure", "HttpOnly", "SameSite=Lax", "Path=/"} <= attributes
    assert "domain" not in browser.set_cookie.lower()


async def test_the_store_has_only_digests(tmp_path: Path) -> None:
    async with running_api(tmp_path) as api:
        browser = await Browser(api).signed_in()
        _, token = await new_link(api)
        (secret,) = browser.cookies.values()
    with closing(sqlite3.connect(tmp_path / "timeball.db")) as database:
        whole = "\n".join(database.iterdump())
    for each in (secret, token):
        assert each not in whole
        assert hashlib.sha256(each.encode()).hexdigest() in whole


async def test_a_link_behind_a_proxy_leads_to_the_public_address(proxied: Api) -> None:
    url, token = await new_link(proxied)
    assert url == f"{PUBLIC}/#/sign-in?token={token}"
    answer = await Browser(proxied, "https://timeball.example.org").sign_in(token=token)
    assert answer.json()["server"]["publicUrl"] == PUBLIC


# --- what is refused ------------------------------------------------------------------------------------------------

WRITE = {"method": "POST", "path": "/v1/jobs"}
READ = {"method": "GET", "path": "/v1/jobs"}
ATTACKS: dict[str, tuple[dict[str, Any], int, str]] = {
    "a cross-site POST": ({**WRITE, "headers": {**OWN_PAGE, "sec-fetch-site": "cross-site"}}, 403, "cross_site"),
    "a POST of another port of this host": (
        {**WRITE, "headers": {**OWN_PAGE, "sec-fetch-site": "same-site"}},
        403,
        "cross_site",
    ),
    "a POST of no page": ({**WRITE, "headers": {**OWN_PAGE, "sec-fetch-site": "none"}}, 403, "cross_site"),
    "a cross-site POST with our Origin": (
        {**WRITE, "headers": {**OWN_PAGE, "sec-fetch-site": "cross-site", "origin": LOCAL}},
        403,
        "cross_site",
    ),
    "a missing Origin": ({**WRITE, "headers": JSON}, 403, "cross_site"),
    "an empty Origin": ({**WRITE, "headers": {**JSON, "origin": ""}}, 403, "cross_site"),
    "the Origin null": ({**WRITE, "headers": {**JSON, "origin": "null"}}, 403, "cross_site"),
    "a wrong Origin": ({**WRITE, "headers": {**JSON, "origin": "https://evil.example"}}, 403, "cross_site"),
    "the Origin of another port": (
        {**WRITE, "headers": {**JSON, "origin": "http://127.0.0.1:8000"}},
        403,
        "cross_site",
    ),
    "the Origin with another scheme": (
        {**WRITE, "headers": {**JSON, "origin": "https://127.0.0.1:1300"}},
        403,
        "cross_site",
    ),
    "an Origin that begins like ours": (
        {**WRITE, "headers": {**JSON, "origin": f"{LOCAL}.evil.example"}},
        403,
        "cross_site",
    ),
    "a form": (
        {**WRITE, "headers": {**OWN_PAGE, "content-type": "application/x-www-form-urlencoded"}},
        403,
        "cross_site",
    ),
    "a form of plain text": ({**WRITE, "headers": {**OWN_PAGE, "content-type": "text/plain"}}, 403, "cross_site"),
    "a form with files": (
        {**WRITE, "headers": {**OWN_PAGE, "content-type": "multipart/form-data; boundary=application/json"}},
        403,
        "cross_site",
    ),
    "no content type": ({**WRITE, "headers": {**OWN_PAGE, "content-type": None}}, 403, "cross_site"),
    "a DELETE without a content type": (
        {"method": "DELETE", "path": "/v1/sessions/s_0", "headers": {"sec-fetch-site": "same-origin"}},
        403,
        "cross_site",
    ),
    "a cross-site sign-out": (
        {"method": "POST", "path": "/v1/sign-out", "headers": {**OWN_PAGE, "sec-fetch-site": "cross-site"}},
        403,
        "cross_site",
    ),
    "a cross-site read": ({**READ, "headers": {"sec-fetch-site": "cross-site"}}, 403, "cross_site"),
    "a read of another port of this host": ({**READ, "headers": {"sec-fetch-site": "same-site"}}, 403, "cross_site"),
    "a GET that should sign out": (
        {"method": "GET", "path": "/v1/sign-out", "headers": OWN_PAGE},
        405,
        "method_not_allowed",
    ),
    "a GET that should sign in": (
        {"method": "GET", "path": f"/v1/sign-in?apiKey={ADMIN}", "headers": OWN_PAGE},
        405,
        "method_not_allowed",
    ),
    "a GET that should make a link": (
        {"method": "GET", "path": "/v1/sign-in-links", "headers": OWN_PAGE},
        405,
        "method_not_allowed",
    ),
    "a method in a header": (
        {"method": "GET", "path": "/v1/sign-out", "headers": {**OWN_PAGE, "x-http-method-override": "POST"}},
        405,
        "method_not_allowed",
    ),
    "another Host": ({**READ, "host": "evil.example:1300", "headers": OWN_PAGE}, 401, "unauthorized"),
    "another Host in a write": (
        {**WRITE, "host": "evil.example", "headers": {**OWN_PAGE, "origin": "http://evil.example"}},
        401,
        "unauthorized",
    ),
    "a Host that begins like ours": (
        {**READ, "host": "127.0.0.1.evil.example", "headers": OWN_PAGE},
        401,
        "unauthorized",
    ),
    "a Host that ends like ours": ({**READ, "host": "evil-localhost", "headers": OWN_PAGE}, 401, "unauthorized"),
    "a Host that resolvers disagree about": ({**READ, "host": "127.1:1300", "headers": OWN_PAGE}, 401, "unauthorized"),
    "a Host with a user": ({**READ, "host": "localhost@evil.example", "headers": OWN_PAGE}, 401, "unauthorized"),
    "an empty Host": ({**READ, "host": " ", "headers": OWN_PAGE}, 401, "unauthorized"),
    "a wrong API key beside the cookie": (
        {**READ, "headers": {**OWN_PAGE, "authorization": "Bearer wrong"}},
        401,
        "unauthorized",
    ),
}


@pytest.mark.parametrize("attack", ATTACKS)
async def test_a_request_that_the_web_ui_did_not_send_is_refused(api: Api, attack: str) -> None:
    request, status, code = ATTACKS[attack]
    browser = await Browser(api).signed_in()
    before = dict(browser.cookies)
    body = {"content": b'{"task":{"kind":"shell","command":"true"}}'} if request["method"] == "POST" else {}
    answer = await browser.send(**{**body, **request})
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert browser.cookies == before
    assert (await api.get("/v1/jobs"))["items"] == []
    assert len((await api.get("/v1/sessions"))["items"]) == 1, "the session is neither ended nor doubled"
    assert (await browser.ask("GET", "/v1/jobs")).status_code == 200


async def test_the_requests_of_the_table_are_refused_only_for_what_it_says(api: Api) -> None:
    """A request of the table with the right headers works."""
    browser = await Browser(api).signed_in()
    body = {"task": {"kind": "shell", "command": "true"}}
    for headers in (
        OWN_PAGE,
        {**JSON, "origin": LOCAL},
        {**OWN_PAGE, "content-type": "application/json; charset=utf-8"},
    ):
        assert (await browser.send("POST", "/v1/jobs", headers=headers, json=body)).status_code == 201
    for host in ("localhost:1300", "[::1]:1300", "127.0.0.2", "LOCALHOST:9999"):
        origin = {**JSON, "origin": f"http://{host.lower()}"}
        assert (await browser.send("POST", "/v1/jobs", host=host, headers=origin, json=body)).status_code == 201
    for headers in ({}, {"sec-fetch-site": "none"}, {"sec-fetch-site": "same-origin"}):
        assert (await browser.send("GET", "/v1/jobs", headers=headers)).status_code == 200


@pytest.mark.parametrize(
    ("headers", "host", "code"),
    [
        ({**OWN_PAGE, "sec-fetch-site": "cross-site"}, None, "cross_site"),
        (JSON, None, "cross_site"),
        ({**JSON, "origin": "https://evil.example"}, None, "cross_site"),
        ({**OWN_PAGE, "content-type": "text/plain"}, None, "cross_site"),
        (OWN_PAGE, "evil.example", "sign_in_refused"),
        ({**OWN_PAGE, "origin": "http://evil.example"}, "evil.example", "sign_in_refused"),
    ],
)
async def test_no_other_page_signs_a_browser_in(api: Api, headers: Any, host: str | None, code: str) -> None:
    browser = Browser(api)
    answer = await browser.send("POST", "/v1/sign-in", headers=headers, host=host, json={"apiKey": ADMIN})
    assert (answer.status_code, answer.json()["code"]) == (403, code)
    assert not browser.set_cookie
    assert (await api.get("/v1/sessions"))["items"] == []


async def test_behind_a_proxy_only_the_public_address_and_loopback_have_sessions(proxied: Api) -> None:
    browser = await Browser(proxied, "https://timeball.example.org").signed_in()
    body = {"task": {"kind": "shell", "command": "true"}}
    expected = {
        "https://timeball.example.org": 201,
        "http://timeball.example.org": 403,
        "https://timeball.example.org:8443": 403,
        "https://timeball.example.org/scheduler": 403,
        "https://evil.timeball.example.org": 403,
    }
    for origin, status in expected.items():
        answer = await browser.send("POST", "/v1/jobs", headers={**JSON, "origin": origin}, json=body)
        assert answer.status_code == status, origin
    for host, status in {"timeball.example.org:8443": 200, "127.0.0.1:1300": 200, "10.0.0.5:1300": 401}.items():
        assert (await browser.send("GET", "/v1/jobs", host=host)).status_code == status, host


async def test_a_request_with_an_api_key_ignores_cookies(api: Api) -> None:
    browser = await Browser(api).signed_in()
    headers = {"authorization": f"Bearer {OTHER}", "sec-fetch-site": "cross-site", "content-type": "text/plain"}
    answer = await browser.send(
        "POST", "/v1/jobs", headers=headers, json={"task": {"kind": "shell", "command": "true"}}
    )
    assert answer.status_code == 201
    assert (await api.get("/v1/jobs"))["items"] == []
    assert len((await api.get("/v1/jobs", key=OTHER))["items"]) == 1


@pytest.mark.parametrize(
    "cookie",
    [
        "",
        "timeball_1300=",
        "timeball_1300=wrong",
        "timeball_1301={}",
        "xtimeball_1300={}",
        "__Host-timeball={}",
        "timeball_1300={}; timeball_1300=another",
        "timeball_1300=" + "x" * 10_000,
        'timeball_1300="{}"',
        "=; ;;; \x7f",
    ],
)
async def test_another_cookie_is_no_session(api: Api, cookie: str) -> None:
    browser = await Browser(api).signed_in()
    (secret,) = browser.cookies.values()
    answer = await browser.send("GET", "/v1/jobs", headers={"cookie": cookie.format(secret)})
    assert answer.status_code == 401
    found = await browser.send("GET", "/v1/jobs", headers={"cookie": f"a=b;timeball_1300={secret} ; c=d"})
    assert found.status_code == 200


# --- the end --------------------------------------------------------------------------------------------------------


async def test_signing_out_ends_the_session_and_removes_the_cookie(api: Api) -> None:
    browser = await Browser(api).signed_in()
    copied = dict(browser.cookies)
    assert (await browser.ask("POST", "/v1/sign-out")).json() == {"providerUrl": None}
    assert browser.cookies == {}
    browser.cookies = copied
    assert (await browser.ask("GET", "/v1/jobs")).status_code == 401
    assert (await api.get("/v1/sessions"))["items"] == []
    assert (await api("POST", "/v1/sign-out")).status_code == 200, "a key has no session, and loses nothing"
    assert (await api("GET", "/v1/jobs")).status_code == 200


async def test_a_revoked_session_is_refused(api: Api) -> None:
    browser, other = await Browser(api).signed_in(), await Browser(api).signed_in()
    listed = (await browser.ask("GET", "/v1/sessions")).json()["items"]
    assert [each["current"] for each in listed].count(True) == 1
    (mine,) = (each["id"] for each in listed if each["current"])
    assert (await api("DELETE", f"/v1/sessions/{mine}", OTHER)).status_code == 404
    assert (await browser.ask("GET", "/v1/jobs")).status_code == 200
    assert (await other.ask("DELETE", f"/v1/sessions/{mine}")).status_code == 204
    assert (await browser.ask("GET", "/v1/jobs")).status_code == 401
    assert (await other.ask("GET", "/v1/jobs")).status_code == 200
    assert (await other.ask("DELETE", f"/v1/sessions/{mine}")).status_code == 404
    assert (await other.ask("DELETE", "/v1/sessions/x")).status_code == 404


@pytest.mark.parametrize("what", ["session", "key"])
async def test_a_request_beside_a_revocation_keeps_no_session_alive(
    api: Api, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """A session that was read before the revocation is not cached after it."""
    created = (await api("POST", "/v1/api-keys", json={"role": "admin", "name": "mine"})).json()
    browser = await Browser(api).signed_in(created["key"])
    session = (await api.get("/v1/sessions"))["items"][0]["id"]
    store = api.server.context.store
    find, has_read, goes_on = store.session_by_digest, asyncio.Event(), asyncio.Event()

    async def slow(digest: str) -> Any:
        found = await find(digest)
        has_read.set()
        await goes_on.wait()
        return found

    monkeypatch.setattr(store, "session_by_digest", slow)
    beside = asyncio.create_task(browser.ask("GET", "/v1/jobs"))
    await has_read.wait()
    path = f"/v1/sessions/{session}" if what == "session" else f"/v1/api-keys/{created['keyId']}"
    assert (await api("DELETE", path)).status_code == 204
    goes_on.set()
    await beside
    assert (await browser.ask("GET", "/v1/jobs")).status_code == 401


async def test_the_sessions_of_a_revoked_key_end(api: Api) -> None:
    created = (await api("POST", "/v1/api-keys", json={"role": "admin", "name": "mine"})).json()
    browser = await Browser(api).signed_in(created["key"])
    _, token = await new_link(api, created["key"])
    assert (await browser.ask("GET", "/v1/jobs")).status_code == 200
    assert (await api("DELETE", f"/v1/api-keys/{created['keyId']}")).status_code == 204
    assert (await browser.ask("GET", "/v1/jobs")).status_code == 401
    assert (await Browser(api).sign_in(token=token)).status_code == 401
    assert (await Browser(api).sign_in(apiKey=created["key"])).status_code == 401


@pytest.mark.parametrize("what", ["session", "key"])
async def test_a_revocation_reaches_the_other_servers_within_5_s(postgres_dsn: str, what: str) -> None:
    stores = [PostgresStore(postgres_dsn, monotonic=system.monotonic) for _ in range(2)]
    async with serving(stores[0]) as here, serving(stores[1]) as there:
        created = (await here("POST", "/v1/api-keys", json={"role": "admin", "name": "mine"})).json()
        browser = await Browser(here).signed_in(created["key"])
        same = Browser(there)
        same.cookies = browser.cookies
        assert (await same.ask("GET", "/v1/jobs")).status_code == 200
        session = (await here.get("/v1/sessions"))["items"][0]["id"]
        path = f"/v1/sessions/{session}" if what == "session" else f"/v1/api-keys/{created['keyId']}"
        assert (await here("DELETE", path)).status_code == 204
        assert (await browser.ask("GET", "/v1/jobs")).status_code == 401, "at once where it was revoked"
        asked = 0
        while (await same.ask("GET", "/v1/jobs")).status_code == 200:
            asked += 1
            assert asked <= 50, "5 s"
            await asyncio.sleep(0.1)


async def test_sessions_are_shown_to_their_tenant_in_pages(api: Api) -> None:
    for _ in range(3):
        await Browser(api).signed_in()
    await Browser(api).signed_in(OTHER)
    first = await api.get("/v1/sessions?limit=2")
    second = await api.get(f"/v1/sessions?limit=2&cursor={first['nextCursor']}")
    shown = [*first["items"], *second["items"]]
    assert len({each["id"] for each in shown}) == 3
    assert second["nextCursor"] is None
    assert shown[0].keys() == {
        *("id", "keyId", "name", "role", "createdAt", "lastUsedAt", "expiresAt", "current"),
    }
    assert (await api("GET", "/v1/sessions?cursor=x")).status_code == 422
    assert len((await api.get("/v1/sessions", key=OTHER))["items"]) == 1


# --- GET changes nothing --------------------------------------------------------------------------------------------

SAFE = [route for route in ROUTES if route.method == "GET" and "events" not in route.path]


@pytest.mark.parametrize("route", SAFE, ids=lambda route: route.path)
async def test_a_get_changes_nothing(tmp_path: Path, route: Route) -> None:
    async with running_api(tmp_path) as api:
        browser = await Browser(api).signed_in()
        created = await api.create(schedule={"type": "date", "expression": "2199-01-01T00:00:00Z"})
        ids = {"jobId": created["jobId"], "sessionId": "s_0", "keyId": "k_0"}
        path = route.path
        for name, value in {**ids, "runId": f"r_{'0' * 28}", "workflowRunId": f"r_{'0' * 28}"}.items():
            path = path.replace(f"{{{name}}}", value)
        path = path.split("{")[0] + ("x" if "{" in path else "")
        await browser.ask("GET", path)
        before = _content(tmp_path)
        for _ in range(3):
            assert (await browser.ask("GET", path)).status_code < 500
        assert _content(tmp_path) == before


def _content(folder: Path) -> list[str]:
    """Everything in the store except what servers write by themselves as time passes."""
    with closing(sqlite3.connect(folder / "timeball.db")) as database:
        return [
            line
            for line in database.iterdump()
            if not line.startswith(('INSERT INTO "meta"', 'INSERT INTO "leases"', 'INSERT INTO "usage_marks"'))
        ]


# --- where sign-in is refused ---------------------------------------------------------------------------------------


async def test_a_server_that_would_send_cookies_over_http_refuses_sign_in(tmp_path: Path) -> None:
    site = make_site("0.0.0.0", 1300, tls=False, public_url=None)
    async with running_api(tmp_path, site=site) as api:
        browser = Browser(api)
        answer = await browser.sign_in(apiKey=ADMIN)
        assert (answer.status_code, answer.json()["code"]) == (403, "sign_in_refused")
        assert "--public-url" in answer.json()["detail"]
        assert (await api("POST", "/v1/sign-in-links")).json()["code"] == "sign_in_refused"
        assert (await api("GET", "/v1/jobs")).status_code == 200, "keys work as before"


async def test_insecure_sign_in_is_allowed_where_an_operator_says_so(tmp_path: Path) -> None:
    site = make_site("0.0.0.0", 1300, tls=False, public_url="http://timeball.lan:1300", allow_insecure=True)
    async with running_api(tmp_path, site=site) as api:
        browser = await Browser(api, "http://timeball.lan:1300").signed_in()
        origin = {**JSON, "origin": "http://timeball.lan:1300"}
        body = {"task": {"kind": "shell", "command": "true"}}
        assert (await browser.send("POST", "/v1/jobs", headers=origin, json=body)).status_code == 201
        assert (await browser.send("GET", "/v1/jobs", host="other.lan:1300")).status_code == 401
