"""Methods about events."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing

from timeball.client.methods.asking import Asking, AsyncAsking
from timeball.client.models.events import StreamEvent
from timeball.client.requests import events as requests
from timeball.domain.errors import Unavailable


class EventMethods(Asking):
    """Methods of `Client` about events."""

    def events(
        self,
        *,
        job_id: str | None = None,
        run_id: str | None = None,
        tag: str | None = None,
        status: str | None = None,
        kind: str | None = None,
        last_event_id: str = "",
    ) -> Iterator[StreamEvent]:
        """Yield the changes of runs, jobs and workers as they happen, without end. `status` may name several statuses,
        separated by commas. The client reconnects after lost connections and restarts of servers. Events are hints: an
        event of the type `reset` says that others were lost. Raise `Unavailable` if no server answers for a minute."""
        from timeball.client.event_tail import EventTail

        tail = EventTail(
            requests.events(
                job_id=job_id, run_id=run_id, tag=tag, status=status, kind=kind, last_event_id=last_event_id
            )
        )
        while True:
            try:
                for data in self._stream(tail.stream()):
                    yield from tail.received(data)
                tail.ended()
            except Unavailable as error:
                tail.broke(error)
            time.sleep(tail.pause)


class AsyncEventMethods(AsyncAsking):
    """Methods of `AsyncClient` about events."""

    async def events(
        self,
        *,
        job_id: str | None = None,
        run_id: str | None = None,
        tag: str | None = None,
        status: str | None = None,
        kind: str | None = None,
        last_event_id: str = "",
    ) -> AsyncGenerator[StreamEvent, None]:
        """Yield the changes of runs, jobs and workers as they happen, without end. `status` may name several statuses,
        separated by commas. The client reconnects after lost connections and restarts of servers. Events are hints: an
        event of the type `reset` says that others were lost. Raise `Unavailable` if no server answers for a minute."""
        from timeball.client.event_tail import EventTail

        tail = EventTail(
            requests.events(
                job_id=job_id, run_id=run_id, tag=tag, status=status, kind=kind, last_event_id=last_event_id
            )
        )
        while True:
            try:
                async with aclosing(self._stream(tail.stream())) as parts:
                    async for data in parts:
                        for event in tail.received(data):
                            yield event
                tail.ended()
            except Unavailable as error:
                tail.broke(error)
            await self._sleep(tail.pause)
