"""Copies the large values of a store that moves to another database. The objects keep their keys, because the rows
refer to them."""

from __future__ import annotations

from typing import Final

from timeball.domain.errors import Conflict
from timeball.domain.job import large_values
from timeball.ports.object_store import Objects
from timeball.ports.store_transfer import Report, TransferProgress

AT_ONCE: Final = 8


class CopyObjects:
    """Implements `timeball.ports.store_transfer.ObjectCopier`. With `target` None, the objects stay where they are."""

    def __init__(self, source: Objects, target: Objects | None, refusal: str = "") -> None:
        """`refusal` is the error message if the objects cannot stay; empty if they can."""
        self._source = source
        self._target = target
        self._refusal = refusal

    async def check(self, number: int) -> None:
        if not self._refusal:
            return
        for kind in large_values.KINDS:
            if await self._source.folders(large_values.prefix(kind, number)):
                raise Conflict(self._refusal)

    async def copy(self, number: int, report: Report) -> None:
        await self.check(number)
        if self._target is None:
            return
        keys = [
            key for kind in large_values.KINDS for key in await self._source.list(large_values.prefix(kind, number))
        ]
        for at in range(0, len(keys), AT_ONCE):
            report(TransferProgress("large values", at, len(keys)))
            some = keys[at : at + AT_ONCE]
            found = zip(some, await self._source.get(some), strict=True)
            await self._target.put({key: content for key, content in found if content is not None})
        if keys:
            report(TransferProgress("large values", len(keys), len(keys)))
