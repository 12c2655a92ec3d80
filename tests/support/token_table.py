"""Tokens that a server accepts, and tokens that it refuses, each for one reason."""

import base64
import json
from collections.abc import Callable
from typing import Any

from tests.support.tokens import (
    AUDIENCE,
    ISSUER,
    NOW,
    SECRET,
    SigningKey,
    claims,
    encode,
    hmac_token,
    key_set,
    signing_key,
)
from timeball.domain.errors import Unauthorized
from timeball.domain.identity.token_claims import ClaimRules
from timeball.domain.instant import HOUR, SECOND
from timeball.identity_providers.jwt_verifier import JwtVerifier
from timeball.identity_providers.key_set import SecretKey
from timeball.identity_providers.verification_key import VerificationKey, read_key_set

RULES = ClaimRules(issuer=ISSUER, audience=AUDIENCE, max_lifetime=HOUR)
RSA, EC, ED = signing_key("rsa"), signing_key("p256"), signing_key("ed25519")
HS = signing_key("secret")
OTHER_RSA, ROTATED = signing_key("rsa", "other"), signing_key("p256", "rotated")
ED448, P384, SMALL = signing_key("ed448"), signing_key("p384"), signing_key("rsa1024")
RSA_WITH_ID_OF_EC = SigningKey.__new__(SigningKey)
RSA_WITH_ID_OF_EC.kind, RSA_WITH_ID_OF_EC.key_id, RSA_WITH_ID_OF_EC.private = "rsa", "p256", OTHER_RSA.private


NO_KEY = "there is no such key"


class PublishedKeys:
    """A key set that never changes."""

    def __init__(self, *keys: SigningKey | dict[str, Any]) -> None:
        self._keys = read_key_set(key_set(*keys))

    def current(self, key_id: str | None) -> VerificationKey | None:
        return self._keys.get(key_id or "")

    async def find(self, key_id: str | None) -> VerificationKey:
        key = self.current(key_id)
        if key is None:
            raise Unauthorized(NO_KEY)
        return key


PUBLISHED = PublishedKeys(
    RSA,
    EC,
    ED,
    ED448,
    P384,
    SMALL,
    OTHER_RSA.jwk(kid="for-rs512", alg="RS512"),
    OTHER_RSA.jwk(kid="for-encryption", use="enc"),
    OTHER_RSA.jwk(kid="large-exponent", e=encode(b"\x01" * 200)),
    OTHER_RSA.jwk(kid="twice"),
    ROTATED.jwk(kid="twice"),
    {"kty": "oct", "kid": "shared", "alg": "HS256", "k": encode(SECRET)},
)


def verifier(secret: bool = False, rules: ClaimRules = RULES) -> JwtVerifier:
    return JwtVerifier(rules, SecretKey(SECRET) if secret else PUBLISHED, lambda: NOW * SECOND)


def changed(**different: Any) -> str:
    return EC.token(claims(**different))


def corrupted(token: str, segment: int, change: Callable[[str], str]) -> str:
    parts = token.split(".")
    parts[segment] = change(parts[segment])
    return ".".join(parts)


def another_signature(token: str, change: Callable[[bytes], bytes]) -> str:
    return corrupted(token, 2, lambda part: encode(change(base64.urlsafe_b64decode(part + "=="))))


