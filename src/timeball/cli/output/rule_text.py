"""The rules of jobs, and what blocked runs wait for, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from timeball.client.models.job import Job

_HOLDS: Final = {"overlap": "an earlier run (overlap)", "turn": "its turn"}
_GATES: Final = {"limit": "the limit of", "rate": "the rate of", "host": "host"}
_OVERLAPS: Final = {
    "allow": "runs may overlap",
    "skip": "a fire is skipped while a run is alive",
    "queue": "a fire waits while a run is alive",
    "queue_one": "one fire waits while a run is alive, more are skipped",
    "cancel_previous": "a fire cancels the live run",
    "terminate_previous": "a fire kills the live run",
}


def of_job(job: Job) -> list[tuple[str, str | None]]:
    """Return the rules that a job uses, as lines for `jobs show`."""
    meaning = _OVERLAPS.get(job.overlap)
    return [
        ("overlap", f"{job.overlap}: {meaning}" if meaning else job.overlap),
        ("in order of", job.ordering_key),
        ("on failure", _on_failure(job)),
        ("concurrency", _concurrency(job.concurrency)),
        ("rate limit", _rate(job.rate_limit)),
        ("takes", _resources(job.resources)),
        ("runs on", None if not job.runs_on else f"workers with {' and '.join(job.runs_on)}"),
        ("calendars", _calendars(job)),
        ("preemptible", "its runs give their slots to runs of a higher priority class" if job.preemptible else None),
        (
            "delivery",
            None if job.delivery == "at_least_once" else "at most once: a run is never repeated after it has started",
        ),
    ]


def _calendars(job: Job) -> str | None:
    if not job.calendars:
        return None
    then = "one fire when they open" if job.excluded == "next_open" else "fires are skipped"
    return f"{', '.join(job.calendars)}: while one is closed, {then}"


def waits_for(holds: Sequence[str]) -> str:
    """Return what a blocked run waits for: "its turn and the limit of db"."""
    return " and ".join(_hold(hold) for hold in holds)


def _hold(hold: str) -> str:
    gate, _, name = hold.removeprefix("gate:").partition(":")
    return f"{_GATES[gate]} {name}" if hold.startswith("gate:") and gate in _GATES else _HOLDS.get(hold, hold)


def _on_failure(job: Job) -> str | None:
    if job.ordering_key is None:
        return None
    if job.on_failure == "block":
        return "block: after a run used up its retries, later runs wait until it is retried or discarded"
    return "continue: after a run used up its retries, the next run starts"


def _concurrency(rule: Mapping[str, Any] | None) -> str | None:
    return None if rule is None else f"at most {rule.get('limit')} runs at the same time with key {rule.get('key')}"


def _rate(rule: Mapping[str, Any] | None) -> str | None:
    if rule is None:
        return None
    limit = rule.get("limit")
    return (
        f"{limit} starts in {rule.get('per', '1s')}, {rule.get('burst') or limit} at once, with key {rule.get('key')}"
    )


def _resources(rule: Mapping[str, Any] | None) -> str | None:
    if not rule:
        return None
    cpu, memory, slots = rule.get("cpu"), rule.get("memoryMb"), rule.get("slots", 1)
    parts = [f"{cpu:g} CPU"] if cpu else []
    parts += [f"{memory} MiB"] if memory else []
    parts += [f"{slots} slots"] if slots > 1 or not parts else []
    return ", ".join(parts)
