"""The asynchronous client: the same methods as `Client`, as coroutines and asynchronous iterators."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from types import TracebackType
from typing import Self, TypeVar

from timeball.client import exchange
from timeball.client.exchange import Destination, Sending
from timeball.client.http_async import AiohttpTransport, AsyncTransport
from timeball.client.http_sync import AnswerInterrupted, Incoming, Unreachable
from timeball.client.methods.audit_log import AsyncAuditLogMethods
from timeball.client.methods.backfills import AsyncBackfillMethods
from timeball.client.methods.dead_letters import AsyncDeadLetterMethods
from timeball.client.methods.events import AsyncEventMethods
from timeball.client.methods.jobs import AsyncJobMethods
from timeball.client.methods.output import AsyncOutputMethods
from timeball.client.methods.overview import AsyncOverviewMethods
from timeball.client.methods.registry import AsyncRegistryMethods
from timeball.client.methods.runs import AsyncRunMethods
from timeball.client.methods.schedules import AsyncScheduleMethods
from timeball.client.methods.sign_in import AsyncSignInMethods
from timeball.client.methods.tenants import AsyncTenantMethods
from timeball.client.methods.workers import AsyncWorkerMethods
from timeball.client.methods.workflows import AsyncWorkflowMethods
from timeball.client.requests.request import ApiRequest, ListPart

T = TypeVar("T")


class AsyncClient(
    AsyncJobMethods,
    AsyncBackfillMethods,
    AsyncWorkflowMethods,
    AsyncRunMethods,
    AsyncOutputMethods,
    AsyncDeadLetterMethods,
    AsyncScheduleMethods,
    AsyncRegistryMethods,
    AsyncTenantMethods,
    AsyncAuditLogMethods,
    AsyncSignInMethods,
    AsyncWorkerMethods,
    AsyncEventMethods,
    AsyncOverviewMethods,
):
    """The client for asyncio, with the methods, answers and errors of `Client`. Tasks may share a client.

        async with timeball.AsyncClient() as client:
            job = await client.create_job("report", shell="python3 report.py", cron="0 2 * * *")
            async for run in client.runs(job_id=job.job_id):
                print(run.status)

    Without arguments the client uses the server and the key of `TIMEBALL_URL` and `TIMEBALL_TOKEN_FILE` (or of
    `timeball.toml`), and otherwise the server on this machine. After a lost connection or a 503 it sends a request
    again, up to `retries` times, if that cannot take effect twice. Every refusal of the server is raised as a
    `timeball.TimeballError` or a subclass of it.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        token_file: str | None = None,
        ca: str | None = None,
        timeout: float = 30.0,
        retries: int = exchange.RETRIES,
        transport: AsyncTransport | None = None,
    ) -> None:
        """`url` is the address of a server, or several addresses separated by commas. `token` is an API key or a token
        of the identity provider, and `token_file` a file that contains it. `ca` is a PEM file with the certificate
        authorities to trust instead of the system's. `timeout` is in seconds, for connecting and for each wait."""
        self._destination = Destination(url, token, token_file, ca)
        self._timeout = timeout
        self._retries = retries
        self._transport: AsyncTransport = AiohttpTransport(self._destination.ca) if transport is None else transport

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections of the client."""
        await self._transport.close()

    # --- sending --------------------------------------------------------------------------------------------------

    async def send(self, request: ApiRequest[T]) -> bytes:
        """Send a request and return the body of the answer. Raise the error if the server refuses the request."""
        sending = Sending(request, self._destination, self._retries)
        while True:
            try:
                incoming = await self._transport.send(sending.server, sending.outgoing, self._timeout)
            except (Unreachable, AnswerInterrupted) as error:
                pause = sending.failed(error)
            else:
                wanted = sending.answered(incoming)
                if wanted is None:
                    return exchange.body_of(incoming)
                pause = wanted
            await asyncio.sleep(pause)

    async def ask(self, request: ApiRequest[T]) -> T:
        """Send a request and return its decoded answer."""
        return exchange.read(request, await self.send(request))

    async def _stream(self, request: ApiRequest[T]) -> AsyncGenerator[bytes, None]:
        """Yield the body of the answer as it arrives. The first part is empty: it says that the server has answered."""
        server = self._destination.server
        outgoing = self._destination.outgoing(request)
        try:
            async with aclosing(self._transport.stream(server, outgoing, self._timeout)) as parts:
                async for part in parts:
                    yield exchange.body_of(part) if isinstance(part, Incoming) else part
        except (Unreachable, AnswerInterrupted) as error:
            raise self._destination.failed(request, server, error) from None

    async def _pages(self, page: Callable[[str | None], ApiRequest[ListPart[T]]]) -> AsyncIterator[T]:
        answer = await self.ask(page(None))
        while True:
            for item in answer.items:
                yield item
            if answer.next_cursor is None:
                return
            answer = await self.ask(page(answer.next_cursor))

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
