"""The keys that verify tokens: those of the provider's key set, found by their ids, or one secret."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from timeball.domain.errors import Unauthorized, Unavailable
from timeball.domain.instant import SECOND, Micros
from timeball.identity_providers.provider_http import ProviderError
from timeball.identity_providers.refreshed_value import RefreshedValue
from timeball.identity_providers.verification_key import UnusableKey, VerificationKey, read_key_set, secret_key
from timeball.ports.clock import Clock

MISSING_KEY_TIME: Final[Micros] = 30 * SECOND
"""For this long, an id that the key set did not have costs no further request to the provider."""
MAX_MISSING_KEYS: Final = 1_000


class VerificationKeys(Protocol):
    def current(self, key_id: str | None) -> VerificationKey | None:
        """Return a key without waiting; None if it is not known, or is not valid any more."""
        ...

    async def find(self, key_id: str | None) -> VerificationKey:
        """Return the key with an id. Raise `Unauthorized` if there is none, and `Unavailable` if the provider had to be
        asked and does not answer."""
        ...


class SecretKey:
    """A secret that the provider of tokens and this server share. It verifies tokens with any key id, or with none."""

    def __init__(self, secret: bytes) -> None:
        self._key = secret_key(secret)

    def current(self, key_id: str | None) -> VerificationKey | None:
        return self._key

    async def find(self, key_id: str | None) -> VerificationKey:
        return self._key


class KeySet:
    """The provider's key set. An unknown id may be that of a new key, so the set is then read again: at most once per
    `FETCH_INTERVAL` in total, and once per `MISSING_KEY_TIME` for the same id."""

    def __init__(self, fetch: Callable[[], Awaitable[bytes]], clock: Clock) -> None:
        self._clock = clock
        self._fetch = fetch
        self._keys: RefreshedValue[Mapping[str, VerificationKey]] = RefreshedValue("the key set", self._read, clock)
        self._missing: dict[str, Micros] = {}
        """Ids that the key set does not have, and until when they cost no request."""

    def current(self, key_id: str | None) -> VerificationKey | None:
        return None if key_id is None else (self._keys.current() or {}).get(key_id)

    async def find(self, key_id: str | None) -> VerificationKey:
        if key_id is None:
            raise Unauthorized("the token needs the header 'kid', the id of its key")
        await self._keys.get()
        key = self.current(key_id)
        now = self._clock.monotonic()
        if key is None and now >= self._missing.get(key_id, 0):
            was_read = await self._keys.renew()
            key = self.current(key_id)
            if key is None and self._keys.has_failed:
                raise Unavailable("the key of this token is unknown, and the identity provider does not answer")
            if key is None and was_read:  # otherwise the key may be newer than the last read
                self._remember_missing(key_id, now + MISSING_KEY_TIME)
        if key is None:
            raise Unauthorized("the token is signed with a key that the identity provider does not publish")
        return key

    async def close(self) -> None:
        await self._keys.close()

    async def _read(self) -> Mapping[str, VerificationKey]:
        try:
            return read_key_set(await self._fetch())
        except UnusableKey as error:
            raise ProviderError(f"the key set is malformed: {error}") from None

    def _remember_missing(self, key_id: str, until: Micros) -> None:
        self._missing.pop(key_id, None)
        if len(self._missing) >= MAX_MISSING_KEYS:
            del self._missing[next(iter(self._missing))]
        self._missing[key_id] = until
