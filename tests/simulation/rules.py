"""The keys, limits, rates, hosts, deadlines and kinds of workers that the jobs of a world share, and the fields of each
job.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tests.simulation.tenants import Tenants
from tests.simulation.weather import S
from timeball.domain import instant
from timeball.domain.dispatch.limits import Concurrency, RateLimit
from timeball.domain.dispatch.placement import Resources
from timeball.domain.schedule.schedule import Interval, Schedule
from timeball.domain.task.task import Http, Python, Shell, Task

Micros = int
THEMES = ("order", "limits", "fitting", "hosts", "deadlines")
"""The themes that also occur in mixed worlds."""
APART = (
    "backfills",
    "calendars",
    "clocks",
    "drains",
    "follows",
    "forgery",
    "preemption",
    "retention",
    "tenants",
    "workflows",
)
"""Themes with worlds of their own. Other worlds have nothing of these, so the traces of their seeds stay the same."""


@dataclass(frozen=True)
class Offer:
    """The capacity of a worker of the fleet, in all its processes."""

    slots: int
    cpu: float | None = None
    memory_mb: int | None = None
    labels: tuple[str, ...] = ()
    dedicated: bool = False
    tenants: tuple[str, ...] | None = None
    """The tenants that the worker serves; None: all tenants."""

    def serves(self, tenant: str) -> bool:
        return self.tenants is None or tenant in self.tenants


class Rules:
    """Few keys for many jobs, so that the jobs meet."""

    def __init__(self, seed: int, rng: Random, theme: str, begin: Micros, calm_at: Micros, tenants: Tenants) -> None:
        self._seed = seed
        self._rng = rng
        self._theme = theme
        self.orders = [f"o{n}" for n in range(rng.choice((1, 2, 3)))]
        self.limits = {f"c{n}": rng.choice((1, 1, 2, 3)) for n in range(2)}
        self.rates = {
            f"q{n}": RateLimit(
                key=f"q{n}",
                limit=rng.choice((1, 2, 5)),
                per=rng.choice(("1s", "2s")),
                burst=rng.choice((None, 1, 2)),
            )
            for n in range(2)
        }
        self.unwell: dict[str, tuple[Micros, Micros]] = {}
        """By host: when it answers with errors."""
        for n in range(2):
            since = begin + rng.randrange(max(1, calm_at - begin))
            self.unwell[f"h{n}.example"] = (since, since + rng.choice((0, 10, 30, 60)) * S)
        count = rng.choice((2, 2, 3, 4)) if theme == "fitting" else rng.choice((1, 2, 2, 3, 4))
        self.offers = [replace(self._offer(number), tenants=tenants.served_by(number)) for number in range(count)]

    def _offer(self, number: int) -> Offer:
        rng = self._rng
        slots = rng.choice((1, 2, 4, 8))
        if self._theme != "fitting" and rng.random() < 0.7:
            return Offer(slots)
        labels = tuple(label for label in ("gpu", "ssd") if rng.random() < 0.5)
        return Offer(
            slots,
            cpu=rng.choice((None, 1.5, 4.0)),
            memory_mb=rng.choice((None, 512, 2048)),
            labels=labels,
            dedicated=number > 0 and bool(labels) and rng.random() < 0.4,
        )

    def host_is_unwell(self, host: str | None, now: Micros) -> bool:
        since, until = self.unwell.get(host or "", (0, 0))
        return since <= now < until

    def asked(self, tenant: str, past: bool) -> dict[str, Any]:
        """Return fields of a job of a tenant. `past`: the job is due already, so it cannot have a start deadline."""
        rng = self._rng
        fields: dict[str, Any] = {}
        if self._wants("order"):
            fields |= {"ordering_key": rng.choice(self.orders), "on_failure": rng.choice(("block", "continue"))}
        if self._wants("limits"):
            if rng.random() < 0.6:
                key, limit = rng.choice(sorted(self.limits.items()))
                fields["concurrency"] = Concurrency(key=key, limit=limit + (rng.random() < 0.1))
            if rng.random() < 0.6:
                fields["rate_limit"] = self.rates[rng.choice(sorted(self.rates))]
        if self._wants("fitting"):
            fields |= self._needs(rng.choice([offer for offer in self.offers if offer.serves(tenant)]))
        if self._wants("deadlines"):
            if rng.random() < 0.7 and not past:
                fields["start_deadline"] = rng.choice(("500ms", "2s", "10s"))
            if rng.random() < 0.5:
                fields["jitter"] = rng.choice(("300ms", "3s"))
        return fields

    def bounds(self, uid: int, when: Schedule, now: Micros) -> dict[str, Any]:
        """Return when a repeating schedule begins and ends. It fires at least once, however late it is accepted."""
        rng = Random(f"{self._seed} {uid}")
        fields: dict[str, Any] = {}
        if rng.random() > 0.15:
            return fields
        start = rng.choice((None, now + rng.randrange(-20 * S, 20 * S)))
        if start is not None:
            fields["start_at"] = instant.render(start)
        if rng.random() < 0.5:
            fields["max_runs"] = rng.choice((1, 2, 5, 20))
        elif isinstance(when, Interval):
            fields["end_at"] = instant.render(max(start or 0, now) + rng.randrange(60 * S, 90 * S))
        return fields

    def task(self) -> Task:
        if self._wants("hosts"):
            return Http(url=f"http://{self._rng.choice(sorted(self.unwell))}/")
        return Shell(command="simulated") if self._rng.random() < 0.8 else Python(function="simulated")

    def _wants(self, what: str) -> bool:
        share = {"mixed": 0.12, what: 0.75}.get(self._theme, 0.02)
        return self._rng.random() < share

    def _needs(self, offer: Offer) -> dict[str, Any]:
        """Return requirements that at least one worker satisfies, so that no run waits forever."""
        rng = self._rng
        labels = [label for label in offer.labels if rng.random() < 0.5]
        if offer.dedicated and not labels:
            labels = [offer.labels[0]]
        most_cpu, most_memory = offer.cpu or 6.0, offer.memory_mb or 4096
        return {
            "runs_on": labels,
            "resources": rng.choice(
                (
                    None,
                    Resources(cpu=most_cpu),
                    Resources(cpu=most_cpu / 2, memory_mb=most_memory // 3),
                    Resources(memory_mb=most_memory),
                    Resources(slots=offer.slots),
                    Resources(slots=max(1, offer.slots // 2), cpu=0.5),
                )
            ),
        }
