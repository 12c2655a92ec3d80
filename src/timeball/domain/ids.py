"""Ids: made before the commit, sortable by age, telling what they name.

    r_ 0194f3a1c2b7 9f86d081884c7d65
    │  │            └ 64 random bits
    │  └ milliseconds since the epoch, so the day of a row can be read from its id
    └ what it is: j_ job, r_ run, b_ backfill, w_ worker session, k_ key

Made before the commit, so a commit whose answer was lost can be sent again without making a second thing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cache
from typing import Protocol

from msgspec import Struct

from timeball.domain.instant import MILLISECOND, Micros

_SHAPE = re.compile(r"[bjrwk]_[0-9a-f]{28}", re.ASCII)


class Bits(Protocol):
    """Where randomness comes from; `random.Random` is one."""

    def getrandbits(self, k: int, /) -> int: ...


class Digest(Struct, frozen=True):
    """Bits that follow from what an id names, where nobody brought random ones."""

    source: str

    def getrandbits(self, k: int, /) -> int:
        return int.from_bytes(hashlib.sha256(self.source.encode()).digest()) >> (256 - k)


def make(prefix: str, now: Micros, bits: Bits) -> str:
    number = now // MILLISECOND << 64 | bits.getrandbits(64)
    return f"{prefix}_{number.to_bytes(14).hex()}"


def many(prefix: str, now: Micros, bits: Bits, count: int) -> list[str]:
    """The same for a batch, in order, so that a database puts each behind the last; and with one throw of the dice."""
    if count == 1:
        return [make(prefix, now, bits)]
    head = f"{prefix}_{now // MILLISECOND:012x}"
    tails = bits.getrandbits(64 * count).to_bytes(8 * count).hex()
    return sorted([head + tails[at : at + 16] for at in range(0, 16 * count, 16)])


def job(now: Micros, bits: Bits) -> str:
    return make("j", now, bits)


def run(now: Micros, bits: Bits) -> str:
    return make("r", now, bits)


def first_run(at: Micros) -> str:
    """Before every run id that is made from this millisecond on, and after every earlier one."""
    return f"r_{at // MILLISECOND:012x}{0:016x}"


def is_id(prefix: str, text: str) -> bool:
    return text.startswith(f"{prefix}_") and _SHAPE.fullmatch(text) is not None


def malformed(prefix: str, idents: Sequence[str]) -> int | None:
    """The position of the first that is no id of this kind. One look at all of them: a tenth of the time of a look at
    each."""
    together = "\n".join(idents)
    if not idents or (len(together) == 31 * len(idents) - 1 and _shapes(prefix).fullmatch(together)):
        return None
    return next((at for at, ident in enumerate(idents) if not is_id(prefix, ident)), None)


@cache
def _shapes(prefix: str) -> re.Pattern[str]:
    return re.compile(rf"{prefix}_[0-9a-f]{{28}}(?:\n{prefix}_[0-9a-f]{{28}})*", re.ASCII)


def made_at(ident: str) -> Micros:
    """When the id was made, to the millisecond."""
    return int(ident[2:14], 16) * MILLISECOND
