"""The result of a campaign as text and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from timeball.chaos.campaign import Outcome, Settings
from timeball.chaos.checker import BREACHES, Judgement, percentile
from timeball.domain.instant import SECOND, Micros

EXAMPLES: Final = 3
"""Maximum number of violations of each kind that are printed in full."""


def summary(outcome: Outcome) -> list[tuple[str, str]]:
    judgement = outcome.judgement
    kinds = Counter(fault.name for fault in outcome.faults)
    counts = {breach: judgement.count(breach) for breach in BREACHES}
    others = ", ".join(f"{count:,} {name}" for name, count in counts.items() if name not in ("lost", "stuck"))
    lines = [
        ("jobs", f"{outcome.accepted:,} accepted{_unanswered(outcome)}"),
        ("faults", ", ".join(f"{count} × {name}" for name, count in sorted(kinds.items())) or "none"),
        ("fires", balance(judgement)),
        ("ledger", " + ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in sorted(outcome.ledger.items()))),
        ("attempts", f"{judgement.repeated:,} interrupted and repeated"),
        ("violations", others),
    ]
    if outcome.quiet_after is not None:
        lines.append(("quiet", f"{outcome.quiet_after:.1f} s after the last fault"))
    return lines


def balance(judgement: Judgement) -> str:
    """Return a line about all fires, such as `12,345 due = 12,300 on time + 45 late + 0 lost + 0 stuck`. `Breach` in
    `checker.py` explains lost and stuck.
    """
    lost, stuck = judgement.count("lost"), judgement.count("stuck")
    return (
        f"{judgement.due:,} due = {judgement.on_time:,} on time + {judgement.late:,} late"
        f" + {lost:,} lost + {stuck:,} stuck"
    )


def verdict(judgement: Judgement) -> str:
    count = len(judgement.violations)
    if not count:
        return "Every promise was kept: 0 violations."
    return f"{count:,} violation{'' if count == 1 else 's'}."


def examples(judgement: Judgement) -> list[str]:
    lines: list[str] = []
    for breach in BREACHES:
        found = [violation.text for violation in judgement.violations if violation.breach == breach]
        lines += [f"{breach}: {text}" for text in found[:EXAMPLES]]
        if len(found) > EXAMPLES:
            lines.append(f"{breach}: and {len(found) - EXAMPLES:,} more")
    return lines


def recoveries(outcome: Outcome) -> list[tuple[str, int, int, str, str, str]]:
    """Return a row for each name of a fault, such as `kill server`: the name, how often such a fault occurred, how many
    runs it delayed, and for how long (p50, p99, max).
    """
    often = Counter(fault.name for fault in outcome.faults)
    found = []
    for name, values in sorted(outcome.judgement.recoveries.items()):
        p50, p99, worst = (_seconds(percentile(values, share)) for share in (0.5, 0.99, 1.0))
        found.append((name, often[name], len(values), p50, p99, worst))
    return found


def as_json(settings: Settings, outcome: Outcome) -> dict[str, Any]:
    judgement = outcome.judgement
    return {
        "seed": settings.seed,
        "seconds": settings.seconds,
        "jobs": outcome.accepted,
        "unanswered": outcome.unanswered,
        "faults": dict(Counter(fault.name for fault in outcome.faults)),
        "due": judgement.due,
        "onTime": judgement.on_time,
        "late": judgement.late,
        **{_camel(breach): judgement.count(breach) for breach in BREACHES},
        "repeated": judgement.repeated,
        "ledger": outcome.ledger,
        "recoveries": {name: _spread(values) for name, values in sorted(judgement.recoveries.items())},
        "quietAfterSeconds": None if outcome.quiet_after is None else round(outcome.quiet_after, 1),
        "violations": [{"breach": each.breach, "detail": each.text} for each in judgement.violations],
    }


def _spread(values: Sequence[Micros]) -> dict[str, float]:
    shares = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {"runs": len(values)} | {
        f"{name}Seconds": round(percentile(values, share) / SECOND, 3) for name, share in shares.items()
    }


def _seconds(length: Micros) -> str:
    return f"{length / SECOND:.2f} s"


def _unanswered(outcome: Outcome) -> str:
    again = f", {outcome.tries_failed:,} submissions sent again" if outcome.tries_failed else ""
    return again + (f", {outcome.unanswered:,} never answered" if outcome.unanswered else "")


def _camel(name: str) -> str:
    first, *rest = name.split("-")
    return first + "".join(word.capitalize() for word in rest)
