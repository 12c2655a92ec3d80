"""Methods about dead letters."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Unpack

from timeball.client.methods.asking import Asking, AsyncAsking
from timeball.client.models.dead_letters import DeadGroup, Discarding, Retrial
from timeball.client.models.runs import Run
from timeball.client.requests import dead_letters as requests
from timeball.client.run_selection import Letters, LettersWhere


class DeadLetterMethods(Asking):
    """Of `Client`."""

    def dead_letters(self, **where: Unpack[LettersWhere]) -> Iterator[Run]:
        """Runs whose retries are exhausted and that nobody has retried or discarded yet, newest first."""
        return self._pages(lambda cursor: requests.dead_letters(where, cursor=cursor))

    def dead_groups(self, **where: Unpack[LettersWhere]) -> list[DeadGroup]:
        """Dead letters by error, the most frequent first."""
        return (self.ask(requests.dead_groups(where))).items

    def retry_dead(
        self,
        run_ids: Sequence[str] = (),
        *,
        edit: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        **where: Unpack[Letters],
    ) -> Retrial:
        """Run dead letters again: these runs, or all that are meant, however many. An `edit` such as
        `{"parameters": {"region": "eu"}}` changes what the new runs execute, and leaves their jobs as they are."""
        return self.ask(requests.retry_dead(run_ids, where, edit=edit, dry_run=dry_run))

    def discard_dead(
        self, run_ids: Sequence[str] = (), *, dry_run: bool = False, **where: Unpack[Letters]
    ) -> Discarding:
        """Take runs off the dead letters: these, or all that are meant. They stay in the history."""
        return self.ask(requests.discard_dead(run_ids, where, dry_run=dry_run))


class AsyncDeadLetterMethods(AsyncAsking):
    """Of `AsyncClient`."""

    def dead_letters(self, **where: Unpack[LettersWhere]) -> AsyncIterator[Run]:
        """Runs whose retries are exhausted and that nobody has retried or discarded yet, newest first."""
        return self._pages(lambda cursor: requests.dead_letters(where, cursor=cursor))

    async def dead_groups(self, **where: Unpack[LettersWhere]) -> list[DeadGroup]:
        """Dead letters by error, the most frequent first."""
        return (await self.ask(requests.dead_groups(where))).items

    async def retry_dead(
        self,
        run_ids: Sequence[str] = (),
        *,
        edit: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        **where: Unpack[Letters],
    ) -> Retrial:
        """Run dead letters again: these runs, or all that are meant, however many. An `edit` such as
        `{"parameters": {"region": "eu"}}` changes what the new runs execute, and leaves their jobs as they are."""
        return await self.ask(requests.retry_dead(run_ids, where, edit=edit, dry_run=dry_run))

    async def discard_dead(
        self, run_ids: Sequence[str] = (), *, dry_run: bool = False, **where: Unpack[Letters]
    ) -> Discarding:
        """Take runs off the dead letters: these, or all that are meant. They stay in the history."""
        return await self.ask(requests.discard_dead(run_ids, where, dry_run=dry_run))
