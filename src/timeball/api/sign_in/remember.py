"""A cache of credentials that were looked up a short time ago."""

from __future__ import annotations

from typing import Final, TypeVar

from timeball.domain.instant import SECOND

T = TypeVar("T")

REMEMBER: Final = 3 * SECOND
"""How long a credential that was looked up stays in the cache. A revocation on another server takes effect within
this time.
"""
MAX_REMEMBERED: Final = 10_000


def remember(memory: dict[bytes, T], digest: bytes, value: T) -> None:
    """Add an entry to a cache of limited size: a client that tries a million keys displaces the oldest entries and does
    not fill the memory.
    """
    memory.pop(digest, None)
    if len(memory) >= MAX_REMEMBERED:
        del memory[next(iter(memory))]
    memory[digest] = value
