"""The circuit to a target host, shared by everybody who calls it.

closed      calls go out; `TRIPS_AT` failures in a row open it
open        nothing goes out until its time has come: runs wait without spending an attempt
half open   its time has come: one run probes. Success closes the circuit, failure opens it for twice as long
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
    """What is known of a host. A fresh one is closed."""

    failures: int = 0
    """In a row."""
    open_until: Micros | None = None
    """None: closed. Past: half open."""
    rests: int = 0
    """How often it opened without having closed in between."""
    probe: str | None = None
    """The run that probes."""


def lets_through(circuit: Circuit, at: Micros) -> bool:
    """Whether another run may call at this instant. In the half open state it becomes the probe."""
    return circuit.open_until is None or (circuit.open_until <= at and circuit.probe is None)


def failed(circuit: Circuit, run_id: str, now: Micros) -> Circuit:
    """A call found the host unwell. While it is open, calls that went out before do not count."""
    if circuit.open_until is not None and circuit.probe != run_id:
        return circuit
    failures = circuit.failures + 1
    if circuit.open_until is None and failures < TRIPS_AT:
        return Circuit(failures)
    rest = min(FIRST_OPEN_TIME << min(circuit.rests, 10), MAX_OPEN_TIME)
    return Circuit(failures, now + rest, circuit.rests + 1)


def succeeded() -> Circuit:
    """A call got an answer: the host is well."""
    return Circuit()


def abandoned(circuit: Circuit) -> Circuit:
    """Its probe ended without an answer to the question, such as by a cancel: another may probe."""
    return Circuit(circuit.failures, circuit.open_until, circuit.rests)


def is_host_failure(failure: Failure) -> bool:
    """Whether a failed call says that the host is unwell: no answer, or one of the server's own errors. A 429 says
    that it is well and busy; a 4xx that it is well and the request is not."""
    return failure.kind in ("http", "timeout") and (failure.status is None or failure.status >= 500)
