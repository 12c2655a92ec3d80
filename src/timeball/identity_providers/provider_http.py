"""HTTP requests to an identity provider, with limits on time and size. Only HTTPS, or a loopback address, is requested,
and redirects are not followed: the operator names the provider, and nothing else chooses an address."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from timeball.domain.web_address import is_loopback

PROVIDER_TIMEOUT: Final = 5.0
"""Maximum number of seconds for one request."""
MAX_ANSWER_BYTES: Final = 262_144
MAX_URL_LENGTH: Final = 2_000
_CHARACTERS: Final = re.compile(r"[\x21-\x7e]+")
_CHUNK_BYTES: Final = 65_536
_HEADERS: Final = {"Accept": "application/json", "Accept-Encoding": "identity"}


class ProviderError(Exception):
    """Raised when the provider does not answer, or answers something else than it should. The message has no secret."""


def check_url(url: object) -> str:
    """Return a URL of a provider. Raise `ValueError` unless it is HTTPS, or HTTP to a loopback address."""
    if not isinstance(url, str) or len(url) > MAX_URL_LENGTH or not _CHARACTERS.fullmatch(url):
        raise ValueError("it is not a URL")
    parts = urlsplit(url)
    if parts.scheme not in ("https", "http") or not parts.hostname or "@" in parts.netloc or parts.fragment:
        raise ValueError("it is not an https address")
    _ = parts.port  # raises ValueError for an invalid port
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise ValueError("it is an http address of another machine; use https")
    return url


class ProviderHttp:
    """Sends requests without cookies. `close` ends open connections."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def get(self, url: str) -> bytes:
        """Return the body of an answer with the status 200."""
        status, body = await self._request("GET", url, None, {})
        if status != 200:
            raise ProviderError(f"{url} answered with the status {status}")
        return body

    async def post_form(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> tuple[int, bytes]:
        """Return the status and the body of the answer."""
        return await self._request("POST", url, form, headers)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _request(
        self, method: str, url: str, form: Mapping[str, str] | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        if self._session is None:
            self._session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False)
        try:
            async with (
                asyncio.timeout(PROVIDER_TIMEOUT),
                self._session.request(
                    method,
                    URL(check_url(url), encoded=True),
                    data=form,
                    headers={**_HEADERS, **headers},
                    allow_redirects=False,
                ) as answer,
            ):
                return answer.status, await _read(answer, url)
        except TimeoutError:
            raise ProviderError(f"{url} did not answer within {PROVIDER_TIMEOUT:g} seconds") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ProviderError(f"{url} could not be read: {str(error) or type(error).__name__}") from None


async def _read(answer: aiohttp.ClientResponse, url: str) -> bytes:
    body = bytearray()
    async for chunk in answer.content.iter_chunked(_CHUNK_BYTES):
        body += chunk
        if len(body) > MAX_ANSWER_BYTES:
            raise ProviderError(f"{url} answered with more than {MAX_ANSWER_BYTES} bytes")
    return bytes(body)
