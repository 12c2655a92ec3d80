"""Usage and cost: what the attempts of a tenant used, and what that costs at its prices.

All quantities are integers, in microseconds, thousandths of a CPU, MiB and bytes, so that their sums are exact in any
order. A cost is a `Decimal` that is not rounded.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from decimal import Context, Decimal, Inexact
from typing import Final, Literal, Self

import msgspec
from msgspec import Struct

from timeball.domain.dispatch.placement import Resources, need
from timeball.domain.instant import MINUTE, SECOND, Micros
from timeball.domain.tenant import Prices

COUNT_DELAY: Final = 5 * MINUTE
"""Microseconds after the creation of a run after which the run is added to the sums of usage, or listed as pending if
it has not ended. An id is made at most seconds before its row is committed, so no run is added behind the last one that
was looked at."""
MAX_USAGE_DAYS: Final = 366
"""Maximum number of days of one request."""
UsageKey = Literal["tenant", "user", "job", "day"]
USAGE_KEYS: Final[tuple[UsageKey, ...]] = ("tenant", "user", "job", "day")
"""What usage can be grouped by, in the order in which groups are sorted."""

_EXACT: Final = Context(prec=400, traps=[Inexact])
"""Raises an error instead of rounding. Sums of quantities have at most 19 digits, prices 22, of which 12 are after the
decimal point, and a division by a power of two adds a digit for each power."""
_MEBI: Final = Decimal(1) / 1024
_GIBI: Final = _EXACT.divide(Decimal(1), Decimal(1 << 30))


class Amounts(Struct, frozen=True):
    """What some runs used."""

    runs: int = 0
    """Runs that ended and of which an attempt had started."""
    attempts: int = 0
    """Attempts that started and ended."""
    micros: int = 0
    """Microseconds from the start to the end of these attempts."""
    cpu_micros: int = 0
    """Microseconds multiplied by the thousandths of a CPU that each attempt asked for."""
    memory_micros: int = 0
    """Microseconds multiplied by the MiB that each attempt asked for."""
    bytes: int = 0
    """Bytes of the output and the results of runs that ended."""

    @classmethod
    def of(cls, runs: int, attempts: int, micros: int, size: int, cpu: int, memory: int) -> Self:
        """Return the amounts of attempts that all asked for `cpu` thousandths of a CPU and `memory` MiB."""
        return cls(runs, attempts, micros, micros * cpu, micros * memory, size)

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(
            self.runs + other.runs,
            self.attempts + other.attempts,
            self.micros + other.micros,
            self.cpu_micros + other.cpu_micros,
            self.memory_micros + other.memory_micros,
            self.bytes + other.bytes,
        )

    @property
    def attempt_seconds(self) -> Decimal:
        return _seconds(self.micros)

    @property
    def cpu_seconds(self) -> Decimal:
        return _short(_EXACT.divide(_seconds(self.cpu_micros), Decimal(1_000)))

    @property
    def memory_gib_seconds(self) -> Decimal:
        return _short(_EXACT.multiply(_seconds(self.memory_micros), _MEBI))

    def cost(self, prices: Prices) -> Decimal:
        """Return the exact cost at these prices."""
        parts = (
            (prices.run, Decimal(self.runs)),
            (prices.attempt_second, self.attempt_seconds),
            (prices.cpu_second, self.cpu_seconds),
            (prices.memory_gib_second, self.memory_gib_seconds),
            (prices.output_gib, _EXACT.multiply(Decimal(self.bytes), _GIBI)),
        )
        return total(_EXACT.multiply(price, quantity) for price, quantity in parts)


def total(costs: Iterable[Decimal]) -> Decimal:
    """Return the exact sum of costs."""
    found = Decimal(0)
    for cost in costs:
        found = _EXACT.add(found, cost)
    return _short(found)


def _seconds(micros: int) -> Decimal:
    return _short(_EXACT.divide(Decimal(micros), Decimal(SECOND)))


def _short(number: Decimal) -> Decimal:
    """Return the number without zeros at the end, and without an exponent in its text."""
    short = number.normalize(_EXACT)
    _, _, exponent = short.as_tuple()
    return short.quantize(Decimal(1), context=_EXACT) if isinstance(exponent, int) and exponent > 0 else short


class PriceList(Struct, frozen=True):
    """The prices of a tenant by day: those of the last stored change up to the day, else the current ones."""

    changes: Sequence[tuple[Micros, Prices]]
    """The stored changes, oldest first: the first day on which the prices apply, and the prices."""
    current: Prices

    def on(self, day: Micros) -> Prices:
        at = bisect_right(self.changes, day, key=lambda change: change[0])
        return self.changes[at - 1][1] if at else self.current


class _Asking(Struct):
    """The resources in a spec, or in the definition of a workflow task. The other fields are not decoded."""

    resources: Resources | None = None


_decode_asking = msgspec.json.Decoder(_Asking).decode


def resources_asked(spec: str) -> tuple[int, int]:
    """Return the thousandths of a CPU and the MiB that an encoded spec asks for; 0 and 0 if it cannot be decoded."""
    try:
        asked = _decode_asking(spec).resources
    except msgspec.MsgspecError:
        return 0, 0
    found = need(asked, ())
    return found.cpu, found.memory


class Usage(Struct, frozen=True):
    """The usage of one group, such as a job on one day. A field by which the usage is not grouped is None."""

    tenant: str | None
    user: str | None
    job: str | None
    day: Micros | None
    amounts: Amounts
    cost: Decimal
