"""The results of a soak, and whether it kept the promises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

LATENESS_FACTOR = 5.0
LATENESS_MORE_MS = 250.0
MAX_LATENESS_MS = 2_000.0
MAX_MEMORY_GROWTH_MIB = 400.0
MAX_MEMORY_SLOPE = 1.1
"""The last quarter's memory against that of the quarter before."""
MEMORY_NOISE_MIB = 8.0


@dataclass(frozen=True)
class Start:
    """One start of an honest job."""

    kind: str
    attacked: bool
    """Whether it was due in a phase with attackers."""
    late_ms: float


@dataclass
class Report:
    """Everything that is judged."""

    store: str
    accepted: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    """Answers other than 2xx to honest clients, which try again."""
    missing: int = 0
    doubled: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    """Status and attempt of every honest run."""
    ledger: Counter[str] = field(default_factory=Counter)
    """Verdicts of the schedules' fires."""
    starts: list[Start] = field(default_factory=list)
    memory_mib: dict[str, list[float]] = field(default_factory=dict)
    """Samples by process."""
    attacks: Counter[str] = field(default_factory=Counter)
    """Answers to attackers, by attack and status."""

    def problems(self) -> list[str]:
        return [*self._work(), *self._lateness(), *self._memory()]

    def _work(self) -> list[str]:
        found = []
        if self.missing:
            found.append(f"{self.missing} accepted jobs never ran")
        if self.doubled:
            found.append(f"{self.doubled} jobs ran more than once")
        if wrong := {end: count for end, count in self.ends.items() if end != "succeeded in attempt 1"}:
            found.append(f"runs ended otherwise than in success at the first attempt: {wrong}")
        if wrong := {verdict: count for verdict, count in self.ledger.items() if verdict != "on_time"}:
            found.append(f"fires of schedules were not on time: {wrong}")
        if server_errors := {status: count for status, count in self.attacks.items() if status.endswith(" 500")}:
            found.append(f"requests of attackers were answered with 500: {server_errors}")
        return found

    def _lateness(self) -> list[str]:
        found = []
        for kind in sorted({start.kind for start in self.starts}):
            quiet, attacked = self._late(kind, attacked=False), self._late(kind, attacked=True)
            if not quiet or not attacked:
                continue
            before, now = percentile(quiet, 0.99), percentile(attacked, 0.99)
            limit = max(before * LATENESS_FACTOR, before + LATENESS_MORE_MS)
            if now > limit:
                found.append(f"{kind} jobs started late under attack: p99 {now:.0f} ms, limit {limit:.0f} ms")
            if attacked[-1] > MAX_LATENESS_MS:
                found.append(f"a {kind} job started {attacked[-1]:.0f} ms late, limit {MAX_LATENESS_MS:.0f} ms")
        return found

    def _late(self, kind: str, *, attacked: bool) -> list[float]:
        return sorted(start.late_ms for start in self.starts if (start.kind, start.attacked) == (kind, attacked))

    def _memory(self) -> list[str]:
        found = []
        for process, samples in self.memory_mib.items():
            third, last = _quarters(samples)
            if max(samples) - samples[0] > MAX_MEMORY_GROWTH_MIB:
                found.append(f"{process} grew from {samples[0]:.0f} to {max(samples):.0f} MiB")
            if last > third * MAX_MEMORY_SLOPE + MEMORY_NOISE_MIB:
                found.append(f"the memory of {process} is not flat: {third:.0f} MiB, then {last:.0f} MiB")
        return found

    def __str__(self) -> str:
        lines = [
            f"{self.store}: {self.accepted:,} honest jobs accepted, {self.missing} missing, {self.doubled} doubled",
            f"  ends: {dict(self.ends)}; fires of schedules: {dict(self.ledger)}",
            f"  refusals of honest requests: {dict(self.refusals)}",
        ]
        for kind in sorted({start.kind for start in self.starts}):
            for attacked in (False, True):
                if late := self._late(kind, attacked=attacked):
                    name = "attack" if attacked else "quiet"
                    p50, p99 = percentile(late, 0.5), percentile(late, 0.99)
                    lines.append(
                        f"  start lateness, {kind:6} {name:6}: {len(late):>7,} starts, p50 {p50:6.1f} ms,"
                        f" p99 {p99:7.1f} ms, max {late[-1]:7.1f} ms"
                    )
        for process, samples in self.memory_mib.items():
            shown = samples[:: max(1, len(samples) // 20)]
            third, last = _quarters(samples)
            lines.append(f"  memory of {process}: {[round(each) for each in shown]} MiB; {third:.0f} then {last:.0f}")
        lines.append(f"  answers to attackers: {dict(sorted(self.attacks.items()))}")
        return "\n".join(lines)


def percentile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def _quarters(samples: Sequence[float]) -> tuple[float, float]:
    """Medians of the third and of the last quarter."""
    quarter = max(1, len(samples) // 4)
    return median(samples[-2 * quarter : -quarter] or samples), median(samples[-quarter:])
