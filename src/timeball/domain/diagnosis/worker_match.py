"""The workers that are alive, seen from a run that looks for one."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, structs

from timeball.domain.diagnosis.reasons import Code, Reason
from timeball.domain.dispatch.placement import PLAIN, UNLIMITED, Need, Offer, kind_label
from timeball.domain.text.english import counted, listed


class WorkerView(Struct, frozen=True, kw_only=True):
    """A worker with a lease."""

    name: str
    idle: Offer
    """What it would offer if it had nothing to do."""
    left: Offer
    """What it offers now."""
    functions: frozenset[str] = frozenset()
    """The Python functions it has."""


def able(need: Need, crew: Sequence[WorkerView]) -> list[WorkerView]:
    """Those who could run such a run, were they idle."""
    return [hand for hand in crew if hand.idle.fits(need)]


def lacking(need: Need, function: str | None, crew: Sequence[WorkerView], kind: str | None = None) -> Reason | None:
    """Why none of the workers that are alive can ever run a run; None: one of them can."""
    if not crew and need == PLAIN:
        return Reason(
            code=Code.NO_WORKER,
            text="No worker is there to run it.",
            unblocks="Start one: timeball worker, or timeball up for a server with a worker in it.",
        )
    if kind is not None and crew:
        takers = [hand for hand in crew if hand.idle.kinds is None or kind_label(kind) in hand.idle.kinds]
        if not takers:
            return Reason(
                code=Code.NO_FITTING_WORKER,
                text=f"No worker takes {kind} jobs: {counted(len(crew), 'worker')} take only other kinds.",
                unblocks=f"Start a worker that does: timeball worker --kinds {kind}, or one without --kinds.",
            )
        # From here on only the other things that it asks for count.
        crew = [structs.replace(hand, idle=structs.replace(hand.idle, kinds=None)) for hand in takers]
    fitting = able(need, crew)
    if not fitting:
        return Reason(
            code=Code.NO_FITTING_WORKER,
            text=f"No worker with {need}: {_shortcoming(need, crew)}.",
            unblocks=f"Start a worker that offers it: timeball worker{_options(need)}; or ask for less.",
        )
    if function is not None and not any(function in hand.functions for hand in fitting):
        others = "the only worker that could run it does" if len(fitting) == 1 else f"all {len(fitting)} workers do"
        return Reason(
            code=Code.NO_FUNCTION,
            text=f"No worker has the Python function {function}: {others} without it.",
            unblocks="Start a worker with the module that defines it: timeball worker --tasks MODULE.",
        )
    return None


def _shortcoming(need: Need, crew: Sequence[WorkerView]) -> str:
    """What is missing, as exactly as can be told."""
    if not crew:
        return "there is no worker at all"
    if unknown := [label for label in sorted(need.labels) if not any(label in hand.idle.labels for hand in crew)]:
        return f"nobody has the label{'s' if len(unknown) > 1 else ''} {listed(unknown)}"
    suited = [hand.idle for hand in crew if hand.idle.suits(need)]
    if not suited:
        if need.labels:
            return "nobody has all of these labels at once"
        return f"{counted(len(crew), 'worker')} take only runs that ask for a label"
    whose = "of those with the labels" if need.labels else f"of {counted(len(crew), 'worker')}"
    return f"the largest offers {whose} are {_largest(suited)}"


def _largest(offers: Sequence[Offer]) -> str:
    cpu, memory = max(offer.cpu for offer in offers), max(offer.memory for offer in offers)
    parts = [counted(max(offer.slots for offer in offers), "slot")]
    parts += [f"{cpu / 1000:g} CPU"] if cpu < UNLIMITED else []
    parts += [f"{memory} MiB"] if memory < UNLIMITED else []
    return listed(parts)


def _options(need: Need) -> str:
    options = [f" --slots {need.slots}"] if need.slots > 1 else []
    options += [f" --cpu {need.cpu / 1000:g}"] if need.cpu else []
    options += [f" --memory {need.memory}"] if need.memory else []
    options += [f" --label {label}" for label in sorted(need.labels)]
    return "".join(options)
