"""Object storage: what has left the store, kept under names, in a folder or a bucket.

Nothing here is ever changed in place. Whoever writes gives an object a name that follows from what is in it, so that
writing it again, or two writing it at once, does no harm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class Objects(Protocol):
    """Every call may raise `Unavailable`, and may then have taken effect in part; it may be repeated as it is."""

    async def put(self, objects: Mapping[str, bytes]) -> None:
        """Write objects by their keys, `/` between the parts. Each is there completely or not at all, and all of them
        are there for good when this returns. What has the same key is replaced."""
        ...

    async def get(self, keys: Sequence[str]) -> list[bytes | None]:
        """The objects, in the order of the keys. None: there is none."""
        ...

    async def folders(self, prefix: str) -> list[str]:
        """The next parts of the keys below a prefix, which ends with `/`, if more follow: each with the prefix and a
        `/` behind it, in order."""
        ...

    async def list(self, prefix: str) -> list[str]:
        """The keys below a prefix, which ends with `/`, in order."""
        ...

    async def delete(self, keys: Sequence[str]) -> None:
        """What is not there is left alone."""
        ...
