"""The synchronous client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self, TypeVar

from timeball.client import exchange
from timeball.client.exchange import Destination, Sending
from timeball.client.http_sync import AnswerInterrupted, HttpTransport, Incoming, Transport, Unreachable
from timeball.client.methods.audit_log import AuditLogMethods
from timeball.client.methods.backfills import BackfillMethods
from timeball.client.methods.dead_letters import DeadLetterMethods
from timeball.client.methods.events import EventMethods
from timeball.client.methods.jobs import JobMethods
from timeball.client.methods.output import OutputMethods
from timeball.client.methods.overview import OverviewMethods
from timeball.client.methods.registry import RegistryMethods
from timeball.client.methods.runs import RunMethods
from timeball.client.methods.schedules import ScheduleMethods
from timeball.client.methods.sign_in import SignInMethods
from timeball.client.methods.tenants import TenantMethods
from timeball.client.methods.workers import WorkerMethods
from timeball.client.methods.workflows import WorkflowMethods
from timeball.client.requests.request import ApiRequest, ListPart

T = TypeVar("T")


class Client(
    JobMethods,
    BackfillMethods,
    WorkflowMethods,
    RunMethods,
    OutputMethods,
    DeadLetterMethods,
    ScheduleMethods,
    RegistryMethods,
    TenantMethods,
    AuditLogMethods,
    SignInMethods,
    WorkerMethods,
    EventMethods,
    OverviewMethods,
):
    """The client for one or several Timeball servers. Threads may share a client.

        with timeball.Client() as client:
            job = client.create_job("report", shell="python3 report.py", cron="0 2 * * *", timezone="Europe/Berlin")
            print(job.next_fire_at)

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
        transport: Transport | None = None,
    ) -> None:
        """`url` is the address of a server, or several addresses separated by commas. `token` is an API key or a token
        of the identity provider, and `token_file` a file that contains it. `ca` is a PEM file with the certificate
        authorities to trust instead of the system's. `timeout` is in seconds, for connecting and for each wait."""
        self._destination = Destination(url, token, token_file, ca)
        self._timeout = timeout
        self._retries = retries
        self._transport = HttpTransport(self._destination.ca) if transport is None else transport

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections of the client."""
        self._transport.close()

    # --- sending --------------------------------------------------------------------------------------------------

    def send(self, request: ApiRequest[T]) -> bytes:
        """Send a request and return the body of the answer. Raise the error if the server refuses the request."""
        sending = Sending(request, self._destination, self._retries)
        while True:
            try:
                incoming = self._transport.send(sending.server, sending.outgoing, self._timeout)
            except (Unreachable, AnswerInterrupted) as error:
                pause = sending.failed(error)
            else:
                wanted = sending.answered(incoming)
                if wanted is None:
                    return exchange.body_of(incoming)
                pause = wanted
            time.sleep(pause)

    def ask(self, request: ApiRequest[T]) -> T:
        """Send a request and return its decoded answer."""
        return exchange.read(request, self.send(request))

    def _stream(self, request: ApiRequest[T]) -> Iterator[bytes]:
        """Yield the body of the answer as it arrives. The first part is empty: it says that the server has answered."""
        server = self._destination.server
        try:
            for part in self._transport.stream(server, self._destination.outgoing(request), self._timeout):
                yield exchange.body_of(part) if isinstance(part, Incoming) else part
        except (Unreachable, AnswerInterrupted) as error:
            raise self._destination.failed(request, server, error) from None

    def _pages(self, page: Callable[[str | None], ApiRequest[ListPart[T]]]) -> Iterator[T]:
        answer = self.ask(page(None))
        yield from answer.items
        while answer.next_cursor is not None:
            answer = self.ask(page(answer.next_cursor))
            yield from answer.items
