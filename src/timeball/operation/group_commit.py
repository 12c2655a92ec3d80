"""Group commit without a waiting time: items that arrive during a commit are part of the next one.

Under load, each commit takes longer and more items arrive during it, so the batches grow. A request that arrives
while no commit is in progress waits for no other request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from timeball.domain.errors import Unavailable
from timeball.ports.metrics import Histogram

Item = TypeVar("Item")
Result = TypeVar("Result")


class GroupCommit(Generic[Item, Result]):
    """Collects the items of concurrent callers into calls of `commit`, which returns one result per item, in order."""

    def __init__(
        self,
        commit: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        limit: int = 1_000,
        max_waiting: int | None = None,
        sizes: Histogram | None = None,
    ) -> None:
        """`max_waiting`: while so many items wait for a commit, further ones are refused; None: none is refused.
        `sizes`: where the numbers of items that shared a commit are counted."""
        self._commit = commit
        self._most = limit
        self._max_waiting = max_waiting
        self._sizes = sizes
        self._waiting = 0
        """Number of items in the queue."""
        self._queue: list[tuple[Sequence[Item], asyncio.Future[Sequence[Result]]]] = []
        self._committing: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """Cached, because finding it takes a system call."""

    async def __call__(self, items: Sequence[Item]) -> Sequence[Result]:
        """Return the results after the commit that contains these items. Raise `Unavailable`, and commit nothing, if
        too many items wait before them."""
        if not items:
            return []
        if self._max_waiting is not None and self._waiting >= self._max_waiting:
            raise Unavailable("more requests wait for a commit than the server can handle soon; try again")
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        answer: asyncio.Future[Sequence[Result]] = self._loop.create_future()
        self._queue.append((items, answer))
        self._waiting += len(items)
        if self._committing is None or self._committing.done():
            self._committing = self._loop.create_task(self._drain())
        return await answer

    async def _drain(self) -> None:
        while self._queue:
            batch = self._take()
            items = [item for part, _ in batch for item in part]
            try:
                results = await self._commit(items)
            except Exception as error:
                for _, answer in batch:
                    if not answer.done():
                        answer.set_exception(error)
                continue
            if self._sizes is not None:
                self._sizes.observe(len(items))
            position = 0
            for part, answer in batch:
                if not answer.done():
                    answer.set_result(results[position : position + len(part)])
                position += len(part)

    def _take(self) -> list[tuple[Sequence[Item], asyncio.Future[Sequence[Result]]]]:
        count = size = 0
        while count < len(self._queue) and (count == 0 or size + len(self._queue[count][0]) <= self._most):
            size += len(self._queue[count][0])
            count += 1
        batch, self._queue = self._queue[:count], self._queue[count:]
        self._waiting -= size
        return batch
