"""Read request bodies: bounded, and only what the store can keep. Bad bytes end here, with a pointer."""

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
"""Of nested arrays and objects: far more than people write, far less than a parser's stack."""
MAX_EXPONENTS: Final = 1_000
"""Numbers with an exponent of three digits in one body. To read one of them takes up to 10 µs, 200 times as long as
others: 1 MiB of `1e308` held the event loop for 1.7 s."""
MIN_EXPONENTS_SIZE: Final = 4 * MAX_EXPONENTS
"""Bytes of the shortest body with more of them than that."""
FEW_EXPONENTS: Final = 20
MAX_CONTAINERS: Final = 50_000
"""Arrays and objects in one body: to make and look through 350,000 of them, which fit into 1 MiB, takes a third of a
second."""
FEW_CONTAINERS: Final = 1_000
SMALL_BODY: Final = 16_384
"""Bytes of a body that is read at once: no work on it takes long."""
VALUES_PER_STEP: Final = 2_000
"""Values that are looked at between two stops."""

# NUL (PostgreSQL's text cannot hold it) and halves of surrogate pairs.
_SUSPICIOUS_TEXT = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
# A number that may be beyond 64 bits, with all its digits made zeros: found 15 times as fast as by `[0-9]{19}`.
_LONG_NUMBER = b"0" * 19
_AS_ZEROS = bytes.maketrans(b"123456789E", b"000000000e")
_EXPONENTS: Final = (b"e000", b"e+000", b"e-000")
_TEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_INT64 = range(-(1 << 63), 1 << 63)


def is_suspicious(raw: bytes) -> bool:
    """Whether something may be in there that must be looked at value by value. Cheap, and never wrong with False."""
    return _LONG_NUMBER in raw.translate(_AS_ZEROS) or _SUSPICIOUS_TEXT.search(raw) is not None


def has_exponents(raw: bytes) -> bool:
    """Whether numbers are in there that take long to read, in a number that counts. Texts may look like such ones."""
    return len(raw) > MIN_EXPONENTS_SIZE and _exponents(raw) > MAX_EXPONENTS


def exponents(raw: bytes) -> int:
    """How many numbers take long to read; 0 if they are few."""
    return _exponents(_TEXT.sub(b"", raw)) if _exponents(raw) > FEW_EXPONENTS else 0


def _exponents(raw: bytes) -> int:
    return sum(map(raw.translate(_AS_ZEROS).count, _EXPONENTS))


def check(raw: bytes) -> None:
    """Refuse what is no text, too deep, or cannot be stored or read in a moment, whatever type the body has."""
    if _asks_for_a_look(raw):
        check_values(parse(raw))


async def check_in_slices(raw: bytes, clock: Clock) -> None:
    """The same for a body that may be large."""
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
    """Whether a body has to be looked at value by value."""
    check_text(raw)
    if len(raw) <= MIN_EXPONENTS_SIZE and raw.count(b"{") + raw.count(b"[") <= MAX_DEPTH:  # as nearly all are
        return is_suspicious(raw)
    if has_exponents(raw) and has_exponents(_TEXT.sub(b"", raw)):
        raise Invalid(
            f"the body has more than {MAX_EXPONENTS:,} numbers with exponents of three digits; write them as texts"
        )
    containers = count_containers(raw)
    if containers > MAX_CONTAINERS:
        raise Invalid(f"the body has more than {MAX_CONTAINERS:,} arrays and objects")
    return containers > MAX_DEPTH or is_suspicious(raw)


def count_containers(raw: bytes, few: int = FEW_CONTAINERS) -> int:
    """Arrays and objects; with brackets in texts, as long as they are few."""
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


async def read(raw: bytes, decoder: msgspec.json.Decoder[Any], clock: Clock) -> Any:
    """A body of the decoder's type."""
    await check_in_slices(raw, clock)
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


def _too_deep(at: str) -> Invalid:
    return Invalid(f"arrays and objects are nested more than {MAX_DEPTH} deep", at)
