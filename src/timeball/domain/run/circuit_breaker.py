"""The circuit breaker of a target host. All runs that call the host share it.

closed      calls are allowed; `TRIPS_AT` failures in a row open the circuit
open        no call is allowed until `open_until`; runs wait and spend no attempt
half open   `open_until` has passed: one run probes the host. Success closes the circuit, failure opens it for twice as
            long, up to `MAX_OPEN_TIME`
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from timeball.domain.instant import MINUTE, SECOND, Micros
from timeball.domain.run.lifecycle import Failure

TRIPS_AT: Final = 5
FIRST_OPEN_TIME: Final = 30 * SECOND
MAX_OPEN_TIME: Final = 5 * MINUTE


class Circuit(Struct, frozen=True):
    """The state of the circuit breaker of one host. The default is closed."""

    failures: int = 0
    """Number of failures in a row."""
    open_until: Micros | None = None
    """None if the circuit is closed. If it is in the past, the circuit is half open."""
    rests: int = 0
    """Number of times that the circuit opened since it was last closed. Each time it stays open twice as long, up to
    `MAX_OPEN_TIME`."""
    probe: str | None = None
    """The id of the run that probes the host."""


def lets_through(circuit: Circuit, at: Micros) -> bool:
    """True if another run may call the host at this instant. In the half open state that run becomes the probe."""
    return circuit.open_until is None or (circuit.open_until <= at and circuit.probe is None)


def failed(circuit: Circuit, run_id: str, now: Micros) -> Circuit:
    """Return the circuit after a call that failed because of the host. Until an open circuit is closed again, only the
    failure of the probe counts: other calls began before the circuit opened."""
    if circuit.open_until is not None and circuit.probe != run_id:
        return circuit
    failures = circuit.failures + 1
    if circuit.open_until is None and failures < TRIPS_AT:
        return Circuit(failures)
    rest = min(FIRST_OPEN_TIME << min(circuit.rests, 10), MAX_OPEN_TIME)
    return Circuit(failures, now + rest, circuit.rests + 1)


def succeeded() -> Circuit:
    """Return the circuit after a call that showed that the host works: it is closed."""
    return Circuit()


def abandoned(circuit: Circuit) -> Circuit:
    """Return the circuit after a probe that ended without a result, such as by a cancel. Another run may probe."""
    return Circuit(circuit.failures, circuit.open_until, circuit.rests)


def is_host_failure(failure: Failure) -> bool:
    """True if a failed call indicates a failure of the host: no answer, or a 5xx status. A 429 means that the host
    works and is busy; any other 4xx means that the host works and the request is wrong."""
    return failure.kind in ("http", "timeout") and (failure.status is None or failure.status >= 500)
