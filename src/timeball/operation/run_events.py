"""Wakes the clients that follow a run when something of that run changes, and no others.

Whatever changes a run on this server reports it here. For changes that other servers make, and those made in bulk, one
loop compares all followed runs at once (`timeball.server.loops.run_watcher`): the cost of a follower that waits is its
connection.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from timeball.domain.errors import TooManyRequests, Unavailable

MAX_FOLLOWERS: Final = 2_000
"""Of one server."""
MAX_FOLLOWERS_PER_KEY: Final = 1_000
RETRY_AFTER: Final = 5.0
"""Seconds after which a client that found no room may ask again."""


class RunEvents:
    def __init__(self) -> None:
        self._followers: dict[str, set[asyncio.Event]] = {}
        self._keys: Counter[str] = Counter()

    @property
    def run_ids(self) -> list[str]:
        """The runs that are followed."""
        return list(self._followers)

    @property
    def count(self) -> int:
        """Of the followers."""
        return self._keys.total()

    def check_room(self, key_id: str) -> None:
        """Refuse a follower too many."""
        if self._keys[key_id] >= MAX_FOLLOWERS_PER_KEY:
            raise TooManyRequests(
                f"this key follows {MAX_FOLLOWERS_PER_KEY:,} logs on this server, which is the most", RETRY_AFTER
            )
        if self.count >= MAX_FOLLOWERS:
            raise Unavailable(f"this server has {MAX_FOLLOWERS:,} followers of logs, which is the most", RETRY_AFTER)

    @contextlib.contextmanager
    def following(self, run_id: str, key_id: str) -> Iterator[asyncio.Event]:
        """An event that is set whenever the run may have changed; the follower clears it before it looks."""
        event = asyncio.Event()
        self._followers.setdefault(run_id, set()).add(event)
        self._keys[key_id] += 1
        try:
            yield event
        finally:
            self._keys[key_id] -= 1
            if not self._keys[key_id]:
                del self._keys[key_id]
            events = self._followers[run_id]
            events.discard(event)
            if not events:
                del self._followers[run_id]

    def changed(self, run_ids: Iterable[str]) -> None:
        """Something of these runs is new: output, a start, progress, an end."""
        if self._followers:
            for run_id in run_ids:
                for event in self._followers.get(run_id, ()):
                    event.set()

    def wake_all(self) -> None:
        """The server stops."""
        self.changed(self.run_ids)
