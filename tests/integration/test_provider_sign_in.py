"""Signing in at an identity provider (OpenID Connect) with a browser: what it opens, what ends it, what is refused."""

import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import structlog
from aiohttp import web

from tests.support.api import ADMIN, OTHER, beside, running_api
from tests.support.browser import JSON, LOCAL, OWN_PAGE, Browser
from tests.support.identity_provider import CLIENT_ID, as_json, identity_provider
from tests.support.provider_sign_in import ProviderScene, opened_provider, provider_scene
from timeball.api.sign_in.site import make_site
from timeball.domain.instant import HOUR, MINUTE, SECOND, parse
from timeball.domain.sign_in import SIGN_IN_ATTEMPT_LIFETIME
from timeball.identity_providers import oidc_provider, refreshed_value
from timeball.operation.sign_in.use_provider import _attempt
from timeball.ports.identity_provider import NO_PROVIDER

PUBLIC = "https://timeball.example.org/scheduler"
JOB = {"task": {"kind": "shell", "command": "true"}}


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[ProviderScene]:
    async with provider_scene(tmp_path) as found:
        yield found


def tamper(folder: Path, statement: str) -> None:
    with closing(sqlite3.connect(folder / "timeball.db", timeout=10)) as database:
        database.execute(statement)
        database.commit()


async def sessions_of(scene: ProviderScene) -> list[Any]:
    items: list[Any] = (await scene.api.get("/v1/sessions"))["items"]
    return items


# --- signing in -----------------------------------------------------------------------------------------------------


async def test_a_browser_signs_in_with_the_tenant_the_role_and_the_name_of_the_provider(scene: ProviderScene) -> None:
    """I24."""
    answer = await scene.sign_in(browser := Browser(scene.api))
    assert answer.status_code == 200, answer.text
    me = answer.json()
    assert (me["tenant"], me["role"], me["name"], me["via"]) == ("default", "editor", "Ada", "session")
    assert me["keyId"] is None
    assert list(browser.cookies) == ["timeball_1300"], "the cookie of the attempt is removed"
    created = await browser.ask("POST", "/v1/jobs", json=JOB)
    assert created.status_code == 201
    assert (await browser.ask("GET", f"/v1/jobs/{created.json()['jobId']}")).json()["userId"] == "user-1"
    assert (await browser.ask("GET", "/v1/api-keys")).status_code == 403, "an editor is no admin"
    (session,) = await sessions_of(scene)
    assert (session["keyId"], session["name"], session["role"]) == (None, "Ada", "editor")


async def test_the_page_of_the_provider_gets_what_binds_its_answer_to_the_browser(scene: ProviderScene) -> None:
    browser = Browser(scene.api)
    asked = parse_qs(urlsplit(await scene.begin(browser)).query)
    assert asked["redirect_uri"] == [f"{LOCAL}/sign-in"]
    assert asked["code_challenge_method"] == ["S256"]
    assert asked["scope"] == ["openid profile email"]
    again = parse_qs(urlsplit(await scene.begin(Browser(scene.api))).query)
    for name in ("state", "nonce", "code_challenge"):
        assert len(asked[name][0]) == 43, "256 bits"
        assert asked[name] != again[name]
    ((name, secret),) = browser.cookies.items()
    assert name == "timeball_attempt_1300"
    assert not [value for values in asked.values() for value in values if secret.partition(".")[0] in value]
    attributes = {part.strip() for part in browser.set_cookie.split(";")[1:]}
    assert attributes == {"HttpOnly", "Max-Age=600", "Path=/", "SameSite=Lax"}


async def test_beginning_stores_nothing(scene: ProviderScene, tmp_path: Path) -> None:
    for _ in range(3):
        await scene.begin(Browser(scene.api))
    with closing(sqlite3.connect(tmp_path / "timeball.db")) as database:
        assert database.execute("SELECT count(*) FROM sign_in_attempts").fetchone() == (0,)


async def test_behind_a_proxy_the_provider_sends_the_browser_to_the_public_address(tmp_path: Path) -> None:
    site = make_site("0.0.0.0", 1300, tls=False, public_url=PUBLIC)
    async with provider_scene(tmp_path, site=site) as scene:
        browser = Browser(scene.api, "https://timeball.example.org")
        url = await scene.begin(browser)
        assert parse_qs(urlsplit(url).query)["redirect_uri"] == [f"{PUBLIC}/sign-in"]
        assert list(browser.cookies) == ["__Host-timeball-attempt"]
        assert "; Secure" in browser.set_cookie
        assert (await browser.sign_in(provider=scene.authorize(url))).status_code == 200
        assert list(browser.cookies) == ["__Host-timeball"]


