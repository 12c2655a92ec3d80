"""Events of the stream."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from timeball.client.models.model import Model

RESET: Final = "reset"
"""The type of the event that says that other events were lost."""


class StreamEvent(Model, frozen=True):
    """A change of a run, a job or a worker, or a summary of changes."""

    id: str
    type: str
    """The type of the change, such as `timeball.run.succeeded`. `reset`: events were lost, so the client has to read
    the data that it keeps again."""
    subject: str | None = None
    """`runs/ID`, `jobs/ID` or `workers/ID`."""
    time: datetime | None = None
    data: dict[str, Any] = {}

    @property
    def is_reset(self) -> bool:
        return self.type == RESET
