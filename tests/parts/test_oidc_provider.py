"""A real OpenID Connect provider signs a browser in and out, also after its keys were rotated, and issues tokens."""

import re
from html import unescape
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx2 as httpx
import pytest

from tests.parts.oidc_server import OidcServer, running_with_provider, status_of
from tests.support.processes import Api, until
from timeball.identity_providers.metadata import fetch_metadata
from timeball.identity_providers.provider_http import ProviderHttp
from timeball.identity_providers.verification_key import read_key_set

PAGE = {"sec-fetch-site": "same-origin", "content-type": "application/json"}


class Browser:
    """An HTTP client that follows redirects and fills in forms. It has the cookies of the server and of the provider,
    which have different names."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.http = httpx.Client(timeout=30)
        self.logins = 0
        """How often the provider asked for a password."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def send(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return self.http.request(method, f"{self.api.url}{path}", headers=PAGE, json=body)

    def at_provider(self, url: str, login: str) -> str:
        """Open a page of the provider, and answer each form until the browser is sent back. Return where to."""
        answer = self.http.get(url)
        for _ in range(20):
            if answer.is_redirect:
                url = urljoin(str(answer.url), answer.headers["location"])
                if url.startswith(self.api.url):
                    return url
                answer = self.http.get(url)
            else:
                answer = self._submit(answer, login)
        raise AssertionError("the provider does not send the browser back")

    def _submit(self, page: httpx.Response, login: str) -> httpx.Response:
        assert page.status_code == 200, page.text
        (action,) = re.findall(r'<form[^>]* action="([^"]+)"', page.text)
        hidden = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page.text)
        form = {name: unescape(value) for name, value in hidden}
        if 'name="password"' in page.text:
            self.logins += 1
            form |= {"login": login, "password": "any"}
        if 'value="yes" name="logout"' in page.text:
            form["logout"] = "yes"
        return self.http.post(urljoin(str(page.url), unescape(action)), data=form)

    def sign_in(self, login: str) -> httpx.Response:
        begun = self.send("POST", "/v1/sign-in/provider")
        assert begun.status_code == 200, begun.text
        back = urlsplit(self.at_provider(begun.json()["url"], login))
        assert back.path == "/sign-in"
        return self.send("POST", "/v1/sign-in", {"provider": {n: v[0] for n, v in parse_qs(back.query).items()}})

    def sign_out(self, login: str) -> str:
        """Sign out here and at the provider. Return the address that the browser is sent back to."""
        url = self.send("POST", "/v1/sign-out").json()["providerUrl"]
        assert self.send("GET", "/v1/me").status_code == 401
        return self.at_provider(url, login)


async def test_the_server_understands_what_the_provider_publishes(tmp_path: Path) -> None:
    provider, http = OidcServer(tmp_path, "http://127.0.0.1:1300/sign-in"), ProviderHttp()
    try:
        provider.start()
        metadata = await fetch_metadata(http, provider.issuer)
        assert metadata.end_session_endpoint is not None
        assert len(read_key_set(await http.get(metadata.jwks_uri))) == 1
    finally:
        await http.close()
        provider.stop()


@pytest.mark.parts
def test_a_browser_signs_in_and_out_across_a_rotation_of_keys(tmp_path: Path) -> None:
    with running_with_provider(tmp_path) as (provider, api), Browser(api) as browser:
        signed_in = browser.sign_in("vera")
        assert signed_in.status_code == 200, signed_in.text
        assert (signed_in.json()["role"], signed_in.json()["name"]) == ("viewer", "VERA")
        job = {"task": {"kind": "shell", "command": "true"}}
        assert browser.send("POST", "/v1/jobs", job).status_code == 403
        assert browser.sign_in("vera").status_code == 200
        assert browser.logins == 1, "the provider knows the browser, as its own session lasts"

        provider.rotate_keys()
        assert browser.send("GET", "/v1/me").status_code == 200, "a session needs no key"
        assert browser.sign_out("vera") == f"{api.url}/sign-in"
        until(lambda: browser.sign_in("ada").status_code == 200, "the new key, within 5 seconds")
        assert browser.send("GET", "/v1/me").json()["role"] == "admin"
        assert browser.send("POST", "/v1/jobs", job).status_code == 201
        asked = browser.logins
        assert browser.sign_out("ada") == f"{api.url}/sign-in"
        assert browser.sign_in("ada").status_code == 200
        assert browser.logins == asked + 1, "the session at the provider has ended"


@pytest.mark.parts
def test_a_user_without_a_role_is_not_signed_in(tmp_path: Path) -> None:
    with running_with_provider(tmp_path) as (_, api), Browser(api) as browser:
        answer = browser.sign_in("mallory")
        assert answer.status_code == 401
        assert "role" in answer.json()["detail"]
        assert "set-cookie" not in answer.headers


@pytest.mark.parts
def test_tokens_of_the_provider_are_accepted_across_a_rotation_of_keys(tmp_path: Path) -> None:
    with running_with_provider(tmp_path) as (provider, api):
        old = provider.bearer_token()
        assert status_of(api, old) == 200
        provider.rotate_keys()
        new = provider.bearer_token()
        until(lambda: status_of(api, new) == 200, "the new key, within 5 seconds")
        assert status_of(api, old) == 401, "the old key is published no more"
        header, _, signature = new.split(".")
        assert status_of(api, f"{header}.{old.split('.')[1]}.{signature}") == 401
