"""Large values: parameters, results and output that are objects in object storage, and the references of rows to them.

    payloads/5f2c…/2026/11/15/j_0194…-80a1…-70123.json  the parameters of a job, or of a run that was edited, with a
                                                      digest and the number of bytes
    results/5f2c…/2026/11/15/r_0194…-17.json          the result of an attempt; the number is its fencing token. If the
                                                      job has a `resultLocation`, that folder precedes the run id
    logs/5f2c…/2026/11/15/r_0194…-2.ndjson.gz         the output of an attempt; the number is that of the attempt

After the kind, the key has the id of the store, so that two stores may share one object storage, and the day on which
the object was written, by the clock of the store. An object is written before the row that refers to it, and deleted
after it. An object that no row refers to can therefore be deleted as soon as no row can begin to refer to it: a row is
written within `LATEST` after the beginning of the object's day, or not at all, and no object is deleted before `SAFE`
has passed.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from msgspec import Raw

from timeball.domain import instant
from timeball.domain.instant import DAY, Micros

LARGE: Final = 64 * 1024
"""Values with more bytes than this are offloaded to object storage."""
LATEST: Final = 2 * DAY
"""Microseconds after the beginning of an object's day within which a row may begin to refer to the object."""
SAFE: Final = 3 * DAY
"""Microseconds after the beginning of an object's day before which the object is never deleted."""
MAX_REFERENCE_LENGTH: Final = 500
KINDS: Final = ("payloads", "results", "logs")
REFERENCE: Final = "@"
"""The stream name of an output row that refers to an object. A result that refers to an object begins with this
character, which no JSON text does."""
_SIZE: Final = re.compile(r"-[0-9a-f]{16}-([0-9]{1,15})\.json$", re.ASCII)
_LOCATION: Final = re.compile(r"[\w=-][\w.=-]*(/[\w=-][\w.=-]*)*", re.ASCII)


def prefix(kind: str, store: int) -> str:
    """Return the prefix of the keys of all objects of one kind and one store."""
    return f"{kind}/{store:016x}/"


def key(kind: str, store: int, now: Micros, name: str) -> str:
    return f"{prefix(kind, store)}{instant.to_datetime(now):%Y/%m/%d}/{name}"


def written_on(key: str) -> Micros | None:
    """Return the first instant of the day in the key of an object or of a folder of objects; None if the key
    has another form."""
    try:
        kind, _, year, month, day = key.split("/")[:5]
        return instant.of(datetime(int(year), int(month), int(day), tzinfo=UTC)) if kind in KINDS else None
    except ValueError:
        return None


def may_be_referred_to(key: str, now: Micros) -> bool:
    """True if a row may still begin to refer to the object."""
    day = written_on(key)
    return day is not None and now < day + LATEST


def check_location(location: str) -> None:
    """Raise `ValueError` if a `resultLocation` is not a relative path of folders in the object storage. It must point
    neither to a parent folder nor to another machine."""
    if not _LOCATION.fullmatch(location):
        raise ValueError(
            "resultLocation: must be a folder in the object storage, such as reports/daily, of letters, digits and"
            " - _ = . (no part begins with a dot; URLs are not allowed)"
        )


def parameters_name(owner: str, digest: str, size: int) -> str:
    """Return the end of the key of parameters, which are `size` bytes long."""
    return f"{owner}-{digest}-{size}.json"


def size_of_parameters(key: str) -> int:
    """Return the number of bytes of parameters; 0 if the key is of an earlier version, which did not note it."""
    found = _SIZE.search(key)
    return 0 if found is None else int(found[1])


def owner(key: str) -> str:
    """Return the id of the job or the run that an object belongs to."""
    return key.rsplit("/", 1)[-1][:30]


def reference(result: Raw | None) -> str | None:
    """Return the key of the object that a stored result refers to; None if the row has the result itself or none."""
    if result is None or len(result) > MAX_REFERENCE_LENGTH:
        return None
    text = bytes(result)
    return text[1:].decode() if text.startswith(b"@results/") else None
