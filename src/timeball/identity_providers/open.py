"""Opens the identity provider that the settings name."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from timeball.config import InvalidSetting, ServerConfig
from timeball.domain.identity.token_claims import ClaimRules
from timeball.domain.instant import Micros
from timeball.identity_providers.jwt_verifier import JwtVerifier
from timeball.identity_providers.key_set import KeySet, SecretKey
from timeball.identity_providers.metadata import fetch_metadata
from timeball.identity_providers.oidc_provider import OidcClient, OidcProvider
from timeball.identity_providers.provider_http import ProviderHttp
from timeball.identity_providers.refreshed_value import RefreshedValue
from timeball.identity_providers.verification_key import UnusableKey
from timeball.ports.clock import Clock
from timeball.ports.identity_provider import IdentityProvider

_OPENID: Final = "openid"
"""The scope without which the provider gives no ID token."""


def open_identity_provider(
    config: ServerConfig, clock: Clock, now: Callable[[], Micros], stack: AsyncExitStack
) -> IdentityProvider:
    """Return the provider of these settings, of which `jwt_issuer` is set. `now` returns the time of the store. Nothing
    is requested yet, so the server also starts while the provider is away. `stack` closes it."""
    assert config.jwt_issuer is not None
    issuer, keys_url = config.jwt_issuer, config.jwt_keys
    http = ProviderHttp()
    stack.push_async_callback(http.close)
    metadata = RefreshedValue("the discovery document", lambda: fetch_metadata(http, issuer), clock)
    stack.push_async_callback(metadata.close)

    async def fetch_keys() -> bytes:
        return await http.get(keys_url if keys_url is not None else (await metadata.get()).jwks_uri)

    keys = KeySet(fetch_keys, clock)
    stack.push_async_callback(keys.close)
    rules = ClaimRules(
        issuer=issuer,
        audience=config.jwt_audience or "",
        max_lifetime=config.jwt_lifetime,
        tenant=config.jwt_tenant,
        tenant_claim=config.jwt_tenant_claim,
        role_claim=config.jwt_role_claim,
        user_claim=config.jwt_user_claim,
        roles=None if config.jwt_roles is None else dict(config.jwt_roles),
    )
    tokens = sign_in = None
    if config.jwt_audience is not None:
        tokens = JwtVerifier(rules, keys if config.jwt_secret is None else _secret_key(config.jwt_secret), now)
    if config.oidc_client_id is not None:
        client = OidcClient(
            id=config.oidc_client_id,
            secret=config.oidc_client_secret,
            scopes=" ".join(dict.fromkeys([_OPENID, *config.oidc_scopes])),
            name=config.oidc_name or urlsplit(issuer).hostname or issuer,
            session_lifetime=config.oidc_session_lifetime,
        )
        sign_in = OidcProvider(client, replace(rules, audience=client.id), metadata, keys, http, now)
    return IdentityProvider(tokens, sign_in)


def _secret_key(secret: str) -> SecretKey:
    try:
        return SecretKey(secret.encode())
    except UnusableKey as error:
        raise InvalidSetting(f"jwt_secret cannot be used: {error}") from None
