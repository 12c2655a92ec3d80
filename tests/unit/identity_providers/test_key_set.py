"""Keys of an identity provider over real HTTP: what is requested when, and which keys stay valid."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web

from tests.support.identity_provider import IdentityProvider, identity_provider
from tests.support.tokens import AUDIENCE, NOW, signing_key
from timeball.domain.errors import TimeballError, Unauthorized, Unavailable
from timeball.domain.identity.token_claims import ClaimRules, TokenIdentity
from timeball.domain.instant import HOUR, MINUTE, SECOND, Micros
from timeball.identity_providers import provider_http
from timeball.identity_providers.jwt_verifier import MAX_REMEMBERED_TOKENS, JwtVerifier
from timeball.identity_providers.key_set import MISSING_KEY_TIME, KeySet
from timeball.identity_providers.metadata import fetch_metadata
from timeball.identity_providers.provider_http import MAX_ANSWER_BYTES, ProviderError, ProviderHttp
from timeball.identity_providers.refreshed_value import FETCH_INTERVAL, FRESH_TIME, MAX_STALE_TIME


class SetClock:
    """A clock that a test moves. The time of the store moves with it."""

    def __init__(self) -> None:
        self.time: Micros = 0

    def monotonic(self) -> Micros:
        return self.time

    async def sleep(self, length: Micros) -> None:
        raise NotImplementedError

    def store(self) -> Micros:
        return NOW * SECOND + self.time

    def seconds(self) -> float:
        return self.store() / SECOND


class Scene:
    def __init__(self, provider: IdentityProvider, clock: SetClock) -> None:
        self.provider = provider
        self.clock = clock
        self.http = ProviderHttp()
        self.keys = KeySet(lambda: self.http.get(f"{provider.url}/keys"), clock)
        rules = ClaimRules(issuer=provider.url, audience=AUDIENCE, max_lifetime=HOUR)
        self.verifier = JwtVerifier(rules, self.keys, clock.store)

    async def verify(self, token: str | None = None) -> TokenIdentity:
        return await self.verifier.verify((token or self.provider.issue(AUDIENCE)).encode())

    async def refused(self, token: str | None = None) -> type[TimeballError]:
        with pytest.raises(TimeballError) as refused:
            await self.verify(token)
        return type(refused.value)

    @property
    def fetched(self) -> int:
        return self.provider.count("/keys")

    async def until(self, condition: Callable[[], bool | Awaitable[bool]]) -> None:
        async with asyncio.timeout(60):
            while not (result := condition()) or (not isinstance(result, bool) and not await result):
                await asyncio.sleep(0.001)


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    clock = SetClock()
    async with identity_provider(clock.seconds) as provider:
        found = Scene(provider, clock)
        yield found
        await found.keys.close()
        await found.http.close()


async def test_a_key_set_is_requested_once_for_many_tokens(scene: Scene) -> None:
    tokens = [scene.provider.issue(AUDIENCE, sub=f"user-{number}") for number in range(20)]
    found = await asyncio.gather(*map(scene.verify, tokens))
    assert [each.subject for each in found] == [f"user-{number}" for number in range(20)]
    assert scene.fetched == 1


async def test_a_new_key_is_accepted_at_once_and_the_old_one_while_it_is_published(scene: Scene) -> None:
    before = scene.provider.issue(AUDIENCE)
    await scene.verify(before)
    scene.clock.time += FETCH_INTERVAL
    scene.provider.rotate("second")
    await scene.verify()
    await scene.verify(before)
    assert scene.fetched == 2


async def test_a_key_that_was_withdrawn_is_refused_also_for_tokens_that_were_verified_before(scene: Scene) -> None:
    before = scene.provider.issue(AUDIENCE)
    await scene.verify(before)
    scene.provider.rotate("second", keep=False)
    scene.clock.time += FRESH_TIME
    await scene.verify(before)  # the set is read again in the background
    await scene.until(lambda: scene.fetched == 2 and scene.keys.current("second") is not None)
    assert await scene.refused(before) is Unauthorized
    await scene.verify()


async def test_unknown_keys_cost_one_request_per_interval(scene: Scene) -> None:
    await scene.verify()
    wrong = [signing_key("p256", "first").token(kid=f"unknown-{number}") for number in range(50)]
    assert {await scene.refused(token) for token in wrong} == {Unauthorized}
    assert scene.fetched == 1  # the set was just read
    scene.clock.time += FETCH_INTERVAL
    assert {await scene.refused(token) for token in wrong} == {Unauthorized}
    assert scene.fetched == 2
    scene.clock.time += FETCH_INTERVAL
    assert await scene.refused(wrong[0]) is Unauthorized
    assert scene.fetched == 2  # this id is known to be missing
    assert await scene.refused(scene.provider.key.token(kid="another")) is Unauthorized
    assert await scene.refused(scene.provider.key.token(kid="yet another")) is Unauthorized
    assert scene.fetched == 3
    scene.clock.time += MISSING_KEY_TIME
    await asyncio.gather(*map(scene.refused, wrong))
    assert scene.fetched == 4


async def test_a_new_key_that_was_asked_for_just_after_the_set_was_read_is_accepted_with_the_next_read(
    scene: Scene,
) -> None:
    await scene.verify()
    scene.provider.rotate("second", keep=False)
    assert await scene.refused() is Unauthorized
    scene.clock.time += FETCH_INTERVAL
    await scene.verify()


async def test_keys_stay_valid_while_the_provider_is_away_for_a_bounded_time(scene: Scene) -> None:
    await scene.verify()
    scene.provider.answers["/keys"] = web.Response(status=503)
    for _ in range(3):
        scene.clock.time += FRESH_TIME
        await scene.verify()
    assert await scene.refused(scene.provider.key.token(kid="new")) is Unavailable
    scene.clock.time = MAX_STALE_TIME
    assert await scene.refused() is Unavailable
    del scene.provider.answers["/keys"]
    scene.clock.time += FETCH_INTERVAL
    await scene.verify()


async def test_a_provider_that_is_away_at_first_is_asked_at_most_once_per_interval(scene: Scene) -> None:
    scene.provider.answers["/keys"] = web.Response(status=500)
    assert {await scene.refused() for _ in range(5)} == {Unavailable}
    assert scene.fetched == 1
    del scene.provider.answers["/keys"]
    scene.clock.time += FETCH_INTERVAL
    await scene.verify()
    assert scene.fetched == 2


@pytest.mark.parametrize(
    "answer",
    [
        web.Response(status=204),
        web.Response(status=302, headers={"Location": "/keys2"}),
        web.Response(body=b" " * (MAX_ANSWER_BYTES + 1)),
        web.Response(body=b"<html>"),
        web.Response(body=b"[]"),
        web.Response(body=b"null"),
        web.Response(body=b'{"keys": {}}'),
        web.Response(body=b'{"keys":' + b"[" * 100_000),
    ],
    ids=lambda answer: f"{answer.status} {bytes(answer.body or b'')[:10]!r}",
)
async def test_an_answer_that_is_not_a_key_set_changes_nothing(scene: Scene, answer: web.Response) -> None:
    await scene.verify()
    scene.provider.answers["/keys"] = answer
    scene.clock.time += FETCH_INTERVAL
    new = scene.provider.key.token(kid="new")
    assert await scene.refused(new) is Unavailable
    await scene.verify()


async def test_a_provider_that_does_not_answer_holds_up_no_token_with_a_known_key(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_http, "PROVIDER_TIMEOUT", 0.05)
    await scene.verify()
    scene.provider.hangs = True
    scene.clock.time += FRESH_TIME
    await scene.verify()
    assert await scene.refused(scene.provider.key.token(kid="new")) is Unavailable


async def test_keys_of_other_kinds_in_the_set_are_ignored(scene: Scene) -> None:
    others = [None, 1, [], {"kty": "RSA"}, {"kid": "x", "kty": "EC", "crv": "P-256", "x": "!", "y": "!"}]
    document = {"keys": [*others, {"kid": ["y"], "kty": "OKP"}, *(key.jwk() for key in scene.provider.published)]}
    scene.provider.answers["/keys"] = web.Response(body=json.dumps(document).encode())
    await scene.verify()


async def test_a_verified_token_is_remembered_until_it_expires(scene: Scene) -> None:
    token = scene.provider.issue(AUDIENCE)
    first = await scene.verify(token)
    assert await scene.verify(token) is first
    scene.clock.time += 5 * MINUTE + 31 * SECOND
    assert await scene.refused(token) is Unauthorized
    assert not scene.verifier._verified


async def test_a_limited_number_of_tokens_is_remembered(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("timeball.identity_providers.jwt_verifier.MAX_REMEMBERED_TOKENS", 3)
    assert MAX_REMEMBERED_TOKENS > 3
    for number in range(10):
        await scene.verify(scene.provider.issue(AUDIENCE, sub=f"user-{number}"))
    assert len(scene.verifier._verified) == 3


@pytest.mark.parametrize(
    "url",
    [
        "http://id.example.org/",
        "http://10.0.0.1/",
        "http://169.254.169.254/latest/meta-data",
        "http://[::ffff:127.0.0.1]/",
        "http://127.1/",
        "http://localhost.example.org/",
        "http://127.0.0.1@evil.example.org/",
        "https://user:password@id.example.org/",
        "ftp://id.example.org/",
        "file:///etc/passwd",
        "//id.example.org/",
        "https:///keys",
        "https://id.example.org:99999/",
        "https://id.example.org/a b",
        "https://id.example.org/\r\nHost: x",
        "https://id.example.org/#x",
        "https://ïd.example.org/",
        "https://id.example.org/" + "x" * 2_000,
        "",
        None,
        7,
    ],
)
async def test_an_address_that_is_neither_https_nor_loopback_is_not_requested(url: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        provider_http.check_url(url)


@pytest.mark.parametrize(
    "url", ["https://id.example.org/a?b=c", "http://127.0.0.1:1/", "http://localhost/", "http://[::1]/"]
)
async def test_https_and_loopback_are_requested(url: str) -> None:
    assert provider_http.check_url(url) == url


@pytest.mark.parametrize(
    "changed",
    [
        {"issuer": "https://other.example.org"},
        {"issuer": None},
        {"jwks_uri": "http://169.254.169.254/keys"},
        {"jwks_uri": "file:///etc/passwd"},
        {"token_endpoint": "http://10.0.0.1/token"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"end_session_endpoint": "http://evil.example.org/"},
        {"token_endpoint": 1},
    ],
)
async def test_a_discovery_document_that_names_another_place_is_refused(
    scene: Scene, changed: dict[str, object]
) -> None:
    scene.provider.metadata = dict(changed)
    with pytest.raises(ProviderError):
        await fetch_metadata(scene.http, scene.provider.url)
    scene.provider.metadata = {}
    assert (await fetch_metadata(scene.http, scene.provider.url)).issuer == scene.provider.url
