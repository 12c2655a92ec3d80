"""What is kept of an answer.

The status alone decides whether a call succeeded (I30). Whatever cannot be read, decoded or kept of the rest is cut,
replaced or left out: nothing here raises.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

import aiohttp
import msgspec
from msgspec import Raw, Struct

from timeball.domain.instant import DAY, SECOND, Micros
from timeball.executors import results

MAX_BODY: Final = 64 * 1024
"""Bytes of the answer that are kept; the rest is not even read."""
MAX_HEADER: Final = 8 * 1024
"""Characters of a header that are kept."""
MAX_SHOWN: Final = 300
"""Characters of a failing answer that go into the message."""
KEPT_HEADERS: Final = ("Content-Type", "Content-Length", "Date", "ETag", "Last-Modified", "Location", "Retry-After")

_JSON: Final = re.compile(r"[/+]json\b")
_CHARSET: Final = re.compile(r";\s*charset=\"?([\w.-]{1,40})", re.IGNORECASE | re.ASCII)
_CHARSETS: Final = re.compile(
    r"utf-?8|utf-?(16|32)(-?[lb]e)?|(us-)?ascii|latin-?1|iso-?8859-\d{1,2}|(windows-|cp)125[0-8]|cp(437|850|852|866|932)"
    r"|koi8-[rtu]|gb(k|2312|18030)|big5(-?hkscs)?|euc-(jp|kr)|shift[-_]jis|iso-2022-(jp|kr)|tis-620",
    re.IGNORECASE | re.ASCII,
)
"""Encodings of the web. Python has others, which take quadratic time, raise, or make text that no encoder takes, and
remembers each name that it was ever asked for."""


class HttpResponse(Struct, frozen=True):
    """An answer as far as it arrived."""

    status: int
    reason: str = ""
    headers: Mapping[str, str] = {}
    body: bytes = b""
    """One byte more than is kept, if there is more."""
    broken: str = ""
    """Why it is not whole."""

    @property
    def line(self) -> str:
        return f"{self.status} {_legible(self.reason)}".rstrip()


async def read(response: aiohttp.ClientResponse, deadline: float | None) -> HttpResponse:
    """The beginning of an answer. It may break off, or not end before the deadline of the loop's clock."""
    parts: list[bytes] = []
    left = MAX_BODY + 1
    broken = ""
    try:
        async with asyncio.timeout_at(deadline):
            while left and (part := await response.content.read(left)):
                parts.append(part)
                left -= len(part)
    except TimeoutError:
        broken = "its body did not end in time"
    except Exception as error:
        broken = f"its body cannot be read to its end: {results.words(error)}"
    return HttpResponse(response.status, response.reason or "", response.headers, b"".join(parts), broken)


def result(answer: HttpResponse) -> Raw:
    """What a run keeps of it."""
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
        reason = f"the answer cannot be rendered: {results.words(error)}"
        return Raw(msgspec.json.encode({"status": answer.status, "notKept": reason}))


def message(answer: HttpResponse) -> str:
    """Of an answer that is a failure."""
    shown = " ".join(_text(answer)[:MAX_SHOWN].split())
    broken = f" ({answer.broken})" if answer.broken else ""
    return answer.line + (f": {shown}" if shown else "") + broken


def retry_after(headers: Mapping[str, str]) -> Micros | None:
    """How long the target asks to wait: seconds, or a date, which counts from the answer's own."""
    value = headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdigit():
        return min(int(value[:9]) * SECOND, DAY)
    try:
        wait = parsedate_to_datetime(value) - parsedate_to_datetime(headers.get("Date", ""))
    except (ValueError, TypeError, ArithmeticError):
        return None
    return min(max(int(wait.total_seconds()), 0) * SECOND, DAY)


def _legible(value: str) -> str:
    """Bytes of a header that are no UTF-8 arrive as halves of surrogate pairs. They are Latin-1, as headers once
    were."""
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
    """JSON as what it is, unless no parser could read it again; everything else as text."""
    kind = answer.headers.get("Content-Type", "").partition(";")[0].lower()
    if answer.broken or len(answer.body) > MAX_BODY or not _JSON.search(kind):
        return text
    encoded = text.encode()
    try:
        msgspec.json.decode(encoded)
        return text if results.is_too_deep(encoded) else Raw(encoded)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return text
