"""Object storage: objects under keys, in a folder or a bucket. It holds the archive and large values, which the store
itself does not keep.

An object is never changed in place. The caller that writes an object chooses a key that follows from its content. So a
second write of the same object does no harm, even if two servers write it at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class Objects(Protocol):
    """Object storage. Every call may raise `Unavailable`. The call may then have taken effect in part, and may be
    repeated unchanged."""

    async def put(self, objects: Mapping[str, bytes]) -> None:
        """Write objects by their keys, whose parts are separated by `/`. An object with the same key is replaced. Each
        object is stored completely or not at all. All of them are durable when this returns.
        """
        ...

    async def get(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the objects in the order of the keys; None for a key without an object."""
        ...

    async def folders(self, prefix: str) -> list[str]:
        """Return the folders directly below a prefix, sorted. The prefix ends with `/`; each folder is returned with
        the prefix and with a `/` at its end. Keys without a further `/` below the prefix are no folders.
        """
        ...

    async def list(self, prefix: str) -> list[str]:
        """Return all keys below a prefix, which ends with `/`, sorted."""
        ...

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete objects. A key without an object is ignored."""
        ...
