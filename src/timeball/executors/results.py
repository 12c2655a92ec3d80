"""What may be kept of a result: JSON of a bounded size and depth, so that whoever reads it later can."""

from __future__ import annotations

from typing import Final

import msgspec

LARGEST: Final = 1024 * 1024
"""Bytes of JSON."""
DEEPEST: Final = 128
"""Nested arrays and objects: far more than people write, far less than a parser's stack."""


def is_too_deep(encoded: bytes) -> bool:
    """Whether this JSON is nested deeper than is kept. Costs next to nothing for flat values."""
    if encoded.count(b"[") + encoded.count(b"{") <= DEEPEST:
        return False
    try:
        level = [msgspec.json.decode(encoded)]
    except RecursionError:
        return True
    for _ in range(DEEPEST):
        level = [
            item
            for parent in level
            if isinstance(parent, dict | list)
            for item in (parent.values() if isinstance(parent, dict) else parent)
        ]
        if not level:
            return False
    return any(isinstance(item, dict | list) for item in level)
