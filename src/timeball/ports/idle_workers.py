"""Where workers wait for runs, as who submits jobs sees it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from timeball.ports.store.runs import Claim, SlotRequest


class IdleWorkers(Protocol):
    def reserve(self) -> AbstractAsyncContextManager[Sequence[SlotRequest]]:
        """Who waits, or will in a moment. Nobody else claims for them meanwhile."""
        ...

    async def deliver(self, claims: Sequence[Claim]) -> None:
        """Give them what was claimed for them. Never fails: what does not arrive comes back by itself."""
        ...

    def mark_uncertain(self, wants: Sequence[SlotRequest]) -> None:
        """Runs may have been claimed for them that nobody will hand out, as the store's answer was lost."""
        ...


class NoIdleWorkers:
    """Nobody waits here."""

    @asynccontextmanager
    async def reserve(self) -> AsyncIterator[Sequence[SlotRequest]]:
        yield ()

    async def deliver(self, claims: Sequence[Claim]) -> None:
        assert not claims

    def mark_uncertain(self, wants: Sequence[SlotRequest]) -> None:
        assert not wants
