"""What may be kept of a result: JSON of a bounded size and depth, so that every later reader can read it.

A result that cannot be kept fails no run: the end of its function, process or call decides (I30). A note takes its
place.
"""

from __future__ import annotations

import re
from array import array
from itertools import accumulate
from typing import Final

import msgspec
from msgspec import Raw

LARGEST: Final = 1024 * 1024
"""Bytes of JSON."""
DEEPEST: Final = 128
"""Nested arrays and objects: far more than people write, far less than a parser's stack."""

MAX_WORDS: Final = 10_000
"""Characters of what an exception or a note says."""
MAX_REASON: Final = 500
"""Characters of why a result is not kept."""

_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_OTHERS: Final = bytes(set(range(256)) - set(b"[{]}"))


def not_kept(reason: str) -> Raw:
    """What takes the place of a result that cannot be kept."""
    return Raw(msgspec.json.encode({"notKept": clean(reason)[:MAX_REASON]}))


def clean(text: str) -> str:
    """Text that every encoder takes: without halves of surrogate pairs."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def said(thing: object) -> str:
    """A thing as text of bounded length; nothing if its class fails to make one."""
    try:
        return clean(str(thing)[:MAX_WORDS])
    except BaseException:
        return ""


def words(error: BaseException) -> str:
    """What an exception says, or its name if it says nothing."""
    return said(error) or clean(type(error).__name__)


def is_too_deep(encoded: bytes) -> bool:
    """Whether this JSON is nested deeper than is kept. Costs next to nothing for flat values, and never builds the
    value: 1 MiB of empty arrays took 90 ms of the event loop."""
    if encoded.count(b"[") + encoded.count(b"{") <= DEEPEST:
        return False
    brackets = (_STRING.sub(b"", encoded) if b'"' in encoded else encoded).translate(_STEPS, _OTHERS)
    return max(accumulate(array("b", brackets)), default=0) > DEEPEST
