"""Where workers wait for runs, as who submits jobs sees it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from timeball.ports.store.runs import Claim, Want


class Floor(Protocol):
    def lend(self) -> AbstractAsyncContextManager[Sequence[Want]]:
        """Who waits, or will in a moment. Nobody else claims for them meanwhile."""
        ...

    async def hand_out(self, claims: Sequence[Claim]) -> None:
        """Give them what was claimed for them. Never fails: what does not arrive comes back by itself."""
        ...

    def doubt(self, wants: Sequence[Want]) -> None:
        """Runs may have been claimed for them that nobody will hand out, as the store's answer was lost."""
        ...


class EmptyFloor:
    """Nobody waits here."""

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[Sequence[Want]]:
        yield ()

    async def hand_out(self, claims: Sequence[Claim]) -> None:
        assert not claims

    def doubt(self, wants: Sequence[Want]) -> None:
        assert not wants
