"""The part of an HTTP answer that a run keeps.

The status alone decides whether a call succeeded (promise I30). Parts of the answer that cannot be read, decoded or
stored are cut, replaced or left out; no function of this module raises.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from timeball.domain.instant import DAY, SECOND, Micros
from timeball.executors import results

MAX_BODY: Final = 64 * 1024
"""Maximum number of bytes of the body that are kept. The rest is not read."""
MAX_HEADER: Final = 8 * 1024
"""Maximum number of characters of a header that are kept."""
MAX_SHOWN: Final = 300
"""Maximum number of characters of a failed answer that are put into the message."""
KEPT_HEADERS: Final = ("Content-Type", "Content-Length", "Date", "ETag", "Last-Modified", "Location", "Retry-After")

_JSON: Final = re.compile(r"[/+]json\b")
_CHARSET: Final = re.compile(r";\s*charset=\"?([\w.-]{1,40})", re.IGNORECASE | re.ASCII)
_CHARSETS: Final = re.compile(
    r"utf-?8|utf-?(16|32)(-?[lb]e)?|(us-)?ascii|latin-?1|iso-?8859-\d{1,2}|(windows-|cp)125[0-8]|cp(437|850|852|866|932)"
    r"|koi8-[rtu]|gb(k|2312|18030)|big5(-?hkscs)?|euc-(jp|kr)|shift[-_]jis|iso-2022-(jp|kr)|tis-620",
    re.IGNORECASE | re.ASCII,
)
"""Encodings that are used on the web. Python has others that take quadratic time, raise errors, or produce text that
cannot be encoded, and it caches every name that is looked up.
"""


class HttpResponse(Struct, frozen=True):
    """An HTTP answer, as far as it arrived."""

    status: int
    reason: str = ""
    headers: Mapping[str, str] = {}
    body: bytes = b""
    """At most one byte more than is kept; the extra byte shows that there is more."""
    broken: str = ""
    """The reason why the answer is incomplete; empty if it is complete."""

    @property
    def line(self) -> str:
        return f"{self.status} {_legible(self.reason)}".rstrip()


def result(answer: HttpResponse) -> Raw:
    """Return the part of the answer that the run keeps as its result."""
    try:
        text = _text(answer)
        kept: dict[str, Any] = {
            "status": answer.status,
            "headers": {
                name: _legible(answer.headers[name])[:MAX_HEADER] for name in KEPT_HEADERS if name in answer.headers
            },
            "body": _value(answer, text),
        }
        if answer.broken or len(answer.body) > MAX_BODY:
            kept["truncated"] = True
        return Raw(msgspec.json.encode(kept))
    except Exception as error:
        reason = f"the answer cannot be stored: {results.words(error)}"
        return Raw(msgspec.json.encode({"status": answer.status, "notKept": reason}))


def message(answer: HttpResponse) -> str:
    """Return the error message for a failed answer."""
    shown = " ".join(_text(answer)[:MAX_SHOWN].split())
    broken = f" ({answer.broken})" if answer.broken else ""
    return answer.line + (f": {shown}" if shown else "") + broken


def retry_after(headers: Mapping[str, str]) -> Micros | None:
    """Return how long the target asks to wait, at most a day; None if it does not say. `Retry-After` is a number of
    seconds, or a date that is compared with the answer's own date.
    """
    value = headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdigit():
        return min(int(value[:9]) * SECOND, DAY)
    try:
        wait = parsedate_to_datetime(value) - parsedate_to_datetime(headers.get("Date", ""))
    except (ValueError, TypeError, ArithmeticError):
        return None
    return min(max(int(wait.total_seconds()), 0) * SECOND, DAY)


def _legible(value: str) -> str:
    """Decode a header. Bytes that are not UTF-8 arrive as lone surrogates; they are read as Latin-1, the former
    encoding of headers.
    """
    if value.isascii():
        return value
    raw = value.encode("utf-8", "surrogateescape")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _charset(answer: HttpResponse) -> str:
    named = _CHARSET.search(answer.headers.get("Content-Type", ""))
    return named[1] if named and _CHARSETS.fullmatch(named[1]) else "utf-8"


def _text(answer: HttpResponse) -> str:
    body = answer.body[:MAX_BODY]
    try:
        return results.clean(body.decode(_charset(answer), "replace"))
    except (LookupError, ValueError):
        return body.decode("utf-8", "replace")


def _value(answer: HttpResponse, text: str) -> object:
    """Return a JSON body as JSON, unless it is incomplete, invalid or nested too deep; otherwise return it as text."""
    kind = answer.headers.get("Content-Type", "").partition(";")[0].lower()
    if answer.broken or len(answer.body) > MAX_BODY or not _JSON.search(kind):
        return text
    encoded = text.encode()
    try:
        msgspec.json.decode(encoded)
        return text if results.is_too_deep(encoded) else Raw(encoded)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return text
