"""The base of all answers."""

from __future__ import annotations

from msgspec import Struct


class Answer(Struct, frozen=True, rename="camel", kw_only=True):
    """Shared shape: camelCase on the wire, attributes here."""
