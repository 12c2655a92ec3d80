"""Methods about the output and the results of runs."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

from timeball.client import exchange
from timeball.client.methods.asking import Asking, AsyncAsking
from timeball.client.models.logs import LogChunk, LogLine
from timeball.client.requests import runs as requests
from timeball.domain.errors import NotFound, Unavailable


class OutputMethods(Asking):
    """Methods of `Client` about output and results."""

    def logs(self, run_id: str, *, attempt: int | None = None, search: str | None = None) -> str:
        """Return the output of a run, or of one attempt of it. With `search`, only lines that contain this text, in any
        case."""
        return exchange.text(self.ask(requests.logs(run_id, attempt=attempt, search=search)))

    def follow_logs(self, run_id: str, *, attempt: int | None = None) -> Iterator[LogLine]:
        """Yield the output of a run line by line as it is written, until the run has ended.

        The client reconnects after lost connections and restarts of servers: no line is lost or repeated. Raise
        `Unavailable` if no server answers for a minute.
        """
        from timeball.client.log_tail import Lines

        lines = Lines()
        for chunk in self.follow_output(run_id, attempt=attempt):
            yield from lines.add(chunk)
        yield from lines.remaining()

    def follow_output(self, run_id: str, *, attempt: int | None = None) -> Iterator[LogChunk]:
        """Yield the output of a run like `follow_logs`, but in the chunks in which it is written, without waiting for
        the end of a line."""
        from timeball.client.log_tail import LogTail

        following = LogTail(run_id, attempt)
        while not following.over:
            try:
                following.received(self.ask(following.run))
                if doubt := following.doubt:
                    following.found(self.ask(doubt))
                for data in self._stream(following.stream()):
                    yield from following.received_chunk(data)
                following.ended()
            except (NotFound, Unavailable) as error:
                following.broke(error)
            time.sleep(following.pause)

    def result(self, run_id: str) -> Any:
        """Return the result of a run; None if there is no result, or not yet."""
        return exchange.value(self.ask(requests.result(run_id)))


class AsyncOutputMethods(AsyncAsking):
    """Methods of `AsyncClient` about output and results."""

    async def logs(self, run_id: str, *, attempt: int | None = None, search: str | None = None) -> str:
        """Return the output of a run, or of one attempt of it. With `search`, only lines that contain this text, in any
        case."""
        return exchange.text(await self.ask(requests.logs(run_id, attempt=attempt, search=search)))

    async def follow_logs(self, run_id: str, *, attempt: int | None = None) -> AsyncGenerator[LogLine, None]:
        """Yield the output of a run line by line as it is written, until the run has ended.

        The client reconnects after lost connections and restarts of servers: no line is lost or repeated. Raise
        `Unavailable` if no server answers for a minute.
        """
        from timeball.client.log_tail import Lines

        lines = Lines()
        async with aclosing(self.follow_output(run_id, attempt=attempt)) as chunks:
            async for chunk in chunks:
                for line in lines.add(chunk):
                    yield line
        for line in lines.remaining():
            yield line

    async def follow_output(self, run_id: str, *, attempt: int | None = None) -> AsyncGenerator[LogChunk, None]:
        """Yield the output of a run like `follow_logs`, but in the chunks in which it is written, without waiting for
        the end of a line."""
        from timeball.client.log_tail import LogTail

        following = LogTail(run_id, attempt)
        while not following.over:
            try:
                following.received(await self.ask(following.run))
                if doubt := following.doubt:
                    following.found(await self.ask(doubt))
                async with aclosing(self._stream(following.stream())) as parts:
                    async for data in parts:
                        for chunk in following.received_chunk(data):
                            yield chunk
                following.ended()
            except (NotFound, Unavailable) as error:
                following.broke(error)
            await self._sleep(following.pause)

    async def result(self, run_id: str) -> Any:
        """Return the result of a run; None if there is no result, or not yet."""
        return exchange.value(await self.ask(requests.result(run_id)))
