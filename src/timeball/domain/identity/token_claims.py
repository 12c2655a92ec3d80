"""The claims of a bearer token: which are required, and which tenant, role and user they stand for.

The signature of the token was verified before. Times in claims are seconds since 1970; `now` is the time of the store.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from timeball.domain.errors import Unauthorized
from timeball.domain.identity.role import Role
from timeball.domain.instant import SECOND, Micros

CLOCK_LEEWAY: Final[Micros] = 30 * SECOND
"""Maximum difference between the clock of the identity provider and the clock of the store."""
MAX_CLAIM_LENGTH: Final = 255
"""Maximum length of the claims that become a tenant, a user or a name."""
MAX_ROLES: Final = 1_000
"""Maximum number of roles or groups in one token."""
MAX_AUDIENCES: Final = 20
TOKEN_ROLES: Final[tuple[Role, ...]] = ("viewer", "operator", "editor", "admin")
"""The roles that a claim may name directly, lowest first."""
MAPPED_ROLES: Final[tuple[Role, ...]] = (*TOKEN_ROLES, "system")
"""The roles that a value of the role claim can be mapped to, lowest first. The role `system` needs such a mapping."""
_NAME_CLAIMS: Final = ("name", "preferred_username", "email")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRules:
    """What a server requires of tokens, and how it reads them."""

    issuer: str
    audience: str
    max_lifetime: Micros
    tenant: str | None = None
    """The tenant of all tokens; None: the tenant claim names it."""
    tenant_claim: str = "tenant"
    role_claim: str = "role"
    user_claim: str = "sub"
    roles: Mapping[str, Role] | None = None
    """The role for each value of the role claim; None: the claim names the role itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenIdentity:
    """The user of a token, as the identity provider states it."""

    tenant: str
    role: Role
    subject: str
    """The user's id at the identity provider."""
    name: str
    expires_at: Micros


def identify(claims: Mapping[str, Any], rules: ClaimRules, now: Micros, *, nonce: str | None = None) -> TokenIdentity:
    """Return the user of a token. Raise `Unauthorized` if a claim is missing or wrong. With a nonce, the token is the
    ID token of a sign-in and has to contain it."""
    if claims.get("iss") != rules.issuer:
        raise Unauthorized(f"the token was issued by another provider: its 'iss' has to be {rules.issuer}")
    _check_audience(claims, rules.audience, is_id_token=nonce is not None)
    if nonce is not None and claims.get("nonce") != nonce:
        raise Unauthorized("the token belongs to another sign-in: its 'nonce' is wrong")
    _text(claims, "sub")
    expires_at = _check_times(claims, rules.max_lifetime, now)
    subject = _text(claims, rules.user_claim)
    return TokenIdentity(
        tenant=rules.tenant if rules.tenant is not None else _text(claims, rules.tenant_claim),
        role=_role(claims, rules),
        subject=subject,
        name=next((name for claim in _NAME_CLAIMS if (name := _short_text(claims.get(claim)))), subject),
        expires_at=expires_at,
    )


def _check_audience(claims: Mapping[str, Any], audience: str, *, is_id_token: bool) -> None:
    named = claims.get("aud")
    audiences = named if isinstance(named, list) else [named]
    if len(audiences) > MAX_AUDIENCES or not all(isinstance(each, str) for each in audiences):
        raise Unauthorized(f"the token has a malformed 'aud': it has to be text, or at most {MAX_AUDIENCES} texts")
    if audience not in audiences:
        raise Unauthorized(f"the token is for another audience: its 'aud' has to contain {audience!r}")
    if is_id_token and claims.get("azp", audience) != audience:
        raise Unauthorized("the token was issued to another client: its 'azp' is wrong")


def _check_times(claims: Mapping[str, Any], max_lifetime: Micros, now: Micros) -> Micros:
    """Return the instant at which the token expires. Raise `Unauthorized` if it has expired, is not valid yet, or is
    valid for longer than `max_lifetime`."""
    expires_at, issued_at = _instant(claims, "exp"), _instant(claims, "iat")
    if expires_at + CLOCK_LEEWAY <= now:
        raise Unauthorized("the token has expired; get a new one from the identity provider")
    if issued_at > now + CLOCK_LEEWAY:
        raise Unauthorized("the token was issued in the future: compare the clocks of server and identity provider")
    if "nbf" in claims and _instant(claims, "nbf") > now + CLOCK_LEEWAY:
        raise Unauthorized("the token is not valid yet: its 'nbf' is in the future")
    if expires_at - issued_at > max_lifetime:
        raise Unauthorized(
            f"the token is valid for too long: at most {max_lifetime // SECOND} seconds may be between 'iat' and 'exp'"
        )
    return expires_at


def _instant(claims: Mapping[str, Any], claim: str) -> Micros:
    seconds = claims.get(claim)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise Unauthorized(f"the token needs {claim!r}, in seconds since 1970")
    if not math.isfinite(seconds) or not 0 <= seconds < 1e11:
        raise Unauthorized(f"the token's {claim!r} is not a time in seconds since 1970")
    return int(seconds * SECOND)


def _text(claims: Mapping[str, Any], claim: str) -> str:
    found = _short_text(_claim(claims, claim))
    if found is None:
        raise Unauthorized(f"the token needs {claim!r}: text of 1 to {MAX_CLAIM_LENGTH} printable characters")
    return found


def _short_text(value: Any) -> str | None:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_CLAIM_LENGTH or not value.isprintable():
        return None
    return value


def _role(claims: Mapping[str, Any], rules: ClaimRules) -> Role:
    """Return the highest role for which a value of the role claim stands. Raise `Unauthorized` if there is none."""
    value = _claim(claims, rules.role_claim)
    values = value if isinstance(value, list) else [value]
    if len(values) > MAX_ROLES:
        raise Unauthorized(f"the token's {rules.role_claim!r} has more than {MAX_ROLES} values")
    known: Mapping[str, Role] = rules.roles if rules.roles is not None else {role: role for role in TOKEN_ROLES}
    found = {known[each] for each in values if isinstance(each, str) and each in known}
    if not found:
        raise Unauthorized(f"the token gives no role: no value of its claim {rules.role_claim!r} stands for one")
    return max(found, key=MAPPED_ROLES.index)


def _claim(claims: Mapping[str, Any], path: str) -> Any:
    """Return a claim by its name, or by its path in nested objects, such as `realm_access.roles`."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found
