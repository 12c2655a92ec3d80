"""Reads request bodies within bounds. Values that the store cannot keep are refused here, with a JSON pointer."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from timeball.domain.errors import Invalid
from timeball.jobspec.errors import Malformed
from timeball.jobspec.validation_text import explain, pointer
from timeball.ports.clock import Clock
from timeball.slices import Steps, at_once, in_slices

MAX_BODY: Final = 1 << 20
MAX_BATCH: Final = 32 << 20
MAX_DEPTH: Final = 64
"""Maximum depth of nested arrays and objects: far more than real documents have, far less than the stack of a parser
allows.
"""
MAX_EXPONENTS: Final = 1_000
"""Maximum number of numbers with an exponent of at least three digits in one body. Parsing one takes up to 10 µs, 200
times as long as other numbers: 1 MiB of `1e308` blocked the event loop for 1.7 s.
"""
MIN_EXPONENTS_SIZE: Final = 4 * MAX_EXPONENTS
"""A body with more than `MAX_EXPONENTS` numbers with an exponent of at least three digits has more bytes than this."""
FEW_EXPONENTS: Final = 20
"""If a body has at most this many numbers with an exponent of at least three digits, `exponents` returns 0."""
MAX_CONTAINERS: Final = 50_000
"""Maximum number of arrays and objects in one body. 1 MiB can hold 350,000, and creating and checking these takes a
third of a second.
"""
FEW_CONTAINERS: Final = 1_000
"""If a body has at most this many arrays and objects, they are not counted exactly."""
SMALL_BODY: Final = 16_384
"""Maximum number of bytes of a body that is read without yielding to the event loop."""
VALUES_PER_STEP: Final = 2_000
"""Number of values that are checked before the check yields, so that the event loop can do other work."""

# NUL, which a text of PostgreSQL cannot contain, and halves of surrogate pairs.
_SUSPICIOUS_TEXT = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
# Matches a number that may exceed 64 bits, after all digits were replaced by zeros: 15 times as fast as `[0-9]{19}`.
_LONG_NUMBER = b"0" * 19
_AS_ZEROS = bytes.maketrans(b"123456789E", b"000000000e")
_EXPONENTS: Final = (b"e000", b"e+000", b"e-000")
_TEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_INT64 = range(-(1 << 63), 1 << 63)


def is_suspicious(raw: bytes) -> bool:
    """Return True if the body may contain a value that no store can keep, so that each value must be checked. False
    is certain; True may be wrong. The search of the text takes less time than a check of each value.
    """
    return _LONG_NUMBER in raw.translate(_AS_ZEROS) or _SUSPICIOUS_TEXT.search(raw) is not None


def has_exponents(raw: bytes) -> bool:
    """Return True if the body has more than `MAX_EXPONENTS` numbers with an exponent of at least three digits. Strings
    that look like such numbers count as well.
    """
    return len(raw) > MIN_EXPONENTS_SIZE and _exponents(raw) > MAX_EXPONENTS


def exponents(raw: bytes) -> int:
    """Return how many numbers have an exponent of at least three digits; 0 if there are no more than
    `FEW_EXPONENTS`."""
    return _exponents(_TEXT.sub(b"", raw)) if _exponents(raw) > FEW_EXPONENTS else 0


def _exponents(raw: bytes) -> int:
    return sum(map(raw.translate(_AS_ZEROS).count, _EXPONENTS))


def check(raw: bytes) -> None:
    """Raise an error for a body of any type that is not UTF-8, is nested too deeply, takes too long to parse, or has
    values that no store can keep.
    """
    if _asks_for_a_look(raw):
        check_values(parse(raw))


async def check_in_slices(raw: bytes, clock: Clock) -> None:
    """Raise an error for a body that is not UTF-8, is nested too deeply, takes too long to parse, or has values that no
    store can keep, like `check`. The body may be large: it is checked in slices, between which the event loop gets a
    turn."""
    if len(raw) <= SMALL_BODY:
        check(raw)
    else:
        await in_slices(checking(raw), clock)


def checking(raw: bytes) -> Steps[None]:
    if _asks_for_a_look(raw):
        yield
        document = parse(raw)
        yield
        yield from checking_values(document)


def _asks_for_a_look(raw: bytes) -> bool:
    """Return True if each value of a body must be checked. Raise an error for a body that is not UTF-8 or takes too
    long to parse."""
    check_text(raw)
    if len(raw) <= MIN_EXPONENTS_SIZE and raw.count(b"{") + raw.count(b"[") <= MAX_DEPTH:  # the usual case
        return is_suspicious(raw)
    if has_exponents(raw) and has_exponents(_TEXT.sub(b"", raw)):
        raise Invalid(
            f"the body has more than {MAX_EXPONENTS:,} numbers with exponents of three digits; send them as strings"
        )
    containers = count_containers(raw)
    if containers > MAX_CONTAINERS:
        raise Invalid(f"the body has more than {MAX_CONTAINERS:,} arrays and objects")
    return containers > MAX_DEPTH or is_suspicious(raw)


def count_containers(raw: bytes, few: int = FEW_CONTAINERS) -> int:
    """Return the number of arrays and objects of a body. If the body has more than `few` opening brackets, those in
    strings are left out; otherwise they are counted as well, which is faster."""
    found = raw.count(b"{") + raw.count(b"[")
    if found > few:
        rest = _TEXT.sub(b"", raw)
        found = rest.count(b"{") + rest.count(b"[")
    return found


def check_text(raw: bytes) -> None:
    if not raw.isascii():
        try:
            raw.decode()
        except UnicodeDecodeError as error:
            raise Malformed(f"the body is not UTF-8: {error.reason} at byte {error.start}") from None


def parse(raw: bytes) -> Any:
    """Decode a JSON value of any type. Raise `Malformed` if the body is not JSON."""
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
    """Raise `Invalid`, with a pointer, if no store can keep one of the values, or if they are nested too deeply."""
    at_once(checking_values(document))


def checking_values(document: Any) -> Steps[None]:
    _check_scalar(document, ())
    waiting: list[tuple[Any, tuple[str, ...]]] = [(document, ())]
    looked_at = 0
    while waiting:
        parent, path = waiting.pop()
        if len(path) >= MAX_DEPTH:
            raise _too_deep(pointer(path[:1]))
        looked_at += 1
        if isinstance(parent, dict):
            for name, item in parent.items():
                looked_at += 1
                if looked_at > VALUES_PER_STEP:
                    looked_at = 0
                    yield
                if "\x00" in name:
                    raise Invalid("a name must not contain the NUL character", pointer(path))
                if isinstance(item, dict | list):
                    waiting.append((item, (*path, name)))
                elif item.__class__ is str or item.__class__ is int:
                    _check_scalar(item, (*path, name))
        elif isinstance(parent, list):
            for index, item in enumerate(parent):
                looked_at += 1
                if looked_at > VALUES_PER_STEP:
                    looked_at = 0
                    yield
                if isinstance(item, dict | list):
                    waiting.append((item, (*path, str(index))))
                elif item.__class__ is str or item.__class__ is int:
                    _check_scalar(item, (*path, str(index)))


def _check_scalar(value: Any, path: tuple[str, ...]) -> None:
    if isinstance(value, str) and "\x00" in value:
        raise Invalid("a string must not contain the NUL character", pointer(path))
    if isinstance(value, int) and value not in _INT64:
        raise Invalid("an integer must fit into 64 bits; send it as a string", pointer(path))


def check_depth(value: Any) -> None:
    """Raise `Invalid` if the parameters of a job are nested too deeply. For specs that were decoded without
    `check_values`, which checks that as well. This is cheap for flat values.
    """
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


async def read(raw: bytes, decoder: msgspec.json.Decoder[Any], clock: Clock) -> Any:
    """Check a body and decode it as the type of the decoder."""
    await check_in_slices(raw, clock)
    return decode(raw, decoder)


def decode(raw: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    """Decode a body as the type of the decoder, without checking its values one by one."""
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


def _too_deep(at: str) -> Invalid:
    return Invalid(f"arrays and objects are nested more than {MAX_DEPTH} deep", at)
