"""Methods about dead letters."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Unpack

from timeball.client.methods.asking import Asking, AsyncAsking
from timeball.client.models.dead_letters import DeadGroup, Discarding, Retrial
from timeball.client.models.runs import Run
from timeball.client.requests import dead_letters as requests
from timeball.client.run_selection import DeadLetterChoice, DeadLetterWhere


class DeadLetterMethods(Asking):
    """Methods of `Client` about dead letters."""

    def dead_letters(self, **where: Unpack[DeadLetterWhere]) -> Iterator[Run]:
        """Yield the runs that used up their retries and were not retried or discarded yet, newest first."""
        return self._pages(lambda cursor: requests.dead_letters(where, cursor=cursor))

    def dead_groups(self, **where: Unpack[DeadLetterWhere]) -> list[DeadGroup]:
        """Return the dead letters grouped by error, the most frequent error first."""
        return (self.ask(requests.dead_groups(where))).items

    def retry_dead(
        self,
        run_ids: Sequence[str] = (),
        *,
        edit: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        **where: Unpack[DeadLetterChoice],
    ) -> Retrial:
        """Retry dead letters: the runs of `run_ids`, or all runs that the filters select. An `edit` such as
        `{"parameters": {"region": "eu"}}` changes what the new runs execute; their jobs do not change. A dry run only
        counts."""
        return self.ask(requests.retry_dead(run_ids, where, edit=edit, dry_run=dry_run))

    def discard_dead(
        self, run_ids: Sequence[str] = (), *, dry_run: bool = False, **where: Unpack[DeadLetterChoice]
    ) -> Discarding:
        """Discard dead letters: the runs of `run_ids`, or all runs that the filters select. They stay in the history. A
        dry run only counts."""
        return self.ask(requests.discard_dead(run_ids, where, dry_run=dry_run))


class AsyncDeadLetterMethods(AsyncAsking):
    """Methods of `AsyncClient` about dead letters."""

    def dead_letters(self, **where: Unpack[DeadLetterWhere]) -> AsyncIterator[Run]:
        """Yield the runs that used up their retries and were not retried or discarded yet, newest first."""
        return self._pages(lambda cursor: requests.dead_letters(where, cursor=cursor))

    async def dead_groups(self, **where: Unpack[DeadLetterWhere]) -> list[DeadGroup]:
        """Return the dead letters grouped by error, the most frequent error first."""
        return (await self.ask(requests.dead_groups(where))).items

    async def retry_dead(
        self,
        run_ids: Sequence[str] = (),
        *,
        edit: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        **where: Unpack[DeadLetterChoice],
    ) -> Retrial:
        """Retry dead letters: the runs of `run_ids`, or all runs that the filters select. An `edit` such as
        `{"parameters": {"region": "eu"}}` changes what the new runs execute; their jobs do not change. A dry run only
        counts."""
        return await self.ask(requests.retry_dead(run_ids, where, edit=edit, dry_run=dry_run))

    async def discard_dead(
        self, run_ids: Sequence[str] = (), *, dry_run: bool = False, **where: Unpack[DeadLetterChoice]
    ) -> Discarding:
        """Discard dead letters: the runs of `run_ids`, or all runs that the filters select. They stay in the history. A
        dry run only counts."""
        return await self.ask(requests.discard_dead(run_ids, where, dry_run=dry_run))