@pytest.mark.parametrize("client", ["public", "client_secret_basic", "client_secret_post"])
async def test_the_server_proves_which_client_it_is(tmp_path: Path, client: str) -> None:
    async with provider_scene(tmp_path, **({"oidc_client_secret_file": ""} if client == "public" else {})) as scene:
        if client == "public":
            scene.provider.secret = None
        else:
            scene.provider.metadata["token_endpoint_auth_methods_supported"] = [client]
        await scene.signed_in()


async def test_a_user_that_the_store_knows_acts_with_its_id_and_at_most_its_role(scene: ProviderScene) -> None:
    body = {"userId": "ada", "role": "operator", "subject": "user-1"}
    assert (await scene.api("POST", "/v1/users", json=body)).status_code == 201
    browser = await scene.signed_in()
    assert (await browser.ask("GET", "/v1/me")).json()["role"] == "operator"
    assert (await browser.ask("POST", "/v1/jobs", json=JOB)).status_code == 403


async def test_a_browser_that_was_signed_in_with_a_key_ends_that_session(scene: ProviderScene) -> None:
    browser = await Browser(scene.api).signed_in(ADMIN)
    first = dict(browser.cookies)
    assert (await scene.sign_in(browser)).status_code == 200
    (session,) = await sessions_of(scene)
    assert session["keyId"] is None
    browser.cookies = first
    assert (await browser.ask("GET", "/v1/jobs")).status_code == 401


async def test_a_new_key_of_the_provider_signs_in_and_a_session_outlasts_the_old_one(
    scene: ProviderScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refreshed_value, "FETCH_INTERVAL", 0)
    before = await scene.signed_in()
    scene.provider.rotate("second", keep=False)
    assert (await (await scene.signed_in()).ask("GET", "/v1/me")).status_code == 200
    assert (await before.ask("GET", "/v1/me")).status_code == 200


# --- the sign-in page -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "shown"), [("", "127.0.0.1"), ("Example", "Example")])
async def test_the_sign_in_page_learns_the_name_of_the_provider(tmp_path: Path, name: str, shown: str) -> None:
    async with provider_scene(tmp_path, oidc_name=name) as scene:
        assert (await Browser(scene.api).ask("GET", "/v1/sign-in/provider")).json() == {"name": shown}
        assert scene.provider.requests == [], "the provider is asked for nothing"


async def test_a_server_without_a_provider_says_so(tmp_path: Path) -> None:
    async with running_api(tmp_path) as api:
        browser = Browser(api)
        assert (await browser.ask("GET", "/v1/sign-in/provider")).json() == {"name": None}
        assert (await browser.ask("POST", "/v1/sign-in/provider")).status_code == 409
        assert (await browser.sign_in(provider={"code": "c", "state": "s"})).status_code == 409
        assert not browser.set_cookie


# --- what is refused ------------------------------------------------------------------------------------------------

Change = Callable[[dict[str, str]], dict[str, str]]
ANSWERS: dict[str, tuple[Change, str]] = {
    "another code": (lambda back: {**back, "code": "code-7"}, "invalid_grant"),
    "another state": (lambda back: {**back, "state": "s" * 43}, "not begun in this browser"),
    "a state that is not ASCII": (lambda back: {**back, "state": "é\ud7ff"}, "not begun in this browser"),
    "the state of no cookie": (
        lambda back: {**back, "state": "Is8Yp5l4fBb3Z2sFJ4tWJ8xkS0mJ6WwXh2T3xZ7Zs1g"},
        "not begun in this browser",
    ),
    "another provider": (lambda back: {**back, "iss": "https://evil.example"}, "another identity provider"),
}


@pytest.mark.parametrize("wrong", ANSWERS)
async def test_a_wrong_answer_opens_no_session(scene: ProviderScene, wrong: str) -> None:
    change, reason = ANSWERS[wrong]
    browser = Browser(scene.api)
    back = scene.authorize(await scene.begin(browser))
    answer = await browser.sign_in(provider=change(back))
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
    assert reason in answer.json()["detail"]
    assert "timeball_1300" not in browser.cookies
    assert await sessions_of(scene) == []


