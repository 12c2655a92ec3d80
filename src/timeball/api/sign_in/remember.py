"""A cache of credentials that were looked up a short time ago."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, TypeVar

from timeball.domain.instant import SECOND

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

REMEMBER: Final = 3 * SECOND
"""How long a credential that was looked up stays in the cache. A revocation on another server, and a change of a user
or a tenant, take effect within this time."""
MAX_REMEMBERED: Final = 10_000


def remember(memory: dict[K, T], key: K, value: T) -> None:
    """Add an entry to a cache of limited size: a client that tries a million keys displaces the oldest entries and does
    not fill the memory.
    """
    memory.pop(key, None)
    if len(memory) >= MAX_REMEMBERED:
        del memory[next(iter(memory))]
    memory[key] = value
