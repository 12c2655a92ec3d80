"""What a worker and its Python child say to each other."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from timeball.domain.instant import Micros
from timeball.domain.run.lifecycle import Failed, Succeeded


class Order(Struct, frozen=True, kw_only=True):
    """On the child's standard input: what to call, and for which attempt."""

    module: str
    function: str
    job_id: str
    run_id: str
    attempt: int
    token: int
    fire_time: Micros
    parameters: dict[str, Any]


class Word(Struct, frozen=True, omit_defaults=True):
    """A line on the child's descriptor 3."""

    progress: tuple[float, str] | None = None
    log: str | None = None
    outcome: Succeeded | Failed | None = None
