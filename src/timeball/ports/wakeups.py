"""Wake-ups: hints to be quick. A lost one costs at most a tick, never a fire."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol


class Topic(StrEnum):
    PLAN = "plan"
    """A job was created or changed: the planner may have something to do sooner than it thought."""
    READY = "ready"
    """A run may be claimed sooner than the dispatcher thought."""
    PAUSE = "pause"
    """A pause that ends by itself was set."""
    GATE = "gate"
    """A run waits at a gate that time opens: the gatekeeper may have something to do sooner than it thought."""
    BACKFILL = "backfill"
    """A backfill was asked for, or one of its runs ended: another may be made."""
    CANCEL = "cancel"
    """A run that a worker holds is to be cancelled."""
    WORKFLOW = "workflow"
    """A workflow run is due, or was cancelled, or one of its tasks ended."""
    FOLLOW = "follow"
    """A run ended that another job follows."""
    ENDED = "ended"
    """A run ended, or was found to have started."""


class Wakeups(Protocol):
    def wake(self, topic: Topic) -> None:
        """Wake whoever waits for this topic, here and on the other servers. Never blocks."""
        ...

    async def wait(self, topic: Topic, at_most: int) -> None:
        """Until the topic's next hint, at most this many microseconds."""
        ...
