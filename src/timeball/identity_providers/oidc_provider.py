"""Signs users in with OpenID Connect: authorization code flow, with PKCE, state and nonce."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote_plus, urlencode

import msgspec
from msgspec import Struct

from timeball.domain.errors import Unauthorized, Unavailable
from timeball.domain.identity.token_claims import ClaimRules, TokenIdentity, identify
from timeball.domain.instant import Micros
from timeball.identity_providers import compact_token
from timeball.identity_providers.jwt_verifier import verify_signature
from timeball.identity_providers.key_set import VerificationKeys
from timeball.identity_providers.metadata import ProviderMetadata
from timeball.identity_providers.provider_http import ProviderError, ProviderHttp
from timeball.identity_providers.refreshed_value import RefreshedValue
from timeball.ports.identity_provider import SignInAttempt

MAX_EXCHANGES: Final = 20
"""Maximum number of codes that are exchanged at the same time. Any client can send codes, and each one is a request to
the provider."""


@dataclass(frozen=True, slots=True)
class OidcClient:
    """This server, as it is registered at the provider."""

    id: str
    secret: str | None
    scopes: str
    name: str
    """The name of the provider on the sign-in page."""
    session_lifetime: Micros
    """How long a browser stays signed in at most."""


class _TokenAnswer(Struct, frozen=True):
    id_token: str


class _TokenRefusal(Struct, frozen=True):
    error: str


class OidcProvider:
    """Implements `ports.identity_provider.SignInProvider`. The audience of `rules` is the id of the client."""

    def __init__(
        self,
        client: OidcClient,
        rules: ClaimRules,
        metadata: RefreshedValue[ProviderMetadata],
        keys: VerificationKeys,
        http: ProviderHttp,
        now: Callable[[], Micros],
    ) -> None:
        self._client = client
        self._rules = rules
        self._metadata = metadata
        self._keys = keys
        self._http = http
        self._now = now
        self._exchanges = 0

    @property
    def name(self) -> str:
        return self._client.name

    @property
    def issuer(self) -> str:
        return self._rules.issuer

    @property
    def session_lifetime(self) -> Micros:
        return self._client.session_lifetime

    async def begin(self, attempt: SignInAttempt, redirect_uri: str) -> str:
        challenge = hashlib.sha256(attempt.verifier.encode()).digest()
        return _with_query(
            (await self._metadata.get()).authorization_endpoint,
            {
                "response_type": "code",
                "client_id": self._client.id,
                "redirect_uri": redirect_uri,
                "scope": self._client.scopes,
                "state": attempt.state,
                "nonce": attempt.nonce,
                "code_challenge": base64.urlsafe_b64encode(challenge).rstrip(b"=").decode(),
                "code_challenge_method": "S256",
            },
        )

    async def identify(self, code: str, attempt: SignInAttempt, redirect_uri: str) -> TokenIdentity:
        if self._exchanges >= MAX_EXCHANGES:
            raise Unavailable("too many browsers sign in at the same time: try again in a moment")
        self._exchanges += 1
        try:
            token = compact_token.read((await self._exchange(code, attempt, redirect_uri)).encode())
        finally:
            self._exchanges -= 1
        await verify_signature(token, self._keys)
        return identify(token.claims(), self._rules, self._now(), nonce=attempt.nonce)

    async def end(self, return_uri: str) -> str | None:
        endpoint = (await self._metadata.get()).end_session_endpoint
        if endpoint is None:
            return None
        return _with_query(endpoint, {"client_id": self._client.id, "post_logout_redirect_uri": return_uri})

    async def _exchange(self, code: str, attempt: SignInAttempt, redirect_uri: str) -> str:
        """Exchange the code that the provider gave to the browser, and return the ID token."""
        metadata = await self._metadata.get()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": attempt.verifier,
        }
        headers = {}
        if self._client.secret is None:
            form["client_id"] = self._client.id
        elif "client_secret_basic" in metadata.token_endpoint_auth_methods_supported:
            credentials = f"{quote_plus(self._client.id)}:{quote_plus(self._client.secret)}"
            headers["Authorization"] = f"Basic {base64.b64encode(credentials.encode()).decode()}"
        else:
            form |= {"client_id": self._client.id, "client_secret": self._client.secret}
        try:
            status, body = await self._http.post_form(metadata.token_endpoint, form, headers)
            if status == 200:
                return msgspec.json.decode(body, type=_TokenAnswer).id_token
            refusal = msgspec.json.decode(body, type=_TokenRefusal).error
        except ProviderError as error:
            raise Unavailable(f"the identity provider does not answer: {error}") from None
        except msgspec.DecodeError:
            raise Unavailable("the identity provider gave no ID token, and no reason") from None
        raise Unauthorized(f"the identity provider refused the sign-in: {refusal[:100]}")


def _with_query(url: str, parameters: Mapping[str, str]) -> str:
    return f"{url}{'&' if '?' in url else '?'}{urlencode(parameters)}"
