"""Reads signed tokens in the compact form of JWS, before their signature is verified. Everything that this server does
not need is refused: every critical header (`crit`), keys in the token itself, repeated members of a JSON object, and a
second encoding of the same bytes.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from timeball.domain.errors import Unauthorized

MAX_TOKEN_BYTES: Final = 8_192
MAX_HEADER_BYTES: Final = 1_024
MAX_KEY_ID_LENGTH: Final = 200
ALGORITHMS: Final = ("HS256", "RS256", "ES256", "EdDSA")
_REFUSED_HEADERS: Final = ("crit", "b64", "jwk", "jku", "x5u", "x5c", "zip", "enc", "cty")
"""Headers that change how a token is verified, or bring their own key. `cty` marks a token inside of a token."""
_TYPES: Final = frozenset({"jwt", "at+jwt", "application/at+jwt"})
_SEGMENT: Final = re.compile(rb"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class CompactToken:
    """A token whose signature was not verified."""

    algorithm: str
    key_id: str | None
    signed: bytes
    """The bytes that are signed: the encoded header and payload, with the dot between them."""
    signature: bytes
    payload: bytes

    def claims(self) -> dict[str, Any]:
        """Return the claims. Call this only after the signature was verified."""
        return _object(self.payload, "payload")


def looks_like_token(credential: bytes) -> bool:
    """True if a bearer credential has the form of a token. An API key has no dots."""
    return credential.startswith(b"ey") and b"." in credential


def read(token: bytes) -> CompactToken:
    """Return the parts of a token. Raise `Unauthorized` if it is malformed, or has a header that is not accepted."""
    if len(token) > MAX_TOKEN_BYTES:
        raise Unauthorized(f"the token is longer than {MAX_TOKEN_BYTES} bytes")
    segments = token.split(b".")
    if len(segments) != 3:
        raise Unauthorized("the token does not have the three parts of a signed JWT; encrypted tokens are not accepted")
    if len(segments[0]) > MAX_HEADER_BYTES:
        raise Unauthorized(f"the header of the token is longer than {MAX_HEADER_BYTES} bytes")
    header, payload, signature = (_decoded(segment) for segment in segments)
    algorithm, key_id = _checked(_object(header, "header"))
    return CompactToken(algorithm, key_id, token[: token.rindex(b".")], signature, payload)


def _checked(header: dict[str, Any]) -> tuple[str, str | None]:
    """Return the algorithm of a token, and the id of its key, which is None if the header has none. Raise
    `Unauthorized` for a header that is not accepted."""
    for name in _REFUSED_HEADERS:
        if name in header:
            raise Unauthorized(f"the token has the header {name!r}, which is not accepted")
    algorithm = header.get("alg")
    if algorithm not in ALGORITHMS:
        raise Unauthorized(f"the token's 'alg' is not accepted; use one of {', '.join(ALGORITHMS)}")
    kind = header.get("typ", "JWT")
    if not isinstance(kind, str) or kind.lower() not in _TYPES:
        raise Unauthorized("the token's 'typ' is not that of a JWT")
    key_id = header.get("kid")
    if key_id is not None and not is_key_id(key_id):
        raise Unauthorized(f"the token's 'kid' is not text of 1 to {MAX_KEY_ID_LENGTH} printable ASCII characters")
    return algorithm, key_id


def is_key_id(value: Any) -> bool:
    """True if a value is usable as the id of a key. It is only compared, and never part of a path or a statement."""
    return isinstance(value, str) and 0 < len(value) <= MAX_KEY_ID_LENGTH and value.isascii() and value.isprintable()


def _decoded(segment: bytes) -> bytes:
    """Decode base64url without padding. Only one encoding of the same bytes is accepted."""
    if not _SEGMENT.fullmatch(segment):
        raise Unauthorized("a part of the token is empty, or is not base64url without padding")
    try:
        decoded = base64.urlsafe_b64decode(segment + b"=" * (-len(segment) % 4))
    except (binascii.Error, ValueError):
        raise Unauthorized("a part of the token is not base64url") from None
    if base64.urlsafe_b64encode(decoded).rstrip(b"=") != segment:
        raise Unauthorized("a part of the token is not encoded as base64url requires")
    return decoded


def _object(encoded: bytes, part: str) -> dict[str, Any]:
    try:
        found = json.loads(encoded.decode("utf-8"), object_pairs_hook=_members, parse_constant=_constant)
    except (ValueError, RecursionError):
        raise Unauthorized(f"the {part} of the token is not valid JSON, or repeats a member") from None
    if not isinstance(found, dict):
        raise Unauthorized(f"the {part} of the token is not a JSON object")
    return found


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a member is repeated")
    return found


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
