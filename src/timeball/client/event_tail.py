"""The state of a client that reads the stream of events across lost connections and restarts of servers. It has no I/O,
so that both clients share it."""

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
    """The position of a client in the stream of events. In each round the client requests `stream`, calls `received`
    with the data, and calls `ended` at the end of the stream or `broke` with an error. The next round continues after
    the last event."""

    def __init__(self, request: ApiRequest[StreamEvent]) -> None:
        self.pause = 0.0
        """Seconds until the next round."""
        self._request = request
        self._last_id = request.headers.get("Last-Event-ID", "")
        self._incomplete = b""
        self._fields: dict[str, str] = {}
        self._retrying = Retrying()

    def stream(self) -> ApiRequest[StreamEvent]:
        """Return the request for the events after the last one that was received."""
        self._incomplete = b""
        self._fields = {}
        if not self._last_id:
            return self._request
        return replace(self._request, headers={**self._request.headers, "Last-Event-ID": self._last_id})

    def received(self, data: bytes) -> Iterator[StreamEvent]:
        """Yield the events that this data completes."""
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
        """End a round after the end of its stream. The server may have stopped, or dropped this client because it was
        too slow."""
        self.pause = exchange.FIRST_PAUSE

    def broke(self, error: Unavailable) -> None:
        """End a round after an error. Raise the error if no server has answered yet, or none for 60 seconds."""
        self.pause = self._retrying.pause(error)
