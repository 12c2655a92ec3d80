"""The egress of each tenant, made when its first attempt with these address lists starts. Changed lists give another
egress, so that no connection is used again that the old lists permitted."""

from __future__ import annotations

import logging
from typing import Final

from timeball.domain.network.address_lists import AddressLists
from timeball.domain.network.address_policy import policy_of
from timeball.domain.tenant import DEFAULT_TENANT
from timeball.executors.http.dialing import DEFAULT_EGRESS, AddressRefused, Egress
from timeball.ports.executor import ExecutorAttempt

MAX_KNOWN: Final = 1_000
"""Maximum number of tenants whose egress is kept. Connections of a forgotten one are not used again."""
MAX_LOGGED: Final = 1_000
"""Maximum number of refused hosts that are remembered, so that each is logged once."""

log = logging.getLogger("timeball.http")


class Egresses:
    def __init__(self) -> None:
        self._known: dict[tuple[str, AddressLists], Egress] = {}
        self._logged: set[tuple[str, str, str]] = set()

    def of(self, attempt: ExecutorAttempt) -> Egress:
        tenant, lists = attempt.tenant, attempt.addresses
        is_default = tenant == DEFAULT_TENANT
        if is_default and not lists.allow and not lists.deny:
            return DEFAULT_EGRESS
        known = self._known.get((tenant, lists))
        if known is None:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            known = self._known[tenant, lists] = Egress(tenant, policy_of(lists, is_default=is_default))
        return known

    def log(self, refused: AddressRefused) -> None:
        """Log the address of a refused host, which the tenant may not see."""
        tenant = refused.egress.tenant
        place = (tenant, refused.host, refused.address)
        if place not in self._logged:
            if len(self._logged) >= MAX_LOGGED:
                self._logged.clear()
            self._logged.add(place)
            log.warning("refused an HTTP job of the tenant %s: %s", tenant, refused)
