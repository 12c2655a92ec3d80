"""The messages between a worker and its Python child process."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from timeball.domain.instant import Micros
from timeball.domain.run.lifecycle import Failed, Succeeded


class Order(Struct, frozen=True, kw_only=True):
    """What to call, and for which attempt. Sent on the child's standard input."""

    module: str
    function: str
    job_id: str
    run_id: str
    attempt: int
    token: int
    fire_time: Micros
    parameters: dict[str, Any]


class ChildMessage(Struct, frozen=True, omit_defaults=True):
    """A message of the child: one line of JSON on its descriptor 3."""

    progress: tuple[float, str] | None = None
    log: str | None = None
    outcome: Succeeded | Failed | None = None
