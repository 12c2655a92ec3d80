"""Where workers wait for runs, as who submits jobs sees it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from timeball.ports.store import Claim, Want


class Floor(Protocol):
    def lend(self) -> AbstractContextManager[Sequence[Want]]:
        """Who waits although nothing is ready. Nobody else claims for them meanwhile."""
        ...

    async def hand_out(self, claims: Sequence[Claim]) -> None:
        """Give them what was claimed for them. Never fails: what does not arrive comes back by itself."""
        ...


class EmptyFloor:
    """Nobody waits here."""

    @contextmanager
    def lend(self) -> Iterator[Sequence[Want]]:
        yield ()

    async def hand_out(self, claims: Sequence[Claim]) -> None:
        assert not claims
