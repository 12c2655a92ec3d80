"""The messages between a worker and its Python child processes. Each is a line of JSON."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from timeball.domain.instant import Micros
from timeball.domain.run.lifecycle import Failed, Succeeded


class Order(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What to call, and for which attempt. A child of one run reads it from its standard input, a warm child from its
    descriptor 3.
    """

    module: str
    function: str
    job_id: str
    run_id: str
    attempt: int
    token: int
    fire_time: Micros
    parameters: dict[str, Any]
    environment: dict[str, str] = {}
    """For a warm child: the environment variables of the run."""
    deadline: Micros | None = None
    """For a warm child: do not call the function from this instant of the monotonic clock on, which all processes of a
    machine share. It is the deadline of the guard."""


class ChildMessage(Struct, frozen=True, omit_defaults=True):
    """A message of the child on its descriptor 3."""

    progress: tuple[float, str] | None = None
    log: str | None = None
    outcome: Succeeded | Failed | None = None
    left: str = ""
    """The changes of the process that the run of a warm child left behind, beside its outcome. The child ends, and the
    run ends with it."""
    ready: bool = False
    """A warm child waits for its first order."""
    refused: Literal["changed", "late"] | None = None
    """A warm child did not call the function: its source file has changed, or the deadline has passed."""
