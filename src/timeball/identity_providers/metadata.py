"""What a provider publishes about itself (OpenID Connect Discovery)."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from timeball.identity_providers.provider_http import ProviderError, ProviderHttp, check_url

PATH: Final = "/.well-known/openid-configuration"


class ProviderMetadata(Struct, frozen=True, kw_only=True):
    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    end_session_endpoint: str | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)


async def fetch_metadata(http: ProviderHttp, issuer: str) -> ProviderMetadata:
    """Read the metadata of a provider. Raise `ProviderError` if it is of another provider, or names an address that is
    neither HTTPS nor loopback."""
    document = await http.get(issuer.rstrip("/") + PATH)
    try:
        found = msgspec.json.decode(document, type=ProviderMetadata)
        for url in (found.authorization_endpoint, found.token_endpoint, found.jwks_uri):
            check_url(url)
        if found.end_session_endpoint is not None:
            check_url(found.end_session_endpoint)
    except ValueError as error:  # also the errors of msgspec
        raise ProviderError(f"its metadata is malformed: {error}") from None
    if found.issuer != issuer:
        raise ProviderError(f"its metadata is that of the issuer {found.issuer[:200]!r}, and not of {issuer!r}")
    return found
