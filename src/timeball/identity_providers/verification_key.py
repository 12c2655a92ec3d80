"""Keys that verify tokens. A key has exactly one algorithm, which the token cannot choose."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt.algorithms import Algorithm, ECAlgorithm, HMACAlgorithm, OKPAlgorithm, RSAAlgorithm
from jwt.exceptions import PyJWTError

from timeball.identity_providers.compact_token import CompactToken, is_key_id

MIN_SECRET_BYTES: Final = 32
MIN_RSA_BITS: Final = 2_048
MAX_RSA_BITS: Final = 8_192
MAX_RSA_EXPONENT: Final = 2**32
MAX_KEYS: Final = 100
"""Maximum number of keys of a key set that are used."""

_IMPLEMENTATIONS: Final[Mapping[str, Algorithm]] = {
    "HS256": HMACAlgorithm(HMACAlgorithm.SHA256),
    "RS256": RSAAlgorithm(RSAAlgorithm.SHA256),
    "ES256": ECAlgorithm(ECAlgorithm.SHA256),
    "EdDSA": OKPAlgorithm(),
}
_OF_KEY_TYPE: Final = {"RSA": "RS256", "EC": "ES256", "OKP": "EdDSA"}
"""The only algorithm of each type of key in a key set. Symmetric keys (`oct`) have no place in one."""
_ED25519: Final = "Ed25519"
"""Another name of EdDSA with that curve."""


class UnusableKey(Exception):
    """Raised for a key that this server does not use."""


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """A key with its algorithm. Keys with the same values are equal."""

    algorithm: str
    values: str
    """The values of the key as JSON; empty for a secret."""
    key: Any = field(compare=False, repr=False)

    def verifies(self, token: CompactToken) -> bool:
        """True if the token has the algorithm of this key, and a signature by it."""
        if token.algorithm != self.algorithm:
            return False
        return _IMPLEMENTATIONS[self.algorithm].verify(token.signed, self.key, token.signature)


def secret_key(secret: bytes) -> VerificationKey:
    """Return the key of HS256. Raise `UnusableKey` if the secret is too short, or is a public key by mistake."""
    if len(secret) < MIN_SECRET_BYTES:
        raise UnusableKey(f"it has {len(secret)} bytes; use {MIN_SECRET_BYTES} or more")
    try:
        key = _IMPLEMENTATIONS["HS256"].prepare_key(secret)
    except PyJWTError:
        raise UnusableKey("it is a public key or a certificate, and not a secret") from None
    return VerificationKey("HS256", "", key)


def read_key_set(document: bytes) -> dict[str, VerificationKey]:
    """Return the usable keys of a JSON Web Key Set by their ids. If two keys have the same id, neither is used. Raise
    `UnusableKey` if the document is not a key set."""
    try:
        keys = json.loads(document)["keys"]
    except (ValueError, LookupError, TypeError, RecursionError):
        raise UnusableKey("the answer is not a JSON Web Key Set") from None
    if not isinstance(keys, list):
        raise UnusableKey("the answer is not a JSON Web Key Set")
    found: dict[str, VerificationKey] = {}
    repeated = set()
    for values in keys[:MAX_KEYS]:
        try:
            key_id, key = _read_key(values)
        except UnusableKey:
            continue  # key sets also have keys for encryption, and keys of other algorithms
        if key_id in found:
            repeated.add(key_id)
        found[key_id] = key
    return {key_id: key for key_id, key in found.items() if key_id not in repeated}


def _read_key(values: Any) -> tuple[str, VerificationKey]:
    if not isinstance(values, dict) or not is_key_id(values.get("kid")):
        raise UnusableKey("it has no id")
    algorithm = _OF_KEY_TYPE.get(str(values.get("kty")))
    if algorithm is None or "d" in values:
        raise UnusableKey("it is not a public key")
    stated = values.get("alg", algorithm)
    if stated != algorithm and not (stated == _ED25519 and algorithm == "EdDSA"):
        raise UnusableKey("it is for another algorithm")
    operations = values.get("key_ops", ["verify"])
    if values.get("use", "sig") != "sig" or not isinstance(operations, list) or "verify" not in operations:
        raise UnusableKey("it is not for signatures")
    implementation = _IMPLEMENTATIONS[algorithm]
    try:
        key = implementation.from_jwk(values)
    except (PyJWTError, UnsupportedAlgorithm, ValueError, TypeError, KeyError, OverflowError):
        raise UnusableKey("its values are wrong") from None
    if not _is_accepted(key):
        raise UnusableKey("its size or curve is not accepted")
    return values["kid"], VerificationKey(algorithm, json.dumps(values, sort_keys=True), key)


def _is_accepted(key: Any) -> bool:
    match key:
        case RSAPublicKey():
            is_small = key.public_numbers().e < MAX_RSA_EXPONENT  # a large exponent makes verification slow
            return MIN_RSA_BITS <= key.key_size <= MAX_RSA_BITS and is_small
        case EllipticCurvePublicKey():
            return isinstance(key.curve, SECP256R1)
        case _:
            return isinstance(key, Ed25519PublicKey)