ID_TOKENS: dict[str, tuple[dict[str, Any], str]] = {
    "of another audience": ({"aud": "timeball"}, "'aud'"),
    "of several audiences, issued to another client": ({"aud": [CLIENT_ID, "x"], "azp": "x"}, "'azp'"),
    "of another provider": ({"iss": "https://evil.example"}, "'iss'"),
    "of another sign-in": ({"nonce": "n" * 43}, "'nonce'"),
    "without a nonce": ({"nonce": None}, "'nonce'"),
    "that has expired": ({"exp": 1_000, "iat": 900}, "expired"),
    "without a subject": ({"sub": None}, "'sub'"),
    "without a role": ({"role": "nobody"}, "role"),
    "with the role of workers": ({"role": "worker"}, "role"),
    "without a tenant": ({"tenant": None}, "'tenant'"),
    "of a tenant that does not exist": ({"tenant": "acme"}, "'acme', which does not exist"),
}


@pytest.mark.parametrize("token", ID_TOKENS)
async def test_a_wrong_id_token_opens_no_session(scene: ProviderScene, token: str) -> None:
    scene.provider.changed_claims, reason = ID_TOKENS[token]
    with structlog.testing.capture_logs() as logged:
        answer = await scene.sign_in(browser := Browser(scene.api))
    assert answer.status_code == 401
    assert reason in answer.json()["detail"]
    assert "timeball_1300" not in browser.cookies
    assert await sessions_of(scene) == []
    assert "eyJ" not in answer.text + json.dumps(logged, default=str)


async def test_an_id_token_of_another_key_opens_no_session(scene: ProviderScene) -> None:
    published = scene.provider.published
    scene.provider.rotate("unpublished")
    scene.provider.published = published
    assert (await scene.sign_in(Browser(scene.api))).status_code == 401
    assert await sessions_of(scene) == []


async def test_an_answer_in_another_browser_opens_no_session(scene: ProviderScene) -> None:
    """An attacker sends its own code and state to another person (login CSRF), or steals those of another person."""
    browser, other = Browser(scene.api), Browser(scene.api)
    back = scene.authorize(await scene.begin(browser))
    await scene.begin(other)
    for stranger in (other, Browser(scene.api)):
        answer = await stranger.sign_in(provider=back)
        assert answer.status_code == 401
        assert "not begun in this browser" in answer.json()["detail"]
    assert (await browser.sign_in(provider=back)).status_code == 200


async def test_a_sign_in_opens_one_session(scene: ProviderScene) -> None:
    """Also if the provider would accept its code twice, and if the session was signed out since."""
    browser = Browser(scene.api)
    url = await scene.begin(browser)
    attempt = dict(browser.cookies)
    assert (await browser.sign_in(provider=scene.authorize(url))).status_code == 200
    assert (await browser.ask("POST", "/v1/sign-out")).status_code == 200
    browser.cookies = dict(attempt)
    answer = await browser.sign_in(provider=scene.authorize(url))
    assert answer.status_code == 401
    assert "was finished before" in answer.json()["detail"]
    assert await sessions_of(scene) == []


async def test_a_sign_in_is_finished_within_ten_minutes(scene: ProviderScene, monkeypatch: pytest.MonkeyPatch) -> None:
    store = scene.api.server.context.store
    begun, now = Browser(scene.api), store.now
    monkeypatch.setattr(store, "now", lambda: now() - SIGN_IN_ATTEMPT_LIFETIME)
    url = await scene.begin(begun)
    monkeypatch.setattr(store, "now", now)
    answer = await begun.sign_in(provider=scene.authorize(url))
    assert answer.status_code == 401
    assert "10 minutes" in answer.json()["detail"]
    for name, value in begun.cookies.items():
        secret = value.partition(".")[0]
        begun.cookies[name] = f"{secret}.{now()}"
    answer = await begun.sign_in(provider=scene.authorize(url))
    assert "not begun in this browser" in answer.json()["detail"], "the time is a part of what binds the answer"


@pytest.mark.parametrize("cookie", ["x", "x.y", ".", "x.-1", "x." + "9" * 19, "x." + "9" * 30, "x" * 300])
async def test_a_cookie_that_this_server_did_not_set_opens_no_session(scene: ProviderScene, cookie: str) -> None:
    """Also with the state that follows from it."""
    browser = Browser(scene.api)
    back = scene.authorize(await scene.begin(browser))
    browser.cookies = {"timeball_attempt_1300": cookie}
    answer = await browser.sign_in(provider={**back, "state": _attempt(cookie).state})
    assert answer.status_code == 401
    assert scene.provider.count("/token") == 0


