"""The identity provider of an installation: verifies its tokens, and signs users in with a browser."""

from __future__ import annotations

from typing import Final, Protocol

from msgspec import Struct

from timeball.domain.identity.token_claims import TokenIdentity
from timeball.domain.instant import Micros


class TokenVerifier(Protocol):
    def accepts(self, credential: bytes) -> bool:
        """True if a bearer credential has the form of a token, and is not an API key."""
        ...

    async def verify(self, token: bytes) -> TokenIdentity:
        """Return the user of a bearer token. Raises `Unauthorized` if the token is malformed, has expired, or has a
        wrong signature or claim, and `Unavailable` if the keys of the provider are not known and cannot be read now.
        No error contains the token."""
        ...


class SignInAttempt(Struct, frozen=True):
    """One sign-in that a browser has begun. The values follow from the secret that the browser keeps in a cookie until
    it comes back."""

    state: str
    """Returned by the provider with the code. It proves that this browser began the sign-in."""
    nonce: str
    """Returned by the provider in the ID token, which thereby belongs to this sign-in."""
    verifier: str
    """The secret of PKCE: proves to the provider that this server began the sign-in."""


class SignInProvider(Protocol):
    """OpenID Connect with the authorization code flow and PKCE."""

    @property
    def name(self) -> str:
        """The name of the provider on the sign-in page."""
        ...

    @property
    def issuer(self) -> str: ...

    @property
    def session_lifetime(self) -> Micros:
        """How long a browser stays signed in at most."""
        ...

    async def begin(self, attempt: SignInAttempt, redirect_uri: str) -> str:
        """Return the URL of the provider's page that the browser is sent to. Raises `Unavailable` if the provider does
        not answer."""
        ...

    async def identify(self, code: str, attempt: SignInAttempt, redirect_uri: str) -> TokenIdentity:
        """Exchange the code that the browser brought back, and return the user. Raises `Unauthorized` if the provider
        refuses the code or its ID token is wrong, and `Unavailable` if the provider does not answer, or too many codes
        are exchanged at the same time."""
        ...

    async def end(self, return_uri: str) -> str | None:
        """Return the URL of the provider's page that ends its own session; None if the provider has none. Raises
        `Unavailable` if that is not known, because the provider does not answer."""
        ...


class IdentityProvider(Struct, frozen=True):
    """What a server uses its identity provider for."""

    tokens: TokenVerifier | None = None
    """None: bearer tokens are not accepted."""
    sign_in: SignInProvider | None = None
    """None: browsers cannot sign in with the provider."""


NO_PROVIDER: Final = IdentityProvider()
