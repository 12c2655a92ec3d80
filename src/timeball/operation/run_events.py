"""Wakes the followers of a run when that run changes, and no others. A follower is a request that waits for the output
of the run.

Operations of this server report changes of single runs here. Changes by other servers, and bulk changes, are found by a
loop that compares all followed runs at once (`timeball.server.loops.run_watcher`). A waiting follower therefore costs
only its connection.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from timeball.domain.errors import TooManyRequests, Unavailable

MAX_FOLLOWERS: Final = 2_000
"""Maximum number of followers on one server."""
MAX_FOLLOWERS_PER_KEY: Final = 1_000
RETRY_AFTER: Final = 5.0
"""Seconds after which a client that was refused may try again."""


class RunEvents:
    def __init__(self) -> None:
        self._followers: dict[str, set[asyncio.Event]] = {}
        self._keys: Counter[str] = Counter()

    @property
    def run_ids(self) -> list[str]:
        """The ids of the followed runs."""
        return list(self._followers)

    @property
    def count(self) -> int:
        """The number of followers."""
        return self._keys.total()

    def check_room(self, key_id: str) -> None:
        """Raise `TooManyRequests` if the key has its maximum of followers on this server, and `Unavailable` if the
        server has its maximum."""
        if self._keys[key_id] >= MAX_FOLLOWERS_PER_KEY:
            raise TooManyRequests(
                f"this key follows {MAX_FOLLOWERS_PER_KEY:,} logs on this server, which is the maximum", RETRY_AFTER
            )
        if self.count >= MAX_FOLLOWERS:
            raise Unavailable(f"this server has {MAX_FOLLOWERS:,} followers of logs, which is the maximum", RETRY_AFTER)

    @contextlib.contextmanager
    def following(self, run_id: str, key_id: str) -> Iterator[asyncio.Event]:
        """Yield an event that is set when the run may have changed. The follower clears it before it reads the run."""
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
        """Wake the followers of these runs after new output, a start, progress, or an end."""
        if self._followers:
            for run_id in run_ids:
                for event in self._followers.get(run_id, ()):
                    event.set()

    def wake_all(self) -> None:
        """Wake all followers, because the server stops."""
        self.changed(self.run_ids)
