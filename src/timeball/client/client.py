"""The synchronous client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self, TypeVar

from timeball.client import exchange
from timeball.client.exchange import Destination, Sending
from timeball.client.http_sync import HttpTransport, Incoming, Interrupted, Transport, Unreachable
from timeball.client.methods.backfills import BackfillMethods
from timeball.client.methods.dead_letters import DeadLetterMethods
from timeball.client.methods.jobs import JobMethods
from timeball.client.methods.output import OutputMethods
from timeball.client.methods.registry import RegistryMethods
from timeball.client.methods.runs import RunMethods
from timeball.client.methods.schedules import ScheduleMethods
from timeball.client.methods.workers import WorkerMethods
from timeball.client.methods.workflows import WorkflowMethods
from timeball.client.requests.request import Page, Request

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
    WorkerMethods,
):
    """Talks to one or several Timeball servers. May be shared by threads.

        with timeball.Client() as client:
            job = client.create_job("report", shell="python3 report.py", cron="0 2 * * *", timezone="Europe/Berlin")
            print(job.next_fire_at)

    Without arguments it goes where `TIMEBALL_URL` and `TIMEBALL_TOKEN_FILE` (or `timeball.toml`) point, else to the
    Timeball on this machine. A lost connection or a 503 is tried again, `retries` times, wherever that cannot do
    anything twice. Whatever the server refuses is raised as an error of `timeball.TimeballError`'s tree.
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
        """`url` may name several servers, with commas; `token_file` a file with the key, instead of `token`; `ca` a PEM
        file of authorities to trust instead of the system's; `timeout` is in seconds, per request."""
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
        self._transport.close()

    # --- sending --------------------------------------------------------------------------------------------------

    def send(self, request: Request[T]) -> bytes:
        """The body of the answer to a request, as it came. Raises what the server refuses."""
        sending = Sending(request, self._destination, self._retries)
        while True:
            try:
                incoming = self._transport.send(sending.server, sending.outgoing, self._timeout)
            except (Unreachable, Interrupted) as error:
                pause = sending.failed(error)
            else:
                wanted = sending.answered(incoming)
                if wanted is None:
                    return exchange.body_of(incoming)
                pause = wanted
            time.sleep(pause)

    def ask(self, request: Request[T]) -> T:
        return exchange.read(request, self.send(request))

    def _stream(self, request: Request[T]) -> Iterator[bytes]:
        """The body of the answer as it arrives; a part without anything in it says that there will be one."""
        server = self._destination.server
        try:
            for part in self._transport.stream(server, self._destination.outgoing(request), self._timeout):
                yield exchange.body_of(part) if isinstance(part, Incoming) else part
        except (Unreachable, Interrupted) as error:
            raise self._destination.failed(request, server, error) from None

    def _pages(self, page: Callable[[str | None], Request[Page[T]]]) -> Iterator[T]:
        answer = self.ask(page(None))
        yield from answer.items
        while answer.next_cursor is not None:
            answer = self.ask(page(answer.next_cursor))
            yield from answer.items
