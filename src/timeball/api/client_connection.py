"""The connection of a request, as the routes see it."""

from __future__ import annotations

from typing import Protocol


class ClientConnection(Protocol):
    """The connection of a request."""

    def admit(self) -> None:
        """Mark the connection as trusted, because a request on it had a valid API key: stricter limits for unknown
        clients no longer apply."""
        ...

    def is_last_answer(self) -> bool:
        """Count an answer. Return True if the connection closes after it."""
        ...

    def drop(self) -> None:
        """Abort the connection at once."""
        ...

    def write(self, data: bytes, limit: int) -> bool:
        """Write bytes of an answer in progress past the application server. Return False, and write nothing, if more
        than `limit` bytes wait for the client, or if the connection is closing."""
        ...

    async def wait_for_turn(self) -> None:
        """Wait until the server may answer this connection. A connection that had a valid API key does not wait; of all
        others, one gets its answer per turn of the event loop."""
        ...
