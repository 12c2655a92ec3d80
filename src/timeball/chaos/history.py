"""What the checker looks at: what clients were promised, what jobs wrote down themselves, what Timeball recorded, and
what was done to it. Times are microseconds since the epoch."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from timeball.domain.instant import Micros

Kind = Literal["kill", "pause", "cut", "hang", "delay", "restart", "command"]
KINDS: Final[tuple[Kind, ...]] = ("kill", "pause", "cut", "hang", "delay", "restart")
Part = Literal["server", "worker", "client", "database", "fleet"]


class Promise(Struct, frozen=True):
    """A job that was acknowledged, and the instants at which it is due."""

    job_id: str
    fires: tuple[Micros, ...] | None
    """None: exactly one, whenever that is. It was due at once."""
    accepted_at: Micros = 0
    """Before this nobody knew of it."""


class Sighting(Struct, frozen=True, kw_only=True):
    """An attempt, as the job itself wrote it down."""

    job_id: str
    run_id: str
    fire_time: Micros
    attempt: int
    token: int
    worker: str
    started_at: Micros
    ended_at: Micros | None = None


class Row(Struct, frozen=True, kw_only=True):
    """A run as Timeball tells it."""

    run_id: str
    job_id: str
    fire_time: Micros
    status: str
    verdict: str = ""
    reason: str = ""
    attempt: int = 0
    token: int | None = None
    late: Micros | None = None
    ended_at: Micros | None = None
    workers: tuple[str, ...] = ()
    """Who had its attempts, in order, where there were several."""
    effective: int | None = None
    """The token of the attempt whose result was kept, where there were several."""


class Fault(Struct, frozen=True, kw_only=True):
    """Something that was broken on purpose, from `began` to `ended`."""

    kind: Kind
    part: Part
    target: str
    """`worker-2`; its connections, if the fault is one of connections."""
    began: Micros
    ended: Micros

    @property
    def name(self) -> str:
        return f"{self.kind} {self.part}"


class History(Struct, frozen=True, kw_only=True):
    promises: list[Promise]
    rows: list[Row]
    sightings: list[Sighting] | None
    """None: the jobs could not write anything down; only the ledger is judged."""
    faults: list[Fault]
    same_clock: bool = True
    """Whether those who wrote something down had the store's clock: only then can their times be compared."""
    unbalanced: list[str] = []
    """Jobs whose ledger does not add up, or not to what was due."""
