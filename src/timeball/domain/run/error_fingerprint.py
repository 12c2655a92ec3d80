"""Computes the fingerprint of a failure: a short hash that groups failures which probably have the same cause.

The messages of two failures with the same cause are rarely equal, because they contain ids, times, numbers, paths and
values of the data. Each of these is replaced by a placeholder before hashing; the remaining words identify the error.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from timeball.domain.run.lifecycle import Failure

LENGTH: Final = 12
"""Length of a fingerprint, in hexadecimal digits."""
NO_FINGERPRINT: Final = "none"
"""Stands for the fingerprint of runs that ended as failed or dead before the store kept fingerprints. It is not
hexadecimal, so no failure has it."""
LOOKED_AT: Final = 2_000
"""Number of characters of a message that are used. Later characters are the tail of an output and do not identify the
error."""

_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_CLOCK = r"\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?"
_ZONE = r"(?: ?(?:Z|UTC|GMT|[+-]\d\d:?\d\d))?"
_UNITS = r"ns|us|µs|ms|s|sec|secs|seconds?|m|min|mins|minutes?|h|hours?|d|days?"
_MESSAGE_KEYS = "code|detail|details|error|errors|error_description|message|msg|reason|title|type"
_NOUNS = "argument|attribute|column|constraint|field|function|module|named|relation|table|KeyError:|NameError: name"

_RULES: Final = tuple(
    (marker, re.compile(pattern), replacement)
    for marker, pattern, replacement in (
        ("\x1b", r"\x1b\[[0-9;]*[A-Za-z]", ""),
        # A URL keeps its host and path. The user name, the query and the fragment are dropped.
        (
            "://",
            r"(\b[a-z][a-z0-9+.-]{1,20}://)(?:[^\s/@'\"<>]*@)?([^\s?#'\"<>]*)(?:[?#](?:[^\s'\"<>]*[^\s'\"<>:;,.)])?)?",
            r"\1\2",
        ),
        # The error fields of a JSON response, and the names of code and tables, are kept: they are not data.
        ('"', rf"(?i)\"({_MESSAGE_KEYS})\"\s*:\s*\"((?:[^\"\\]|\\.)*)\"", r"\1: \2"),
        ("", rf"\b({_NOUNS}) ([\"'`])([A-Za-z_][\w.]*)\2", r"\1 \3"),
        ("", r"(?<!\w)[bruBRU]{0,2}([\"'`])(?:(?!\1)[^\n])*\1(?!\w)", "<text>"),
        ("", r"[“‘«][^“”‘’«»\n]*[”’»]", "<text>"),
        ("-", rf"\b\d{{4}}-\d\d-\d\d(?:[T ,]+{_CLOCK}{_ZONE})?", "<time>"),
        ("", rf"\b(?:{_DAY},? +)?\d{{1,2}}[ /-]{_MONTH}[ /-]\d{{4}}(?:[ :]{_CLOCK}{_ZONE})?", "<time>"),
        ("", rf"\b(?:{_DAY},? +)?{_MONTH} +\d{{1,2}},?(?: +\d{{4}})?(?: +{_CLOCK}{_ZONE})?(?: +\d{{4}})?\b", "<time>"),
        (":", rf"\b{_CLOCK}{_ZONE}\b", "<time>"),
        ("@", r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+", "<id>"),
        ("/", r"(?<![\w.:/~<-])~?/[\w.@%+=,-]+(?:/[\w.@%+=,-]*)*", "<path>"),
        ("\\", r"\b[A-Za-z]:\\[^\s\"':<>|]+", "<path>"),
        ("-", r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b", "<id>"),
        ("0", r"\b0[xX][0-9a-fA-F]+\b", "<id>"),
        (":", r"(?<![\w:])(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{0,4}(?![\w:])", "<n>"),
        # Hexadecimal digits, or alternating letters and digits, are ids and not words.
        ("", r"(?<![A-Za-z0-9])(?=[a-fA-F]*\d)(?=\d*[a-fA-F])[0-9a-fA-F]{6,}(?![A-Za-z0-9])", "<id>"),
        ("", r"(?<![A-Za-z0-9])(?=[A-Za-z0-9]{5})(?:\d+[A-Za-z]+\d|[A-Za-z]+\d+[A-Za-z])[A-Za-z0-9]*", "<id>"),
        ("", rf"[-+]?\d+(?:[.,:]\d+)*(?:[eE][-+]?\d+)?(?: ?(?:{_UNITS})\b|%)?", "<n>"),
        ("", r"\s+", " "),
    )
)
"""The replacements, applied in this order: (characters that the text must contain, pattern, replacement). The first
element skips the search where the pattern cannot match."""


def fingerprint(failure: Failure) -> str:
    """Return the fingerprint of a failure. Failures that differ only in the ids, times, numbers, paths or quoted values
    in their messages have the same fingerprint, in every run."""
    parts = (
        failure.kind,
        str(failure.exit_code),
        str(failure.status),
        failure.exceptions[0] if failure.exceptions else "",
        normalized(failure.message),
    )
    return hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()[:LENGTH]


def normalized(message: str) -> str:
    """Return a message in which the parts that differ from run to run are replaced by placeholders."""
    return _normalized(message[:LOOKED_AT])


def cache_normalized(messages: Iterable[str]) -> None:
    """Normalize messages and cache the results, so that `fingerprint` finds them in the cache. Any thread may call
    this."""
    for message in messages:
        normalized(message)


@lru_cache(maxsize=2_048)
def _normalized(text: str) -> str:
    for marker, pattern, replacement in _RULES:
        if marker in text:
            text = pattern.sub(replacement, text)
    return text.strip()
