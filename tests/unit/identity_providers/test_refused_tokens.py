"""Every token that is not accepted, line by line, beside the tokens that are."""

import json

import pytest

from tests.support.token_table import ACCEPTED, EC, REFUSED, RSA, another_signature, corrupted, verifier
from tests.support.tokens import SECRET, claims, encode, hmac_token
from timeball.domain.errors import Unauthorized

LINES = {name: (token, reason) for reason, lines in REFUSED.items() for name, token in lines.items()}


@pytest.mark.parametrize("token", ACCEPTED.values(), ids=ACCEPTED.keys())
async def test_a_correct_token_is_accepted(token: str) -> None:
    found = await verifier().verify(token.encode())
    assert found.tenant == "default"
    assert found.role in ("editor", "admin")


@pytest.mark.parametrize(("token", "reason"), LINES.values(), ids=LINES.keys())
async def test_any_other_token_is_refused_for_its_reason(token: str, reason: str) -> None:
    """Twice, because what was verified is remembered. The error does not repeat the token."""
    verifying = verifier()
    for _ in range(2):
        with pytest.raises(Unauthorized) as refused:
            await verifying.verify(token.encode())
        assert reason in refused.value.detail
        assert not [part for part in token.split(".") if len(part) > 20 and part in refused.value.detail]


@pytest.mark.parametrize(
    "token",
    [
        EC.token(),
        RSA.token(),
        hmac_token(SECRET + b"!"),
        hmac_token(b""),
        hmac_token(SECRET, alg="HS512"),
        hmac_token(SECRET, claims(exp=None)),
        hmac_token(SECRET, claims(aud="other")),
        corrupted(hmac_token(SECRET), 2, lambda _: ""),
        another_signature(hmac_token(SECRET), lambda raw: raw[:16]),
        f"{encode(json.dumps({'alg': 'none'}))}.{encode(json.dumps(claims()))}.",
    ],
    ids=range(10),
)
async def test_a_server_with_a_secret_accepts_only_its_signature(token: str) -> None:
    with pytest.raises(Unauthorized):
        await verifier(secret=True).verify(token.encode())


async def test_a_server_with_a_secret_accepts_hs256() -> None:
    for token in (hmac_token(SECRET), hmac_token(SECRET, kid=None)):
        assert (await verifier(secret=True).verify(token.encode())).subject == "user-1"
