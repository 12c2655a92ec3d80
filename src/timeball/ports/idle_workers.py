"""Idle workers: a submit assigns its runs to workers that have a pending poll, or will have one within a moment, in the
transaction that inserts the jobs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from timeball.ports.store.runs import Claim, SlotRequest


class IdleWorkers(Protocol):
    def reserve(self) -> AbstractAsyncContextManager[Sequence[SlotRequest]]:
        """Return the free slots of workers that have a pending poll, or will have one in a moment. Until the block
        exits, only the caller claims runs for these workers on this server.
        """
        ...

    async def deliver(self, claims: Sequence[Claim]) -> None:
        """Send runs to the reserved workers that they were claimed for. This never raises: a run that does not reach
        its worker is released, and costs no attempt.
        """
        ...

    def mark_uncertain(self, wants: Sequence[SlotRequest]) -> None:
        """Record that the store's answer to a claim for these workers was lost. The store may have claimed runs that no
        server delivers; the next poll of each worker releases them.
        """
        ...


class NoIdleWorkers:
    """Implements `IdleWorkers` for a process without workers."""

    @asynccontextmanager
    async def reserve(self) -> AsyncIterator[Sequence[SlotRequest]]:
        yield ()

    async def deliver(self, claims: Sequence[Claim]) -> None:
        assert not claims

    def mark_uncertain(self, wants: Sequence[SlotRequest]) -> None:
        assert not wants
