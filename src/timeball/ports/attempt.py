"""What identifies an attempt of a run, declared once for every type that carries it.

    Claim ───────▶ Assignment ────▶ HeldAttempt ───▶ Ended ─────────▶ Settlement
    of the store   to the worker    in the worker    to the server    to the store
      └───────────────────────────────────────────────────────────────────▲
        given back: the assignment did not reach its worker

`Claim` and `Settlement` inherit `AttemptWithLocks`. The messages `Assignment` and `Ended` inherit `AttemptIdentity`
only, and declare `serial` and `turn` themselves: inherited fields stand first in JSON, and the order of the fields of a
message is frozen. `HeldAttempt` is mutable, which no subclass of a frozen struct can be: it embeds the assignment.
`tests/unit/ports/test_attempt.py` compares the declarations, and passes one attempt through all five types.
"""

from __future__ import annotations

from msgspec import Struct


class AttemptIdentity(Struct, frozen=True, kw_only=True, rename="camel"):
    run_id: str
    job_id: str
    attempt: int
    token: int
    """Grows over all claims of a store; the attempt's right to write anything."""


class AttemptWithLocks(AttemptIdentity, frozen=True, kw_only=True, rename="camel"):
    """An attempt, and which locks its settlement takes before it locks the run. Both are hints: the row decides."""

    serial: bool
    """Lock the job: it has one run at a time."""
    turn: tuple[str, str] | None = None
    """Tenant and ordering key, if the run has one: lock the key."""
