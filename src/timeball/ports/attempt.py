"""The fields that identify an attempt of a run, declared once for every type that has them.

    Claim ───────▶ Assignment ────▶ HeldAttempt ───▶ Ended ─────────▶ Settlement
    of the store   to the worker    in the worker    to the server    to the store
      └───────────────────────────────────────────────────────────────────▲
        released: the assignment did not reach its worker

`Claim` and `Settlement` inherit `AttemptWithLocks`. The messages `Assignment` and `Ended` inherit only
`AttemptIdentity`, and declare `serial` and `turn` themselves: inherited fields come first in JSON, and the order of the
fields of a message must not change. `HeldAttempt` is mutable, which no subclass of a frozen struct can be, so it embeds
the assignment. `tests/unit/ports/test_attempt.py` compares the declarations, and passes one attempt through all five
types.
"""

from __future__ import annotations

from msgspec import Struct


class AttemptIdentity(Struct, frozen=True, kw_only=True, rename="camel"):
    run_id: str
    job_id: str
    attempt: int
    token: int
    """The fencing token. It grows with every claim of a store. The store accepts a write about the attempt only with
    this token.
    """


class AttemptWithLocks(AttemptIdentity, frozen=True, kw_only=True, rename="camel"):
    """An attempt, and the locks that its settlement takes before it locks the run. Both fields are hints that may be
    outdated: the store decides by the row of the run."""

    serial: bool
    """True if the settlement must lock the job before the run, for example because runs of the job may not overlap."""
    turn: tuple[str, str] | None = None
    """Tenant and ordering key of the run, if the settlement must lock the key; None if the run has none."""
