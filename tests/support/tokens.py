"""Signs tokens as an identity provider does, and as an attacker would."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, padding, rsa, utils

ISSUER: Final = "https://id.example.org/realm"
AUDIENCE: Final = "timeball"
SECRET: Final = b"a secret of the tests with 32 bytes or more"
NOW: Final = 1_800_000_000
"""The time of the store in tests, in seconds."""


def encode(content: bytes | str) -> str:
    raw = content.encode("utf-8") if isinstance(content, str) else content
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def claims(**changed: Any) -> dict[str, Any]:
    """The claims of a token that is accepted. A changed claim that is None is left out."""
    usual = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "user-1",
        "iat": NOW - 10,
        "exp": NOW + 600,
        "tenant": "default",
        "role": "editor",
        "name": "Ada",
    }
    return {name: value for name, value in (usual | changed).items() if value is not None}


class SigningKey:
    """A key of an identity provider."""

    def __init__(self, kind: str, key_id: str = "") -> None:
        self.kind = kind
        self.key_id = key_id or kind
        self.private: Any = _private(kind)

    @property
    def algorithm(self) -> str:
        return {"rsa": "RS256", "rsa1024": "RS256", "p256": "ES256", "p384": "ES256", "secret": "HS256"}.get(
            self.kind, "EdDSA"
        )

    @property
    def public_pem(self) -> bytes:
        public: bytes = self.private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return public

    def jwk(self, **changed: Any) -> dict[str, Any]:
        """The public key in a key set."""
        values = {"kid": self.key_id, "use": "sig", "alg": self.algorithm, **self._values(), **changed}
        return {name: value for name, value in values.items() if value is not None}

    def _values(self) -> dict[str, str]:
        public = self.private.public_key()
        if isinstance(public, rsa.RSAPublicKey):
            numbers = public.public_numbers()
            return {"kty": "RSA", "n": _number(numbers.n), "e": _number(numbers.e)}
        if isinstance(public, ec.EllipticCurvePublicKey):
            size, curve = (32, "P-256") if self.kind == "p256" else (48, "P-384")
            point = public.public_numbers()
            return {"kty": "EC", "crv": curve, "x": _number(point.x, size), "y": _number(point.y, size)}
        raw = public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
        return {"kty": "OKP", "crv": "Ed25519" if self.kind == "ed25519" else "Ed448", "x": encode(raw)}

    def signature(self, signed: bytes) -> bytes:
        match self.private:
            case bytes():
                return hmac.digest(self.private, signed, hashlib.sha256)
            case rsa.RSAPrivateKey():
                return self.private.sign(signed, padding.PKCS1v15(), hashes.SHA256())
            case ec.EllipticCurvePrivateKey():
                size = 32 if self.kind == "p256" else 48
                r, s = utils.decode_dss_signature(self.private.sign(signed, ec.ECDSA(hashes.SHA256())))
                return r.to_bytes(size, "big") + s.to_bytes(size, "big")
            case _:
                signature: bytes = self.private.sign(signed)
                return signature

    def token(self, content: Mapping[str, Any] | str | bytes | None = None, **header: Any) -> str:
        """A token with these claims, or with this payload. `header` changes its header; None removes a member."""
        head = {"alg": self.algorithm, "typ": "JWT", "kid": self.key_id, **header}
        payload = content if isinstance(content, str | bytes) else json.dumps(claims() if content is None else content)
        return self.sign(json.dumps({name: value for name, value in head.items() if value is not None}), payload)

    def sign(self, header: str | bytes, payload: str | bytes) -> str:
        signed = f"{encode(header)}.{encode(payload)}"
        return f"{signed}.{encode(self.signature(signed.encode()))}"


def key_set(*keys: SigningKey | dict[str, Any]) -> bytes:
    return json.dumps({"keys": [key.jwk() if isinstance(key, SigningKey) else key for key in keys]}).encode()


def hmac_token(secret: bytes, content: Mapping[str, Any] | None = None, **header: Any) -> str:
    """A token that is signed with any bytes as the secret."""
    key = signing_key("secret")
    forged = SigningKey.__new__(SigningKey)
    forged.kind, forged.key_id, forged.private = "secret", key.key_id, secret
    return forged.token(content, **header)


@cache
def signing_key(kind: str, key_id: str = "") -> SigningKey:
    """A key of this kind and id, generated once per process, because that takes long."""
    return SigningKey(kind, key_id)


def _private(kind: str) -> Any:
    match kind:
        case "secret":
            return SECRET
        case "rsa" | "rsa1024":
            return rsa.generate_private_key(public_exponent=65_537, key_size=2_048 if kind == "rsa" else 1_024)
        case "p256":
            return ec.generate_private_key(ec.SECP256R1())
        case "p384":
            return ec.generate_private_key(ec.SECP384R1())
        case "ed25519":
            return ed25519.Ed25519PrivateKey.generate()
        case _:
            return ed448.Ed448PrivateKey.generate()


def _number(value: int, size: int = 0) -> str:
    return encode(value.to_bytes(size or (value.bit_length() + 7) // 8, "big"))
