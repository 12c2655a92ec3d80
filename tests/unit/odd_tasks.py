"""Functions whose results, exceptions and progress cannot be rendered. Some tests run them in processes of their
own."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo
from typing import Any

import timeball
from timeball.tasks import Context


class NoWords:
    """Its words raise."""

    def __repr__(self) -> str:
        raise ValueError

    __str__ = __repr__


class Leaving(tzinfo):
    """Asked for its offset, it wants the program to end."""

    def utcoffset(self, when: datetime | None) -> timedelta:
        raise SystemExit(3)


class Mute(LookupError):
    def __str__(self) -> str:
        raise ValueError


class Rude(LookupError):
    def __str__(self) -> str:
        raise SystemExit(3)


class Numb(LookupError):
    def __str__(self) -> Any:
        return 5


class Homeless(LookupError):
    pass


Homeless.__module__ = NoWords()  # type: ignore[assignment]

PROGRESS: list[tuple[Any, Any]] = [("half", ""), (None, ""), (0.5, "\ud800"), (0.6, 7), (0.7, NoWords()), (1.0, "end")]


def an_object() -> object:
    return object()


def no_words() -> object:
    return NoWords()


def leaving() -> object:
    return datetime(2027, 1, 1, tzinfo=Leaving())


def half_a_character() -> object:
    return {"name": "\ud800"}


def itself() -> object:
    value: list[object] = []
    value.append(value)
    return value


def too_large() -> object:
    return "x" * 2_000_000


def too_deep() -> object:
    value: object = [1] * 200
    for _ in range(300):
        value = [value]
    return value


def mute() -> object:
    raise Mute


def rude() -> object:
    raise Rude


def numb() -> object:
    raise Numb


def homeless() -> object:
    raise Homeless("lost")


def half_a_word() -> object:
    raise LookupError("\ud800")


def talkative() -> object:
    raise LookupError("x" * 3_000_000)


RESULTS = ("an_object", "no_words", "leaving", "half_a_character", "itself", "too_large", "too_deep")
FAILURES = ("mute", "rude", "numb", "homeless", "half_a_word", "talkative")

for _name in (*RESULTS, *FAILURES):
    timeball.task(f"odd.{_name}", mode="process")(globals()[_name])


@timeball.task("odd.report", mode="process")
def report(ctx: Context) -> str:
    for fraction, note in PROGRESS:
        ctx.progress(fraction, note)
    return "done"
