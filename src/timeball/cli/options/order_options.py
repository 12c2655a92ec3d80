"""Options for the order, the limits and the placement of runs, and the parsers of their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import click

from timeball.domain.dispatch.overlap import Overlap

F = TypeVar("F", bound=Callable[..., Any])

NONE: Final = "none"
"""The value that removes a rule from a job."""

_OVERLAPS: Final = [policy.value for policy in Overlap]
_LABEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/=-]{0,99}", re.ASCII)


def order_options(command: F) -> F:
    for option in reversed(
        (
            click.option("--overlap", metavar="POLICY", help=_OVERLAP_HELP),
            click.option(
                "--ordering-key",
                metavar="KEY",
                help="Execute runs with the same key one after the other, by fire time.",
            ),
            click.option("--on-failure", metavar="RULE", help=_FAILURE_HELP),
            click.option(
                "--concurrency", metavar="KEY=LIMIT", help="Execute at most LIMIT runs with this key at the same time."
            ),
            click.option(
                "--rate-limit",
                metavar="KEY=N/TIME[,burst=M]",
                help="Start at most N runs with this key per TIME: db=10/1m.",
            ),
            click.option("--cpu", metavar="N", help="CPUs that a run needs on its worker: 0.5, 4."),
            click.option("--memory", metavar="SIZE", help="Memory that a run needs: 512 (MiB), 512M, 2G."),
            click.option("--slots", metavar="N", help="Slots that a run needs (default: 1)."),
            click.option(
                "--calendar", multiple=True, metavar="NAME", help="A calendar; no fire while it is closed. Repeatable."
            ),
            click.option("--excluded", metavar="RULE", help=_EXCLUDED_HELP),
            click.option(
                "--runs-on", multiple=True, metavar="LABEL", help="A label that the worker needs. Repeatable."
            ),
            click.option("--delivery", metavar="RULE", help=_DELIVERY_HELP),
            click.option("--preemptible/--no-preemptible", default=None, help=_PREEMPTIBLE_HELP),
        )
    ):
        command = option(command)
    return command


_OVERLAP_HELP = f"What a fire does while an earlier run is alive: {', '.join(_OVERLAPS)}."
_DELIVERY_HELP = "at_least_once, or at_most_once: an attempt that may have had an effect is never repeated."
_EXCLUDED_HELP = "Fires while a --calendar is closed: skip them, or next_open to run once when it opens."
_PREEMPTIBLE_HELP = "Whether runs are suspended when a run of a higher priority class finds no slot."
_FAILURE_HELP = "After a run with this --ordering-key used up its retries: block later runs, or continue."


def order_fields(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return keyword arguments for a job from these options; None for each option that is not given, or is `none`."""
    return {
        "overlap": _one_of(_OVERLAPS, flags["overlap"], "--overlap"),
        "ordering_key": _key(flags["ordering_key"]),
        "on_failure": _one_of(["block", "continue"], flags["on_failure"], "--on-failure"),
        "concurrency": _concurrency(flags["concurrency"]),
        "rate_limit": _rate(flags["rate_limit"]),
        "resources": _resources(flags),
        "runs_on": _labels(flags["runs_on"]),
        "calendars": None if flags["calendar"] in ((), (NONE,)) else list(flags["calendar"]),
        "excluded": _one_of(["skip", "next_open"], flags["excluded"], "--excluded"),
        "delivery": _one_of(["at_least_once", "at_most_once"], flags["delivery"], "--delivery"),
        "preemptible": flags["preemptible"],
    }


def removed_fields(flags: Mapping[str, Any]) -> dict[str, None]:
    """Return null for each field of a job that the value `none` removes."""
    single = {"ordering_key": "orderingKey", "concurrency": "concurrency", "rate_limit": "rateLimit"}
    gone = [field for name, field in single.items() if flags[name] == NONE]
    gone += ["runsOn"] if flags["runs_on"] == (NONE,) else []
    gone += ["calendars"] if flags["calendar"] == (NONE,) else []
    asked = any(flags[name] for name in ("cpu", "memory", "slots"))
    gone += ["resources"] if asked and _resources(flags) is None else []
    return dict.fromkeys(gone)


