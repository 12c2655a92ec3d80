"""Wakeups: hints to a loop that there is work. A lost wakeup delays the work by at most one tick (one second); no fire
is lost.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol


class Topic(StrEnum):
    PLAN = "plan"
    """A job was created or changed: the planner may have to plan it before its next tick."""
    READY = "ready"
    """A run may be claimed now or soon: the dispatcher may have to claim it before its next tick."""
    PAUSE = "pause"
    """A job was paused until an instant: the pause resumer has to resume it then."""
    GATE = "gate"
    """A run waits at a gate that opens at a certain time: the gate opener may have to check it before its next tick."""
    BACKFILL = "backfill"
    """A backfill was created, or one of its runs ended: the backfiller may create another run."""
    CANCEL = "cancel"
    """A run that a worker holds is to be cancelled, or a worker is to drain: the cancel sender has to send the order.
    One topic for both, because servers of earlier versions know no other.
    """
    WORKFLOW = "workflow"
    """A workflow run is due or was cancelled, or one of its tasks ended: the workflow advancer has work."""
    FOLLOW = "follow"
    """A run ended that another job follows: the follow trigger has an upstream event to apply."""
    MAINTENANCE = "maintenance"
    """A tenant is to be deleted: the maintenance loop has work."""
    ENDED = "ended"
    """A run ended, or a server learned that its attempt has started: requests that wait for it check it again."""


class Wakeups(Protocol):
    def wake(self, topic: Topic) -> None:
        """Wake all tasks that wait for a topic, in this process and on the other servers. This never blocks."""
        ...

    async def wait(self, topic: Topic, at_most: int) -> None:
        """Wait until the next wakeup of a topic, for at most `at_most` microseconds."""
        ...
