"""Matches a run with the live workers: which workers could execute it, and what is missing if none could."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, structs

from timeball.domain.diagnosis.reasons import Code, Reason
from timeball.domain.dispatch.placement import PLAIN, UNLIMITED, Need, Offer, kind_label
from timeball.domain.text.english import counted, listed


class WorkerOffer(Struct, frozen=True, kw_only=True):
    """A live worker that accepts new runs, as the diagnosis sees it."""

    name: str
    idle: Offer
    """The resources that the worker would offer without any run."""
    left: Offer
    """The resources that the worker offers now."""
    functions: frozenset[str] = frozenset()
    """The names of the Python functions that are registered on the worker."""


def able(need: Need, workers: Sequence[WorkerOffer]) -> list[WorkerOffer]:
    """Return the workers that could execute a run with these requirements if they were idle."""
    return [worker for worker in workers if worker.idle.fits(need)]


def lacking(
    need: Need, function: str | None, workers: Sequence[WorkerOffer], kind: str | None = None, draining: int = 0
) -> Reason | None:
    """Return the reason why none of the live workers could execute a run, even if it were idle; None if at least one
    could. `draining` is the number of live workers that accept no new runs and are not in `workers`."""
    if not workers and need == PLAIN:
        return Reason(
            code=Code.NO_WORKER,
            text=f"No worker accepts new runs: {_drain(draining)}." if draining else "There is no worker.",
            unblocks="Start a worker: timeball worker, or timeball up for a server with a worker.",
        )
    if kind is not None and workers:
        accepting = [worker for worker in workers if worker.idle.kinds is None or kind_label(kind) in worker.idle.kinds]
        if not accepting:
            return Reason(
                code=Code.NO_FITTING_WORKER,
                text=f"No worker accepts {kind} jobs ({counted(len(workers), 'worker')} with other kinds only).",
                unblocks=f"Start a worker that does: timeball worker --kinds {kind}, or one without --kinds.",
            )
        # The kind fits these workers. The rest of the function checks the other requirements.
        workers = [structs.replace(worker, idle=structs.replace(worker.idle, kinds=None)) for worker in accepting]
    fitting = able(need, workers)
    if not fitting:
        return Reason(
            code=Code.NO_FITTING_WORKER,
            text=f"No worker offers {need}: {_shortage(need, workers, draining)}.",
            unblocks=f"Start a worker that does: timeball worker{_options(need)}; or reduce the requirements.",
        )
    if function is not None and not any(function in worker.functions for worker in fitting):
        others = "the only suitable worker runs" if len(fitting) == 1 else f"all {len(fitting)} suitable workers run"
        return Reason(
            code=Code.NO_FUNCTION,
            text=f"No worker has the Python function {function}: {others} without it.",
            unblocks="Start a worker with the module that defines it: timeball worker --tasks MODULE.",
        )
    return None


def _drain(draining: int) -> str:
    return f"{counted(draining, 'worker')} {'is' if draining == 1 else 'are'} draining"


def _shortage(need: Need, workers: Sequence[WorkerOffer], draining: int) -> str:
    """Return a text about the first requirement that no worker meets: a label, all the labels, or the resources."""
    if not workers:
        return _drain(draining) if draining else "there is no worker"
    if unknown := [
        label for label in sorted(need.labels) if not any(label in worker.idle.labels for worker in workers)
    ]:
        return f"no worker has the label{'s' if len(unknown) > 1 else ''} {listed(unknown)}"
    suited = [worker.idle for worker in workers if worker.idle.suits(need)]
    if not suited:
        if need.labels:
            return "no worker has all of these labels"
        return f"{counted(len(workers), 'worker')} can only execute runs that require a label"
    of_which = "of the workers with these labels" if need.labels else f"of {counted(len(workers), 'worker')}"
    return f"the largest offers {of_which} are {_largest(suited)}"


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
