"""The base class of all answers."""

from __future__ import annotations

from msgspec import Struct


class Model(Struct, frozen=True, rename="camel", kw_only=True):
    """Base class of all answers: camelCase in JSON, snake_case in Python."""
