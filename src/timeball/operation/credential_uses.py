"""The uses of credentials that a server has seen and not stored yet. A loop stores them together, so that no request
writes because of them."""

from __future__ import annotations

from timeball.domain.instant import Micros
from timeball.ports.store.tenants import CredentialUse

MAX_NOTED_USES = 10_000
"""Maximum number of credentials whose use is noted between two writes. Uses of further ones are not noted."""


class CredentialUses:
    def __init__(self) -> None:
        self._noted: dict[tuple[str | None, str, str | None], Micros] = {}

    def note(self, key_id: str | None, tenant: str, user_id: str | None, at: Micros) -> None:
        """Note that a credential was used at an instant of the store's time."""
        used = (key_id, tenant, user_id)
        if used in self._noted or len(self._noted) < MAX_NOTED_USES:
            self._noted[used] = at

    def take(self) -> list[CredentialUse]:
        """Return the noted uses, and forget them."""
        noted, self._noted = self._noted, {}
        return [CredentialUse(*used, at) for used, at in noted.items()]

    def put_back(self, uses: list[CredentialUse]) -> None:
        """Note uses again that could not be stored, unless a later one of the same credential was noted since."""
        for use in uses:
            if (use.key_id, use.tenant, use.user_id) not in self._noted:
                self.note(use.key_id, use.tenant, use.user_id, use.at)
