"""What a check of an installation found."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Verdict = Literal["ok", "warning", "problem", "skipped"]


class Finding(Struct, frozen=True):
    check: str
    """A stable name."""
    status: Verdict
    message: str
    remedy: str = ""
    """What to do about it; empty if nothing has to be done."""


def ok(check: str, message: str) -> Finding:
    return Finding(check, "ok", message)


def skipped(check: str, message: str) -> Finding:
    return Finding(check, "skipped", message)


def warning(check: str, message: str, remedy: str) -> Finding:
    return Finding(check, "warning", message, remedy)


def problem(check: str, message: str, remedy: str) -> Finding:
    return Finding(check, "problem", message, remedy)
