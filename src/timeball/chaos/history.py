"""The input of the checker: the promises to clients, the attempts that jobs recorded themselves, the runs that Timeball
recorded, and the faults. Times are microseconds since the epoch.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from timeball.domain.instant import Micros

Kind = Literal["kill", "pause", "cut", "hang", "delay", "restart", "command"]
KINDS: Final[tuple[Kind, ...]] = ("kill", "pause", "cut", "hang", "delay", "restart")
Part = Literal["server", "worker", "client", "database", "fleet"]


class Promise(Struct, frozen=True):
    """A job that was acknowledged, and its fires."""

    job_id: str
    fires: tuple[Micros, ...] | None
    """The times of its fires; None: exactly one fire, due when the job is accepted, so the client knows no time."""
    accepted_at: Micros = 0
    """When a server accepted the job; 0: not known. No run of the job could start before."""


class Sighting(Struct, frozen=True, kw_only=True):
    """An attempt as the job itself recorded it."""

    job_id: str
    run_id: str
    fire_time: Micros
    attempt: int
    token: int
    worker: str
    started_at: Micros
    ended_at: Micros | None = None


class Row(Struct, frozen=True, kw_only=True):
    """A run as Timeball recorded it."""

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
    """The workers of its attempts, in order; empty if the job recorded its first attempt, or no attempt."""
    effective: int | None = None
    """The token of the attempt whose result was stored; None if the job recorded fewer than two attempts, or if the run
    did not succeed."""


class Fault(Struct, frozen=True, kw_only=True):
    """A fault that was caused on purpose, from `began` to `ended`."""

    kind: Kind
    part: Part
    target: str
    """The process, such as `worker-2`. A fault of connections affects the connections of that process."""
    began: Micros
    ended: Micros

    @property
    def name(self) -> str:
        return f"{self.kind} {self.part}"


class History(Struct, frozen=True, kw_only=True):
    promises: list[Promise]
    rows: list[Row]
    sightings: list[Sighting] | None
    """None: the jobs could not record their attempts; only the ledger is judged."""
    faults: list[Fault]
    same_clock: bool = True
    """True if the workers have the same clock as the store. Only then can the times of both be compared."""
    unbalanced: list[str] = []
    """The ids of jobs whose ledger does not add up to the fires that were due."""
