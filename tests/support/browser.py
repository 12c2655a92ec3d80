"""A browser as the API sees it: cookies, and the headers that browsers send by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from http.cookies import SimpleCookie
from typing import Any

import httpx2

from tests.support.api import ADMIN, Api

LOCAL = "http://127.0.0.1:1300"
JSON = {"content-type": "application/json"}
OWN_PAGE = {"sec-fetch-site": "same-origin", **JSON}
"""What the web UI's own requests carry."""


class Browser:
    """Keeps the cookies of one server, whatever the host is that it asks: a cross-site request may carry them."""

    def __init__(self, api: Api, origin: str = LOCAL) -> None:
        self._api = api
        self.origin = origin
        self.cookies: dict[str, str] = {}
        self.set_cookie = ""
        """The last Set-Cookie header."""

    async def send(
        self, method: str, path: str, *, host: str | None = None, headers: Mapping[str, str | None] = {}, **options: Any
    ) -> httpx2.Response:
        """A request with all cookies. A header that is None is left out."""
        sent: dict[str, str | None] = {"host": host or self.origin.partition("://")[2], **headers}
        if self.cookies:
            sent.setdefault("cookie", "; ".join(f"{name}={value}" for name, value in self.cookies.items()))
        given = {name: value for name, value in sent.items() if value is not None}
        self._api.client.cookies.clear()
        answer = await self._api.client.request(method, path, headers=given, **options)
        self._api.client.cookies.clear()
        self._keep(answer)
        return answer

    async def ask(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """A request of the web UI itself."""
        return await self.send(method, path, headers=OWN_PAGE, **options)

    async def sign_in(self, **body: Any) -> httpx2.Response:
        return await self.ask("POST", "/v1/sign-in", json=body)

    async def signed_in(self, key: str = ADMIN) -> Browser:
        answer = await self.sign_in(apiKey=key)
        assert answer.status_code == 200, answer.text
        return self

    def _keep(self, answer: httpx2.Response) -> None:
        for header in answer.headers.get_list("set-cookie"):
            self.set_cookie = header
            for name, morsel in SimpleCookie(header).items():
                if morsel["max-age"] == "0":
                    self.cookies.pop(name, None)
                else:
                    self.cookies[name] = morsel.value
