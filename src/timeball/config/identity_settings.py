"""The rows of the table of settings for the identity provider: bearer tokens, and sign-in with a browser."""

from __future__ import annotations

from dataclasses import dataclass

from timeball.config import values
from timeball.config.setting import setting
from timeball.domain.identity.role import Role
from timeball.domain.instant import Micros


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class Identifying:
    """Identity provider."""

    jwt_issuer: str | None = setting(
        values.IDENTIFIER,
        "the identity provider whose tokens are accepted: the `iss` of its tokens, and the address of its discovery"
        " document",
        default_text="only API keys are accepted",
        protects=True,
    )
    jwt_audience: str | None = setting(
        values.IDENTIFIER,
        "the `aud` of bearer tokens for this installation",
        default_text="bearer tokens are not accepted",
        protects=True,
    )
    jwt_secret: str | None = setting(
        values.SHARED_SECRET,
        "the secret of tokens that are signed with HS256",
        default_text="tokens are verified with the key set of the provider",
        secret=True,
        protects=True,
    )
    jwt_keys: str | None = setting(
        values.PROVIDER_URL,
        "the address of the key set (JWKS) of the identity provider",
        default_text="the one in its discovery document",
        protects=True,
    )
    jwt_lifetime: Micros = setting(
        values.TOKEN_LIFETIME,
        "the longest time from `iat` to `exp` of a token",
        default="1d",
        protects=True,
    )
    jwt_tenant: str | None = setting(
        values.IDENTIFIER,
        "the tenant of all users of the identity provider",
        default_text="the tenant that the claim names",
        protects=True,
    )
    jwt_tenant_claim: str = setting(values.CLAIM, "the claim that names the tenant", default="tenant", protects=True)
    jwt_role_claim: str = setting(
        values.CLAIM,
        "the claim that names the role; of several values, the highest role counts",
        default="role",
        protects=True,
    )
    jwt_roles: tuple[tuple[str, Role], ...] | None = setting(
        values.ROLE_MAPPING,
        "the role for each value of that claim, such as a group",
        default_text="the claim names viewer, operator, editor or admin",
        protects=True,
    )
    jwt_user_claim: str = setting(values.CLAIM, "the claim that identifies the user", default="sub", protects=True)
    oidc_client_id: str | None = setting(
        values.IDENTIFIER,
        "the id of this installation at the identity provider, for sign-in with a browser",
        default_text="browsers sign in with API keys and links only",
        protects=True,
    )
    oidc_client_secret: str | None = setting(
        values.IDENTIFIER,
        "the secret of that client",
        default_text="none, for a public client",
        secret=True,
        protects=True,
    )
    oidc_scopes: tuple[str, ...] = setting(
        values.SCOPES,
        "the scopes to ask for at sign-in",
        default="openid,profile,email",
        protects=True,
    )
    oidc_session_lifetime: Micros = setting(
        values.TOKEN_LIFETIME,
        "how long a browser stays signed in with the identity provider at most, also if it is in use",
        default="12h",
        protects=True,
    )
    oidc_name: str | None = setting(
        values.TEXT,
        "the name of the identity provider on the sign-in page",
        default_text="the host of `jwt_issuer`",
        protects=True,
    )
