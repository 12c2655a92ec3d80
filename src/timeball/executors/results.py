"""Limits the size and depth of the JSON that is stored as a result, so that every reader can parse it.

A result that cannot be stored does not fail the run: the end of its function, process or call decides whether the run
succeeded (promise I30). A note replaces the result.
"""

from __future__ import annotations

import re
from array import array
from itertools import accumulate
from typing import Final

import msgspec
from msgspec import Raw

LARGEST: Final = 1024 * 1024
"""Maximum number of bytes of JSON."""
DEEPEST: Final = 128
"""Maximum depth of nested arrays and objects: far more than usual, and far less than the stack of a parser allows."""

MAX_WORDS: Final = 10_000
"""Maximum number of characters of an exception's text or of a note."""
MAX_REASON: Final = 500
"""Maximum number of characters of the reason why a result is not stored."""

_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_OTHERS: Final = bytes(set(range(256)) - set(b"[{]}"))


def not_kept(reason: str) -> Raw:
    """Return the note that replaces a result that cannot be stored."""
    return Raw(msgspec.json.encode({"notKept": clean(reason)[:MAX_REASON]}))


def clean(text: str) -> str:
    """Replace lone surrogates, which encoders reject."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def text_of(thing: object) -> str:
    """Return an object as text of bounded length; empty if the conversion to text raises an error."""
    try:
        return clean(str(thing)[:MAX_WORDS])
    except BaseException:
        return ""


def words(error: BaseException) -> str:
    """Return the message of an exception, or its name if the message is empty."""
    return text_of(error) or clean(type(error).__name__)


def is_too_deep(encoded: bytes) -> bool:
    """True if this JSON is nested too deep. It costs almost nothing for flat values and never builds the value:
    decoding 1 MiB of empty arrays blocked the event loop for 90 ms.
    """
    if encoded.count(b"[") + encoded.count(b"{") <= DEEPEST:
        return False
    brackets = (_STRING.sub(b"", encoded) if b'"' in encoded else encoded).translate(_STEPS, _OTHERS)
    return max(accumulate(array("b", brackets)), default=0) > DEEPEST