def is_given(text: str | None) -> bool:
    """True if an option has a value other than `none`."""
    return text is not None and text != NONE


def whole(text: str, option: str, *, least: int = 1) -> int:
    """Parse a whole number of at least `least`."""
    if not text.isascii() or not text.isdigit():
        raise click.UsageError(f"{option}: {text!r} is not a whole number")
    if int(text) < least:
        raise click.UsageError(f"{option}: {text} is too small; the minimum is {least}")
    return int(text)


def _one_of(known: Sequence[str], text: str | None, option: str) -> str | None:
    if text is None or text in known:
        return text
    import difflib

    close = difflib.get_close_matches(text, known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise click.UsageError(f"{option} {text!r} is not one of {', '.join(known)}{hint}")


def _key(text: str | None) -> str | None:
    if text == "":
        raise click.UsageError("--ordering-key is empty; give the key whose runs execute one after the other")
    return text if is_given(text) else None


def _concurrency(text: str | None) -> dict[str, Any] | None:
    if text is None or text == NONE:
        return None
    key, _, limit = text.rpartition("=")
    if not key:
        raise click.UsageError(f"--concurrency {text!r} is not KEY=LIMIT, such as db=5")
    return {"key": key, "limit": whole(limit, f"--concurrency {text}")}


def _rate(text: str | None) -> dict[str, Any] | None:
    if text is None or text == NONE:
        return None
    option = f"--rate-limit {text}"
    pace, comma, burst = text.partition(",burst=")
    key, _, amount = pace.rpartition("=")
    limit, slash, per = amount.partition("/")
    if not key or not slash or not per:
        raise click.UsageError(f"{option} is not KEY=N/TIME[,burst=M], such as mails=100/1m or mails=100/1m,burst=10")
    return {
        "key": key,
        "limit": whole(limit, option),
        "per": _length(per, option),
        **({"burst": whole(burst, option)} if comma else {}),
    }


def _length(text: str, option: str) -> str:
    """Check a length of time such as `1m`. A unit alone, such as `m`, means one of that unit."""
    from timeball.domain import duration
    from timeball.domain.errors import Invalid
    from timeball.domain.instant import MILLISECOND

    text = f"1{text}" if text.isalpha() else text
    try:
        duration.parse(text, shortest=MILLISECOND)
    except Invalid as error:
        raise click.UsageError(f"{option}: {error.detail}") from None
    return text


def _resources(flags: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the resources of these options, merged with those of the job that is updated; None if there are none."""
    asked: dict[str, Any] = dict(flags.get("resources") or {})
    for field, name, read in (("cpu", "cpu", _cpu), ("memoryMb", "memory", _memory), ("slots", "slots", _slots)):
        if is_given(flags[name]):
            asked[field] = read(flags[name])
        elif flags[name] == NONE:
            asked.pop(field, None)
    return asked or None


def _cpu(text: str) -> float:
    try:
        cpu = float(text)
    except ValueError:
        cpu = -1.0
    if not 0 <= cpu <= 100_000:  # also refuses nan and inf
        raise click.UsageError(f"--cpu {text!r} is not a number of CPUs, such as 0.5 or 4")
    return cpu


def _memory(text: str) -> int:
    from timeball.domain.dispatch.placement import mebibytes
    from timeball.domain.errors import Invalid

    try:
        return mebibytes(text)
    except Invalid as error:
        raise click.UsageError(f"--memory {error.detail}") from None


def _slots(text: str) -> int:
    return whole(text, "--slots")


def _labels(words: Sequence[str]) -> list[str] | None:
    if not words or tuple(words) == (NONE,):
        return None
    for word in words:
        if not _LABEL.fullmatch(word):
            raise click.UsageError(f"--runs-on {word!r} is not a label; use letters, digits and . _ : / = -")
    return list(words)
