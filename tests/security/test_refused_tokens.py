"""A server over HTTP refuses every line of the table of tokens, for the same reason, and accepts the others."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.api import running_api
from tests.support.event_streams import HttpApi, over_http
from tests.support.token_table import ACCEPTED, REFUSED, verifier
from timeball.identity_providers.compact_token import MAX_TOKEN_BYTES, looks_like_token
from timeball.ports.identity_provider import IdentityProvider

NOT_IN_A_HEADER = "a line feed in a part"
"""The only line that no HTTP client can send."""


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[HttpApi]:
    async with running_api(tmp_path, provider=IdentityProvider(verifier())) as api, over_http(api) as http:
        yield http


async def test_a_server_answers_each_line_with_a_401_and_its_reason(http: HttpApi) -> None:
    sent = 0
    for reason, lines in REFUSED.items():
        for name, token in lines.items():
            if name == NOT_IN_A_HEADER:
                continue
            header = {"authorization": f"Bearer {token}".rstrip().encode()}
            answer = await http.client.get(f"{http.url}/v1/jobs", headers=header)
            assert answer.status_code == 401, name
            assert answer.headers["content-type"] == "application/problem+json"
            if looks_like_token(token.encode()) and len(token) <= MAX_TOKEN_BYTES:
                assert reason in answer.json()["detail"], name
            assert not [part for part in token.split(".") if len(part) > 20 and part in answer.text], name
            sent += 1
    assert sent >= 40


async def test_a_server_accepts_the_other_tokens(http: HttpApi) -> None:
    for name, token in ACCEPTED.items():
        answer = await http.client.get(f"{http.url}/v1/jobs", headers={"authorization": f"Bearer {token}"})
        assert answer.status_code == 200, (name, answer.text)
