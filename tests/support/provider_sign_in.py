"""Servers with an identity provider, and browsers that sign in there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2

from tests.support.api import Api, serving
from tests.support.browser import Browser
from tests.support.identity_provider import CLIENT_ID, CLIENT_SECRET, IdentityProvider, identity_provider
from tests.support.migrated import sqlite_store
from timeball import config, system
from timeball.domain.instant import SECOND
from timeball.identity_providers.open import open_identity_provider
from timeball.ports.identity_provider import IdentityProvider as OpenedProvider
from timeball.ports.store.store import Store


class ProviderScene:
    def __init__(self, api: Api, provider: IdentityProvider) -> None:
        self.api = api
        self.provider = provider

    async def begin(self, browser: Browser, **options: Any) -> str:
        """Return the page of the provider that the browser is sent to."""
        answer = await browser.ask("POST", "/v1/sign-in/provider", **options)
        assert answer.status_code == 200, answer.text
        url: str = answer.json()["url"]
        return url

    def authorize(self, url: str) -> dict[str, str]:
        """Sign in on the page of the provider. Return what the browser brings back."""
        back = urlsplit(self.provider.authorize(url))
        return {name: values[0] for name, values in parse_qs(back.query).items()}

    async def sign_in(self, browser: Browser) -> httpx2.Response:
        return await browser.sign_in(provider=self.authorize(await self.begin(browser)))

    async def signed_in(self) -> Browser:
        answer = await self.sign_in(browser := Browser(self.api))
        assert answer.status_code == 200, answer.text
        return browser


@asynccontextmanager
async def provider_scene(folder: Path, *, site: Any = None, **settings: str) -> AsyncIterator[ProviderScene]:
    store = sqlite_store(folder / "timeball.db")
    async with identity_provider(lambda: store.now() / SECOND) as provider, AsyncExitStack() as stack:
        opened = opened_provider(folder, provider, store, stack, **settings)
        options = {} if site is None else {"site": site}
        api = await stack.enter_async_context(serving(store, provider=opened, **options))
        yield ProviderScene(api, provider)


def opened_provider(
    folder: Path, provider: IdentityProvider, store: Store, stack: AsyncExitStack, **settings: str
) -> OpenedProvider:
    """Return the provider as a server with these settings uses it."""
    secret = folder / "client.secret"
    secret.write_text(CLIENT_SECRET, "utf-8")
    secret.chmod(0o600)
    usual = {"jwt_issuer": provider.url, "oidc_client_id": CLIENT_ID, "oidc_client_secret_file": str(secret)}
    chosen = {**usual, **settings}
    environ = {f"TIMEBALL_{name.upper()}": value for name, value in chosen.items() if value}
    found = config.server({"data_dir": str(folder)}, {"HOME": str(folder), **environ})
    return open_identity_provider(found, system.SystemClock(), store.now, stack)
