"""Reading the stream of events over lost connections and servers that restart, without the sending and waiting: shared
by every client."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from timeball.client import exchange
from timeball.client.models.events import RESET, StreamEvent
from timeball.client.requests import events as requests
from timeball.client.requests.request import ApiRequest
from timeball.client.retrying import Retrying
from timeball.domain.errors import Unavailable


class EventTail:
    """Where a listener is. In each turn the client takes the `stream` and passes what it `received`, until that has
    `ended` or is `broken`. The next turn resumes after the last event."""

    def __init__(self, request: ApiRequest[StreamEvent]) -> None:
        self.pause = 0.0
        """Seconds until the next turn."""
        self._request = request
        self._last_id = request.headers.get("Last-Event-ID", "")
        self._incomplete = b""
        self._fields: dict[str, str] = {}
        self._retrying = Retrying()

    def stream(self) -> ApiRequest[StreamEvent]:
        """Continue where the last stream ended."""
        self._incomplete = b""
        self._fields = {}
        if not self._last_id:
            return self._request
        return replace(self._request, headers={**self._request.headers, "Last-Event-ID": self._last_id})

    def received(self, data: bytes) -> Iterator[StreamEvent]:
        """Yield the events that this completes."""
        self._retrying.relax()
        *lines, self._incomplete = (self._incomplete + data).split(b"\n")
        for line in lines:
            if line:
                name, _, value = line.decode("utf-8", "replace").partition(": ")
                self._fields[name] = value
                continue
            fields, self._fields = self._fields, {}
            self._last_id = fields.get("id", self._last_id)
            if fields.get("event") == RESET:
                yield StreamEvent(id=self._last_id, type=RESET)
            elif "data" in fields:
                yield exchange.read(requests.events(), fields["data"].encode())

    def ended(self) -> None:
        """The server stops, or has dropped this listener because it was too slow."""
        self.pause = exchange.FIRST_PAUSE

    def broke(self, error: Unavailable) -> None:
        """Raises the error, if there was never a connection or if this lasts too long."""
        self.pause = self._retrying.pause(error)
