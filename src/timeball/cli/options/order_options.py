"""Options that say who waits for whom, and which worker will do; and how their values are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import click

from timeball.domain.dispatch.overlap import Overlap

F = TypeVar("F", bound=Callable[..., Any])

NONE: Final = "none"
"""What takes a rule away that a job has."""

_OVERLAPS: Final = [policy.value for policy in Overlap]
_LABEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/=-]{0,99}", re.ASCII)


def order_options(command: F) -> F:
    for option in reversed(
        (
            click.option("--overlap", metavar="POLICY", help=_OVERLAP_HELP),
            click.option("--ordering-key", metavar="KEY", help="Runs with one key go one by one, by fire time."),
            click.option("--on-failure", metavar="RULE", help=_FAILURE_HELP),
            click.option("--concurrency", metavar="KEY=LIMIT", help="At most LIMIT runs with this key at once."),
            click.option("--rate-limit", metavar="KEY=N/TIME[,burst=M]", help="Starts with this key: db=10/1m."),
            click.option("--cpu", metavar="N", help="CPUs that a run takes of its worker: 0.5, 4."),
            click.option("--memory", metavar="SIZE", help="Memory that it takes: 512 (MiB), 512M, 2G."),
            click.option("--slots", metavar="N", help="Slots that it takes; else 1."),
            click.option("--calendar", multiple=True, metavar="NAME", help="No fire while it is closed; repeatable."),
            click.option("--excluded", metavar="RULE", help=_EXCLUDED_HELP),
            click.option("--runs-on", multiple=True, metavar="LABEL", help="A label its worker must have; repeatable."),
            click.option("--delivery", metavar="RULE", help=_DELIVERY_HELP),
            click.option("--preemptible/--no-preemptible", default=None, help=_PREEMPTIBLE_HELP),
        )
    ):
        command = option(command)
    return command


_OVERLAP_HELP = f"When the last run is still alive: {', '.join(_OVERLAPS)}."
_DELIVERY_HELP = "at_least_once, or at_most_once: what may have been done is never repeated."
_EXCLUDED_HELP = "Fires while a --calendar is closed: skip, or next_open for one when it opens."
_PREEMPTIBLE_HELP = "Whether its runs stop for a while when one of a higher class of priority finds no slot."
_FAILURE_HELP = "Behind a run with the same --ordering-key that gave up: block, or continue."


def order_fields(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments for a job from these options; what was not said is None."""
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
    """The fields of a job that `none` takes away."""
    single = {"ordering_key": "orderingKey", "concurrency": "concurrency", "rate_limit": "rateLimit"}
    gone = [field for name, field in single.items() if flags[name] == NONE]
    gone += ["runsOn"] if flags["runs_on"] == (NONE,) else []
    gone += ["calendars"] if flags["calendar"] == (NONE,) else []
    asked = any(flags[name] for name in ("cpu", "memory", "slots"))
    gone += ["resources"] if asked and _resources(flags) is None else []
    return dict.fromkeys(gone)


def said(text: str | None) -> bool:
    return text is not None and text != NONE


def whole(text: str, option: str, *, least: int = 1) -> int:
    """A whole number of something."""
    if not text.isascii() or not text.isdigit():
        raise click.UsageError(f"{option}: {text!r} is not a whole number")
    if int(text) < least:
        raise click.UsageError(f"{option}: {text} is too small; at least {least}")
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
        raise click.UsageError("--ordering-key is empty; name the thing whose runs go one after the other")
    return text if said(text) else None


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
    """`1m`; `m` alone is one of them."""
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
    """What the options ask for, on top of what the job that is updated asks for; None: nothing."""
    asked: dict[str, Any] = dict(flags.get("resources") or {})
    for field, name, read in (("cpu", "cpu", _cpu), ("memoryMb", "memory", _memory), ("slots", "slots", _slots)):
        if said(flags[name]):
            asked[field] = read(flags[name])
        elif flags[name] == NONE:
            asked.pop(field, None)
    return asked or None


def _cpu(text: str) -> float:
    try:
        cpu = float(text)
    except ValueError:
        cpu = -1.0
    if not 0 <= cpu <= 100_000:  # nan and inf, too
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