def not_canonical(part: str) -> str:
    """The same bytes in another encoding: bits that mean nothing are set in the last character."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return part[:-1] + alphabet[alphabet.index(part[-1]) + 1]


ACCEPTED = {
    "RS256": RSA.token(),
    "ES256": EC.token(),
    "EdDSA": ED.token(),
    "an audience in a list": changed(aud=["another", AUDIENCE]),
    "a time with a fraction": changed(iat=NOW - 0.5, exp=NOW + 60.5),
    "an expiry within the leeway": changed(exp=NOW - 29),
    "issued within the leeway": changed(iat=NOW + 29),
    "not before, within the leeway": changed(nbf=NOW + 29),
    "the longest lifetime": changed(iat=NOW, exp=NOW + 3600),
    "the longest lifetime and the header of RFC 9068": EC.token(claims(iat=NOW, exp=NOW + 3600), typ="at+jwt"),
    "no type": EC.token(typ=None),
    "unknown claims and headers": EC.token(claims(extra={"a": [1]}), x5t="abc"),
    "several roles": changed(role=["nothing", "viewer", 7, "admin"]),
    "a name that is not ASCII": changed(name="Zoë Łukasz", sub="zoë"),
}

REFUSED = {
    "a part of the token is empty, or is not base64url without padding": {
        "alg none, no signature": f"{encode(json.dumps({'alg': 'none'}))}.{encode(json.dumps(claims()))}.",
        "an empty signature": corrupted(EC.token(), 2, lambda _: ""),
        "only dots": "..",
        "an empty payload": corrupted(EC.token(), 1, lambda _: ""),
        "padding": corrupted(EC.token(), 2, lambda part: part + "=="),
        "base64 of another alphabet": corrupted(EC.token(claims(extra="????>>>>")), 1, lambda part: part + "+/"),
        "a blank in a part": corrupted(EC.token(), 1, lambda part: part[:10] + " " + part[10:]),
        "a line feed in a part": corrupted(EC.token(), 1, lambda part: part + "\n"),
        "characters that are not ASCII": EC.token() + "é",
    },
    "'alg' is not accepted": {
        "alg none, with a signature": EC.token(alg="none"),
        "alg None in capitals": EC.token(alg="NONE"),
        "alg missing": EC.token(alg=None),
        "alg empty": EC.token(alg=""),
        "alg in lower case": EC.token(alg="es256"),
        "alg as a list": EC.token(alg=["ES256"]),
        "alg as a number": EC.token(alg=256),
        "HS512": hmac_token(SECRET, alg="HS512"),
        "RS512": RSA.token(alg="RS512"),
        "PS256": RSA.token(alg="PS256"),
        "ES256K": EC.token(alg="ES256K"),
    },
    "the signature of the token is wrong, or its 'alg' is not that of its key": {
        "algorithm confusion: HS256 with the public key in PEM": hmac_token(RSA.public_pem, kid="rsa"),
        "algorithm confusion: HS256 with the public key as JSON": hmac_token(json.dumps(RSA.jwk()).encode(), kid="rsa"),
        "algorithm confusion: HS256 with an empty secret": hmac_token(b"", kid="rsa"),
        "HS256 with the real secret where there is a key set": HS.token(kid="rsa"),
        "RS256 named, signed with ES256": EC.token(alg="RS256"),
        "ES256 named, signed with RS256": RSA.token(alg="ES256"),
        "RS256 with the id of an EC key": RSA_WITH_ID_OF_EC.token(),
        "Ed448 with the id of the Ed25519 key": ED448.token(kid="ed25519"),
        "the other curve with the id of the P-256 key": P384.token(kid="p256"),
        "a signature of another key": OTHER_RSA.token(kid="rsa"),
        "a changed signature": another_signature(RSA.token(), lambda raw: bytes([raw[0] ^ 1]) + raw[1:]),
        "a changed payload": corrupted(EC.token(), 1, lambda _: encode(json.dumps(claims(role="admin")))),
        "an ES256 signature of 63 bytes": another_signature(EC.token(), lambda raw: raw[:-1]),
        "an ES256 signature of 65 bytes": another_signature(EC.token(), lambda raw: raw + b"\0"),
        "an ES256 signature of zeros": another_signature(EC.token(), lambda _: bytes(64)),
        "an ES256 signature in DER": another_signature(
            EC.token(), lambda raw: b"\x30\x44\x02\x20" + raw[:32] + raw[32:]
        ),
        "an EdDSA signature of 63 bytes": another_signature(ED.token(), lambda raw: raw[:-1]),
        "an RSA signature of 257 bytes": another_signature(RSA.token(), lambda raw: b"\0" + raw),
    },
    NO_KEY: {
        "HS256 with a symmetric key of the key set": HS.token(kid="shared"),
        "EdDSA with Ed448": ED448.token(),
        "ES256 on another curve": P384.token(),
        "RSA with 1024 bits": SMALL.token(),
        "a key for RS512": OTHER_RSA.token(kid="for-rs512"),
        "a key for encryption": OTHER_RSA.token(kid="for-encryption"),
        "an RSA key with a large exponent": OTHER_RSA.token(kid="large-exponent"),
        "an id that two keys have": OTHER_RSA.token(kid="twice"),
        "kid missing": EC.token(kid=None),
        "kid as a path": EC.token(kid="../../../../dev/null"),
        "kid as SQL": EC.token(kid="x' UNION SELECT 'secret' --"),
        "kid as a command": EC.token(kid="key.pem; cat /etc/passwd |"),
        "a key that was rotated out": ROTATED.token(),
    },
    "'kid' is not text": {
        "kid huge": EC.token(kid="k" * 700),
        "kid empty": EC.token(kid=""),
        "kid as a number": EC.token(kid=1),
        "kid as a list": EC.token(kid=["p256"]),
        "kid as an object": EC.token(kid={"$ne": ""}),
        "kid as a boolean": EC.token(kid=True),
        "kid with a zero byte": EC.token(kid="p256\0"),
        "kid not ASCII": EC.token(kid="p256\u00e9"),
    },
    "the token has the header 'crit', which is not accepted": {
        "crit": EC.token(crit=["exp"]),
        "crit empty": EC.token(crit=[]),
        "b64 false": EC.token(b64=False, crit=["b64"]),
    },
    "the token has the header 'b64', which is not accepted": {
        "b64 false, without crit": EC.token(b64=False),
    },
    "the token has the header 'jwk', which is not accepted": {
        "an embedded key": OTHER_RSA.token(jwk=OTHER_RSA.jwk()),
        "an embedded key beside a known id": OTHER_RSA.token(kid="rsa", jwk=OTHER_RSA.jwk()),
    },
    "the token has the header 'jku', which is not accepted": {
        "jku": OTHER_RSA.token(jku="https://attacker.example.org/keys"),
    },
    "the token has the header 'x5u', which is not accepted": {
        "x5u": OTHER_RSA.token(x5u="http://169.254.169.254/latest/"),
    },
    "the token has the header 'x5c', which is not accepted": {
        "x5c": OTHER_RSA.token(x5c=["MIIB"]),
    },
    "the token has the header 'zip', which is not accepted": {
        "zip": EC.token(zip="DEF"),
    },
    "the token has the header 'enc', which is not accepted": {
        "enc": EC.token(enc="A256GCM"),
    },
    "the token has the header 'cty', which is not accepted": {
        "a token in a token": EC.token(EC.token(), cty="JWT"),
    },
    "the payload of the token is not valid JSON, or repeats a member": {
        "a token in a token, without cty": EC.token(EC.token()),
        "a repeated claim": EC.token(json.dumps(claims())[:-1] + ',"role":"admin"}'),
        "a repeated member of an object in a claim": EC.token(json.dumps(claims())[:-1] + ',"a":{"b":1,"b":2}}'),
        "a payload that is not JSON": EC.token("{"),
        "a payload that is not UTF-8": EC.token(b'{"iss":"\xff"}'),
        "a payload with more after it": EC.token(json.dumps(claims()) + "{}"),
        "a payload that is deeply nested": EC.token("[" * 5_000 + "]" * 100),
        "a number with 5000 digits": EC.token(json.dumps(claims())[:-1] + ',"n":' + "9" * 5_000 + "}"),
        "exp infinite": EC.token(json.dumps(claims(exp=None))[:-1] + ',"exp":Infinity}'),
        "exp not a number": EC.token(json.dumps(claims(exp=None))[:-1] + ',"exp":NaN}'),
    },
    "the token's 'typ' is not that of a JWT": {
        "typ of another kind": EC.token(typ="logout+jwt"),
        "typ of a DPoP proof": EC.token(typ="dpop+jwt"),
        "typ as a number": EC.token(typ=1),
    },
    "does not have the three parts": {
        "empty": "",
        "one part": "eyJhbGciOiJFUzI1NiJ9",
        "two parts": ".".join(EC.token().split(".")[:2]),
        "four parts": EC.token() + ".e30",
        "five parts, as encrypted tokens have": "e30.e30.e30.e30.e30",
    },
    "the token is longer than 8192 bytes": {
        "oversized": EC.token(claims(extra="x" * 8_000)),
    },
    "the header of the token is longer than 1024 bytes": {
        "an oversized header": EC.token(extra="x" * 2_000),
    },
    "a part of the token is not encoded as base64url requires": {
        "a signature in another encoding": corrupted(EC.token(), 2, not_canonical),
    },
    "the header of the token is not valid JSON, or repeats a member": {
        "a repeated member of the header": EC.sign('{"alg":"ES256","kid":"p256","kid":"p256"}', json.dumps(claims())),
        "a header that is not UTF-8": EC.sign(b'{"alg":"ES256","kid":"\xff"}', json.dumps(claims())),
        "a header that is UTF-16": EC.sign('{"alg":"ES256","kid":"p256"}'.encode("utf-16"), json.dumps(claims())),
    },
    "the header of the token is not a JSON object": {
        "a header that is a list": EC.sign('["ES256"]', json.dumps(claims())),
    },
    "the payload of the token is not a JSON object": {
        "a payload that is text": EC.token('"text"'),
        "a payload that is null": EC.token("null"),
    },
    "the token needs 'exp', in seconds since 1970": {
        "exp missing": changed(exp=None),
        "exp null": EC.token(json.dumps(claims(exp=None))[:-1] + ',"exp":null}'),
        "exp as text": changed(exp=str(NOW + 60)),
        "exp as a boolean": changed(exp=True),
    },
    "the token's 'exp' is not a time in seconds since 1970": {
        "exp beyond all numbers": EC.token(json.dumps(claims(exp=None))[:-1] + ',"exp":1e400}'),
        "exp negative": changed(exp=-1),
        "times in milliseconds": changed(iat=NOW * 1_000, exp=NOW * 1_000 + 60),
    },
    "has expired": {
        "expired": changed(exp=NOW - 31),
    },
    "valid for too long": {
        "exp in the far future": changed(exp=NOW + 10 * 365 * 86_400),
        "exp one second beyond the longest lifetime": changed(iat=NOW, exp=NOW + 3_601),
    },
    "the token needs 'iat', in seconds since 1970": {
        "iat missing": changed(iat=None),
        "iat as text": changed(iat="now"),
    },
    "issued in the future": {
        "iat in the future": changed(iat=NOW + 31, exp=NOW + 90),
    },
    "not valid yet": {
        "nbf in the future": changed(nbf=NOW + 31),
    },
    "the token needs 'nbf', in seconds since 1970": {
        "nbf as text": changed(nbf="soon"),
    },
    "malformed 'aud'": {
        "aud missing": changed(aud=None),
        "a list of audiences that is not all text": changed(aud=[AUDIENCE, 1]),
        "an audience in a list in a list": changed(aud=[[AUDIENCE]]),
        "more audiences than the limit": changed(aud=[AUDIENCE] * 21),
        "aud as an object": changed(aud={AUDIENCE: True}),
    },
    "for another audience": {
        "another audience": changed(aud="billing"),
        "an audience in other letters": changed(aud="Timeball"),
        "an audience that begins the same": changed(aud="timeball-admin"),
        "other audiences in a list": changed(aud=["a", "b"]),
        "no audience in a list": changed(aud=[]),
    },
    "issued by another provider": {
        "iss missing": changed(iss=None),
        "another issuer": changed(iss="https://evil.example.org"),
        "an issuer with a slash at its end": changed(iss=ISSUER + "/"),
        "an issuer in a list": changed(iss=[ISSUER]),
    },
    "needs 'sub'": {
        "sub missing": changed(sub=None),
        "sub empty": changed(sub=""),
        "sub as a number": changed(sub=1),
        "sub too long": changed(sub="s" * 256),
        "sub with a control character": changed(sub="a\nb"),
        "sub with a lone surrogate": EC.token(json.dumps(claims(sub=None))[:-1] + ',"sub":"\\ud800"}'),
    },
    "needs 'tenant'": {
        "tenant missing": changed(tenant=None),
        "tenant in a list": changed(tenant=["default"]),
        "tenant empty": changed(tenant=""),
    },
    "gives no role": {
        "role missing": changed(role=None),
        "role unknown": changed(role="root"),
        "role in other letters": changed(role="Admin"),
        "role system, without a mapping": changed(role="system"),
        "role worker": changed(role="worker"),
        "no role in a list": changed(role=[]),
        "role as an object": changed(role={"admin": True}),
    },
    "the token's 'role' has more than 1000 values": {
        "more roles than the limit": changed(role=["x"] * 1_001),
    },
}
"""Tokens that are refused, by what the error says."""
