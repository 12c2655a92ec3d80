"""The current rates of faults, and a record of the faults that occurred."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

Micros = int
MS = 1_000
S = 1_000_000


@dataclass(slots=True)
class Weather:
    """The shares of calls that fail, and delays. Calm weather has only delays."""

    message_delay: Micros = 2 * MS
    store_delay: Micros = MS
    slow_message: float = 0.0
    lost_request: float = 0.0
    lost_answer: float = 0.0
    slow_store: float = 0.0
    store_fails_before: float = 0.0
    store_fails_after: float = 0.0
    repeated_request: float = 0.0
    lost_hint: float = 0.0
    slow_hint: float = 0.0

    @staticmethod
    def forecast(rng: Random, severity: float) -> Weather:
        """Return the rates of a seed. Each seed has its own mixture: some faults often, some not at all."""

        def share(limit: float) -> float:
            return severity * limit * rng.random() ** 2 if rng.random() < 0.6 else 0.0

        return Weather(
            message_delay=rng.choice((200, MS, 5 * MS, 40 * MS)),
            store_delay=rng.choice((50, 300, MS, 10 * MS)),
            slow_message=share(0.10),
            lost_request=share(0.15),
            lost_answer=share(0.15),
            slow_store=share(0.05),
            store_fails_before=share(0.10),
            store_fails_after=share(0.10),
            repeated_request=share(0.15),
            lost_hint=share(1.0),
            slow_hint=share(0.5),
        )

    def calm(self) -> Weather:
        return Weather(message_delay=min(self.message_delay, 5 * MS), store_delay=min(self.store_delay, MS))

    @property
    def fair(self) -> bool:
        return not (
            self.slow_message
            or self.lost_request
            or self.lost_answer
            or self.slow_store
            or self.store_fails_before
            or self.store_fails_after
            or self.repeated_request
            or self.lost_hint
            or self.slow_hint
        )


@dataclass(slots=True)
class ClockStep:
    """A step ahead of the wall clock that remained."""

    at: Micros
    """True time before the step."""
    size: Micros
    accepted: Micros | None = None
    """The store's time when the store accepted the step, without the step; None until then."""


@dataclass(slots=True)
class Damage:
    """The faults by kind, and when each began and ended."""

    counts: Counter[str] = field(default_factory=Counter)
    spells: list[tuple[Micros, Micros]] = field(default_factory=list)
    steps: list[ClockStep] = field(default_factory=list)

    def count(self, kind: str) -> None:
        self.counts[kind] += 1

    def spell(self, kind: str, since: Micros, until: Micros) -> None:
        self.counts[kind] += 1
        self.spells.append((since, until))
