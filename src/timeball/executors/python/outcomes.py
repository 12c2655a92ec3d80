"""What a Python function reported, returned or raised, in the form that the worker stores. Child processes import this
module when they start, so it imports little.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Raw

from timeball.domain.run.lifecycle import Failed, Failure, Succeeded
from timeball.executors import results

MAX_TRACEBACK: Final = 256 * 1024
"""Maximum number of characters of a traceback that are logged: its beginning and its end."""

Log = Callable[[str, str], None]
"""A function that appends output to a stream: called with the name of the stream and the text. Never raises."""

_NOTHING: Final = Succeeded()
_encode = msgspec.json.Encoder().encode


def line(text: object) -> str:
    """Return the text to log, which ends with a line break. For an object that cannot be converted to text, this is the
    name of its type, so that logging does not fail the function of the job.
    """
    if not isinstance(text, str):
        text = results.text_of(text) or type(text).__name__
    return text if text.endswith("\n") else f"{text}\n"


def step(fraction: Any, note: object) -> tuple[float, str] | None:
    """Return the progress in the form of a report, or None if the arguments are not valid. Invalid arguments do not
    fail the function of the job."""
    try:
        return float(fraction), results.text_of(note)
    except BaseException:
        return None


def returned(name: str, result: object, log: Log) -> Succeeded:
    """Return the outcome of a function that returned: always a success. A result that cannot be stored is replaced by a
    note.
    """
    if result is None:
        return _NOTHING
    try:
        encoded = _encode(result)
        if len(encoded) > results.LARGEST:
            reason = f"task {name!r} returned {len(encoded)} bytes of JSON; at most {results.LARGEST} are kept"
        elif results.is_too_deep(encoded):
            reason = f"task {name!r} returned a value that is nested more than {results.DEEPEST} levels deep"
        else:
            return Succeeded(Raw(encoded))
    except BaseException as error:  # encoding an object may run code of its class
        reason = f"task {name!r} returned a value that is not JSON: {results.words(error)}; return plain values"
    kept = results.not_kept(reason)
    log("system", f"{msgspec.json.decode(kept)['notKept']}\n")
    return Succeeded(kept)


def raised(error: BaseException, log: Log) -> Failed:
    """Return the failure for an exception. Its traceback is logged, without the frames of Timeball."""
    name = results.clean(type(error).__name__)
    text_of = results.text_of(error)
    message = f"{name}: {text_of}" if text_of else name
    try:
        beginning = error.__traceback__.tb_next if error.__traceback__ else None
        text = "".join(traceback.format_exception(type(error), error, beginning))
    except BaseException:  # rendering may run code of its class
        text = f"{message}\n[the traceback cannot be rendered]\n"
    if len(text) > MAX_TRACEBACK:
        text = f"{text[: MAX_TRACEBACK // 2]}\n[…]\n{text[-MAX_TRACEBACK // 2 :]}"
    log("stderr", text)
    return Failed(Failure(kind="exception", message=message, exceptions=exception_names(type(error))))


def exception_names(kind: type[BaseException]) -> tuple[str, ...]:
    """Return the short and qualified names of the class and its bases, most specific first."""
    names: list[str] = []
    for base in kind.__mro__:
        if base is not object:
            names.append(results.clean(base.__name__))
            if module := results.text_of(base.__module__):
                names.append(results.clean(f"{module}.{base.__qualname__}"))
    return tuple(names)