BODIES: tuple[tuple[Any, int], ...] = (
    ({"code": "c"}, 422),
    ({"state": "s"}, 422),
    ({"code": "", "state": "s"}, 422),
    ({"code": "c" * 5_000, "state": "s"}, 422),
    ({"code": "c", "state": "s" * 300}, 422),
    ({"code": "c", "state": "s", "next": "https://evil.example"}, 422),
    ({"code": 1, "state": "s"}, 422),
    ("code", 422),
)


@pytest.mark.parametrize(("body", "status"), BODIES)
async def test_a_malformed_answer_is_a_422(scene: ProviderScene, body: Any, status: int) -> None:
    browser = Browser(scene.api)
    await scene.begin(browser)
    assert (await browser.sign_in(provider=body)).status_code == status
    assert (await browser.sign_in(provider={"code": "c", "state": "s"}, apiKey=ADMIN)).status_code == 422
    assert scene.provider.count("/token") == 0


CROSS_SITE: dict[str, tuple[dict[str, Any], str | None]] = {
    "a page of another site": ({**OWN_PAGE, "sec-fetch-site": "cross-site"}, None),
    "a page of another port": ({**OWN_PAGE, "sec-fetch-site": "same-site"}, None),
    "no page": ({**OWN_PAGE, "sec-fetch-site": "none"}, None),
    "no Origin": (JSON, None),
    "a wrong Origin": ({**JSON, "origin": "https://evil.example"}, None),
    "a form": ({**OWN_PAGE, "content-type": "application/x-www-form-urlencoded"}, None),
    "another Host": (OWN_PAGE, "evil.example"),
}


@pytest.mark.parametrize("attack", CROSS_SITE)
@pytest.mark.parametrize("path", ["/v1/sign-in/provider", "/v1/sign-in"])
async def test_only_the_own_page_begins_and_finishes_a_sign_in(scene: ProviderScene, path: str, attack: str) -> None:
    headers, host = CROSS_SITE[attack]
    browser = Browser(scene.api)
    back = scene.authorize(await scene.begin(browser))
    before = dict(browser.cookies)
    body = {"provider": back} if path == "/v1/sign-in" else None
    answer = await browser.send("POST", path, headers=headers, host=host, json=body)
    assert answer.status_code == 403, answer.text
    assert browser.cookies == before
    assert await sessions_of(scene) == []


@pytest.mark.parametrize("path", ["/v1/sign-in/provider", "/v1/sign-in"])
async def test_a_get_neither_begins_nor_finishes_a_sign_in(scene: ProviderScene, path: str) -> None:
    browser = Browser(scene.api)
    back = scene.authorize(await scene.begin(browser))
    before = dict(browser.cookies)
    for name in ("", *(f"{path}?{query}" for query in (f"code={back['code']}&state={back['state']}", "next=//evil"))):
        answer = await browser.ask("GET", name or path)
        assert answer.status_code in (200, 405, 422)
    assert browser.cookies == before
    assert await sessions_of(scene) == []


async def test_a_browser_at_another_address_of_this_machine_is_told_the_right_one(scene: ProviderScene) -> None:
    """The provider would send it to an address that has none of its cookies."""
    browser = Browser(scene.api, "http://localhost:1300")
    headers = {**OWN_PAGE, "origin": "http://localhost:1300"}
    answer = await browser.send("POST", "/v1/sign-in/provider", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (403, "sign_in_refused")
    assert f"open {LOCAL}/" in answer.json()["detail"]


async def test_a_server_that_would_send_cookies_over_http_begins_no_sign_in(tmp_path: Path) -> None:
    site = make_site("0.0.0.0", 1300, tls=False, public_url=None)
    async with provider_scene(tmp_path, site=site) as scene:
        answer = await Browser(scene.api).ask("POST", "/v1/sign-in/provider")
        assert (answer.status_code, answer.json()["code"]) == (403, "sign_in_refused")


# --- a provider that is away ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (web.Response(status=500), 503),
        (web.Response(status=200, body=b"<html>"), 503),
        (as_json({"access_token": "opaque"}), 503),
        (web.Response(status=400, body=b'{"error":"invalid_client"}'), 401),
        (as_json({"id_token": "e30.e30.e30"}), 401),
    ],
)
async def test_a_provider_that_does_not_answer_as_it_should_opens_no_session(
    scene: ProviderScene, answer: web.Response, status: int
) -> None:
    scene.provider.answers["/token"] = answer
    assert (await scene.sign_in(browser := Browser(scene.api))).status_code == status
    assert "timeball_1300" not in browser.cookies
    assert await sessions_of(scene) == []


