"""Read request bodies: bounded, and only what the store can keep. Bad bytes end here, with a pointer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from starlette.types import Receive

from timeball.api.explain import explain, pointer
from timeball.api.unreadable import Malformed, UnsupportedEncoding
from timeball.domain.errors import Invalid, TooLarge

MAX_BODY: Final = 1 << 20
MAX_BATCH: Final = 32 << 20
MAX_DEPTH: Final = 64
"""Of nested arrays and objects: far more than people write, far less than a parser's stack."""

# NUL (PostgreSQL's text cannot hold it) and halves of surrogate pairs.
_SUSPICIOUS_TEXT = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
# A number that may be beyond 64 bits, with all its digits made zeros: found 15 times as fast as by `[0-9]{19}`.
_LONG_NUMBER = b"0" * 19
_AS_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_INT64 = range(-(1 << 63), 1 << 63)


def check_encoding(headers: Mapping[bytes, bytes]) -> None:
    if headers.get(b"content-encoding", b"identity").strip().lower() not in (b"", b"identity"):
        raise UnsupportedEncoding("send the body without Content-Encoding")


async def read_body(headers: Mapping[bytes, bytes], receive: Receive, limit: int) -> bytes:
    """The whole body, refused as soon as it is known to be too large: also without a Content-Length."""
    check_encoding(headers)
    length = headers.get(b"content-length", b"")
    if length.isdigit() and int(length[:20]) > limit:
        raise _too_large(limit)
    message = await receive()
    body: bytes = message.get("body", b"")
    if message.get("more_body"):
        chunks, size = [body], len(body)
        while message.get("more_body") and size <= limit:
            message = await receive()
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
        body = b"".join(chunks)
    if message["type"] == "http.disconnect":
        raise Malformed("the body ended early")
    if len(body) > limit:
        raise _too_large(limit)
    return body


def is_suspicious(raw: bytes) -> bool:
    """Whether something may be in there that must be looked at value by value. Cheap, and never wrong with False."""
    return _LONG_NUMBER in raw.translate(_AS_ZEROS) or _SUSPICIOUS_TEXT.search(raw) is not None


def check(raw: bytes) -> None:
    """Refuse what is no text, too deep, or cannot be stored, whatever type the body has."""
    check_text(raw)
    if is_suspicious(raw) or raw.count(b"{") + raw.count(b"[") > MAX_DEPTH:
        check_values(parse(raw))


def check_text(raw: bytes) -> None:
    if not raw.isascii():
        try:
            raw.decode()
        except UnicodeDecodeError as error:
            raise Malformed(f"the body is not UTF-8: {error.reason} at byte {error.start}") from None


def parse(raw: bytes) -> Any:
    """Any JSON value."""
    try:
        return msgspec.json.decode(raw)
    except RecursionError:
        raise _too_deep("") from None
    except msgspec.ValidationError as error:
        found = explain(error, Any, None)
        raise Invalid(found.detail, found.pointer) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Malformed(f"the body is not JSON: {error}" if raw else "the body is empty; send JSON") from None


def check_values(document: Any) -> None:
    """Refuse values that no store can keep, with a pointer to the first one."""
    _check_scalar(document, ())
    waiting: list[tuple[Any, tuple[str, ...]]] = [(document, ())]
    while waiting:
        parent, path = waiting.pop()
        if len(path) >= MAX_DEPTH:
            raise _too_deep(pointer(path[:1]))
        if isinstance(parent, dict):
            for name, item in parent.items():
                if "\x00" in name:
                    raise Invalid("a name must not contain the NUL character", pointer(path))
                if isinstance(item, dict | list):
                    waiting.append((item, (*path, name)))
                elif item.__class__ is str or item.__class__ is int:
                    _check_scalar(item, (*path, name))
        elif isinstance(parent, list):
            for index, item in enumerate(parent):
                if isinstance(item, dict | list):
                    waiting.append((item, (*path, str(index))))
                elif item.__class__ is str or item.__class__ is int:
                    _check_scalar(item, (*path, str(index)))


def _check_scalar(value: Any, path: tuple[str, ...]) -> None:
    if isinstance(value, str) and "\x00" in value:
        raise Invalid("a text must not contain the NUL character", pointer(path))
    if isinstance(value, int) and value not in _INT64:
        raise Invalid("a whole number must fit into 64 bits; write it as a text", pointer(path))


def check_depth(value: Any) -> None:
    """The part of `check_values` that bytes cannot tell; cheap for flat values."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            item
            for parent in level
            for item in (parent.values() if isinstance(parent, dict) else parent)
            if item.__class__ is dict or item.__class__ is list
        ]
        if not level:
            return
    raise _too_deep("/parameters")


def read(raw: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    """A body of the decoder's type."""
    check(raw)
    return decode(raw, decoder)


def decode(raw: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    """Without a look at the values."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        found = explain(error, decoder.type, parse(raw))
        raise Invalid(found.detail, found.pointer) from None
    except RecursionError:
        raise _too_deep("") from None
    except msgspec.DecodeError:
        parse(raw)
        raise


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"the body is larger than {limit >> 20} MiB")


def _too_deep(at: str) -> Invalid:
    return Invalid(f"arrays and objects are nested more than {MAX_DEPTH} deep", at)
