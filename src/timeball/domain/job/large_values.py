"""Large values: parameters, results and output that are objects elsewhere, and how rows refer to them.

    payloads/5f2c…/2026/11/15/j_0194…-80a1….json      the parameters of a job, or of a run that somebody edited
    results/5f2c…/2026/11/15/r_0194…-17.json          what an attempt returned; the number is its fencing token. If its
                                                      job names a `resultLocation`, that comes before the run
    logs/5f2c…/2026/11/15/r_0194…-2.ndjson.gz         what an attempt printed; the number is that of the attempt

Behind the kind comes the store that they belong to, so that two of them may share a place, and the day on which the
object was written, by the store's clock. An object is written before the row that refers to it, and that row goes
before it. So whatever no row refers to may go, once nobody can be about to refer to it: a row is written within
`LATEST` after its object's day began, or not at all, and no object goes before `SAFE`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from msgspec import Raw

from timeball.domain import instant
from timeball.domain.instant import DAY, Micros

LARGE: Final = 64 * 1024
"""What is longer, in bytes, is kept elsewhere."""
LATEST: Final = 2 * DAY
SAFE: Final = 3 * DAY
MAX_REFERENCE_LENGTH: Final = 500
KINDS: Final = ("payloads", "results", "logs")
REFERENCE: Final = "@"
"""The stream of a row of output that stands for an object. A result that does so begins with it, as no JSON does."""
_LOCATION: Final = re.compile(r"[\w=-][\w.=-]*(/[\w=-][\w.=-]*)*", re.ASCII)


def prefix(kind: str, store: int) -> str:
    """Of all objects of a kind and a store."""
    return f"{kind}/{store:016x}/"


def key(kind: str, store: int, now: Micros, name: str) -> str:
    return f"{prefix(kind, store)}{instant.to_datetime(now):%Y/%m/%d}/{name}"


def written_on(key: str) -> Micros | None:
    """The first instant of the day of an object, or of a folder of such; None: it is something else."""
    try:
        kind, _, year, month, day = key.split("/")[:5]
        return instant.of(datetime(int(year), int(month), int(day), tzinfo=UTC)) if kind in KINDS else None
    except ValueError:
        return None


def may_be_referred_to(key: str, now: Micros) -> bool:
    """Whether a row may still begin to refer to an object."""
    day = written_on(key)
    return day is not None and now < day + LATEST


def check_location(location: str) -> None:
    """A folder below that of the results: it leads nowhere else, neither up nor to another machine."""
    if not _LOCATION.fullmatch(location):
        raise ValueError(
            "resultLocation: name a folder in the object storage, such as reports/daily, of letters, digits and"
            " - _ = . (no part begins with a dot, and there are no addresses)"
        )


def owner(key: str) -> str:
    """The job or the run that an object belongs to."""
    return key.rsplit("/", 1)[-1][:30]


def reference(result: Raw | None) -> str | None:
    """The object that a result stands for; None: it is the result."""
    if result is None or len(result) > MAX_REFERENCE_LENGTH:
        return None
    text = bytes(result)
    return text[1:].decode() if text.startswith(b"@results/") else None