async def test_a_provider_that_is_away_is_a_503_and_keys_sign_in_as_before(scene: ProviderScene) -> None:
    scene.provider.answers["/.well-known/openid-configuration"] = web.Response(status=500)
    browser = Browser(scene.api)
    assert (await browser.ask("POST", "/v1/sign-in/provider")).status_code == 503
    assert not browser.set_cookie
    assert (await browser.ask("GET", "/v1/sign-in/provider")).status_code == 200
    assert (await browser.sign_in(apiKey=ADMIN)).status_code == 200


async def test_a_client_that_sends_codes_costs_a_bounded_number_of_requests_at_a_time(
    scene: ProviderScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I28."""
    monkeypatch.setattr(oidc_provider, "MAX_EXCHANGES", 0)
    answer = await scene.sign_in(Browser(scene.api))
    assert answer.status_code == 503
    assert "at the same time" in answer.json()["detail"]
    monkeypatch.setattr(oidc_provider, "MAX_EXCHANGES", 1)
    scene.provider.answers["/token"] = web.Response(status=500)
    for _ in range(3):
        assert "at the same time" not in (await scene.sign_in(Browser(scene.api))).json()["detail"]


# --- the end --------------------------------------------------------------------------------------------------------


async def test_signing_out_ends_the_session_here_and_at_the_provider(scene: ProviderScene) -> None:
    browser = await scene.signed_in()
    copied = dict(browser.cookies)
    answer = await browser.ask("POST", "/v1/sign-out")
    assert answer.status_code == 200
    url = urlsplit(answer.json()["providerUrl"])
    assert f"{url.scheme}://{url.netloc}{url.path}" == f"{scene.provider.url}/end"
    expected = {"client_id": [CLIENT_ID], "post_logout_redirect_uri": [f"{LOCAL}/sign-in"]}
    assert parse_qs(url.query) == expected
    assert browser.cookies == {}
    browser.cookies = copied
    assert (await browser.ask("GET", "/v1/me")).status_code == 401
    assert await sessions_of(scene) == []


@pytest.mark.parametrize("provider", ["without an end_session_endpoint", "that is away"])
async def test_signing_out_here_needs_nothing_of_the_provider(tmp_path: Path, provider: str) -> None:
    async with provider_scene(tmp_path) as scene:
        if provider == "without an end_session_endpoint":
            scene.provider.metadata["end_session_endpoint"] = None
        browser = await scene.signed_in()
        if provider == "that is away":
            _forget_metadata(scene)
            scene.provider.answers["/.well-known/openid-configuration"] = web.Response(status=500)
        answer = await browser.ask("POST", "/v1/sign-out")
        assert (answer.status_code, answer.json()) == (200, {"providerUrl": None})
        assert await sessions_of(scene) == []


def _forget_metadata(scene: ProviderScene) -> None:
    """As a server that was started since the sign-in."""
    app: Any = scene.api.app
    endpoint, _ = app.find("/v1/sign-out")
    endpoint._services.sign_in._metadata._value = None


async def test_signing_out_with_a_key_does_not_leave_for_the_provider(scene: ProviderScene) -> None:
    browser = await Browser(scene.api).signed_in(ADMIN)
    assert (await browser.ask("POST", "/v1/sign-out")).json() == {"providerUrl": None}
    assert scene.provider.requests == []


async def test_a_session_ends_when_the_settings_say_so(tmp_path: Path) -> None:
    async with provider_scene(tmp_path, oidc_session_lifetime="1h") as scene:
        browser = await scene.signed_in()
        session = (await browser.ask("GET", "/v1/me")).json()["session"]
        assert parse(session["expiresAt"]) - parse(session["createdAt"]) == HOUR
        tamper(tmp_path, f"UPDATE web_sessions SET expires_at = expires_at - {HOUR - MINUTE}")
        same = Browser(scene.api)
        same.cookies = browser.cookies
        assert (await same.ask("GET", "/v1/me")).status_code == 200
        tamper(tmp_path, f"UPDATE web_sessions SET expires_at = expires_at - {MINUTE}")
        await _forgotten(scene)
        assert (await same.ask("GET", "/v1/me")).status_code == 401


async def _forgotten(scene: ProviderScene) -> None:
    """Let the server look up all sessions again, as it does every 3 seconds."""
    app: Any = scene.api.app
    endpoint, _ = app.find("/v1/sign-out")
    endpoint._services.sessions._known.clear()


async def test_a_session_is_not_cached_beyond_its_end(tmp_path: Path) -> None:
    async with provider_scene(tmp_path, oidc_session_lifetime="1s") as scene:
        browser = await scene.signed_in()
        end = parse((await browser.ask("GET", "/v1/me")).json()["session"]["expiresAt"])
        store = scene.api.server.context.store
        while store.now() < end + 100_000:
            await scene.api.server.context.clock.sleep(SECOND // 50)
        assert (await browser.ask("GET", "/v1/me")).status_code == 401


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE users SET state = 'disabled'",
        "UPDATE tenants SET state = 'deleting' WHERE id = 'default'",
        "DELETE FROM tenants WHERE id = 'default'",
    ],
)
async def test_a_disabled_user_and_a_deleted_tenant_have_no_session(tmp_path: Path, change: str) -> None:
    async with provider_scene(tmp_path) as scene:
        body = {"userId": "ada", "role": "editor", "subject": "user-1"}
        assert (await scene.api("POST", "/v1/users", json=body)).status_code == 201
        browser = await scene.signed_in()
        tamper(tmp_path, change)
        await _forgotten(scene)
        assert (await browser.ask("GET", "/v1/me")).status_code == 401
        answer = await scene.sign_in(Browser(scene.api))
        assert answer.status_code == 401
        assert ("is disabled" if "users" in change else "does not exist") in answer.json()["detail"]


async def test_a_user_that_is_disabled_stays_signed_out_when_it_is_enabled_again(scene: ProviderScene) -> None:
    user = {"userId": "ada", "role": "editor", "subject": "user-1"}
    assert (await scene.api("POST", "/v1/users", json=user)).status_code == 201
    browser = await scene.signed_in()
    for state in ("disabled", "active"):
        assert (await scene.api("PATCH", "/v1/users/ada", json={"state": state})).status_code == 200
    await _forgotten(scene)
    assert (await browser.ask("GET", "/v1/me")).status_code == 401


async def test_a_server_with_another_provider_or_none_knows_no_session_of_the_old_one(tmp_path: Path) -> None:
    async with (
        provider_scene(tmp_path) as scene,
        identity_provider(lambda: 0) as another,
        AsyncExitStack() as stack,
    ):
        browser = await scene.signed_in()
        store = scene.api.server.context.store
        opened = [opened_provider(tmp_path, each, store, stack) for each in (scene.provider, another)]
        for provider, status in ((opened[0], 200), (opened[1], 401), (NO_PROVIDER, 401)):
            same = Browser(beside(scene.api, provider=provider))
            same.cookies = dict(browser.cookies)
            assert (await same.ask("GET", "/v1/me")).status_code == status


async def test_a_user_sees_and_ends_its_own_sessions_alone(scene: ProviderScene) -> None:
    """I24."""
    mine, also_mine = await scene.signed_in(), await scene.signed_in()
    scene.provider.user |= {"sub": "user-2", "name": "Bob"}
    other = await scene.signed_in()
    by_key = await Browser(scene.api).signed_in(ADMIN)
    listed = (await mine.ask("GET", "/v1/sessions")).json()["items"]
    assert [each["name"] for each in listed] == ["Ada", "Ada"]
    (foreign,) = (each["id"] for each in (await other.ask("GET", "/v1/sessions")).json()["items"])
    assert (await mine.ask("DELETE", f"/v1/sessions/{foreign}")).status_code == 404
    for each in listed:
        if not each["current"]:
            assert (await mine.ask("DELETE", f"/v1/sessions/{each['id']}")).status_code == 204
    assert (await also_mine.ask("GET", "/v1/me")).status_code == 401
    assert len((await by_key.ask("GET", "/v1/sessions")).json()["items"]) == 3, "an admin sees all of the tenant"
    assert (await scene.api.get("/v1/sessions", key=OTHER))["items"] == []
    assert (await mine.ask("POST", "/v1/sign-in-links")).status_code == 409


async def test_a_provider_is_asked_only_for_what_a_sign_in_needs(scene: ProviderScene) -> None:
    browser = await scene.signed_in()
    for _ in range(5):
        await browser.ask("GET", "/v1/me")
    assert sorted(scene.provider.requests) == ["/.well-known/openid-configuration", "/keys", "/token"]
