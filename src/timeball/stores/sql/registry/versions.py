"""Refuses a change that is based on an old version."""

from __future__ import annotations

from timeball.domain.errors import PreconditionFailed


def require_version(noun: str, name: str, version: int, if_match: int | None) -> None:
    """Raise `PreconditionFailed` if the version is not `if_match`; None accepts every version. Version 0 says that
    there is no such resource."""
    if if_match is None or version == if_match:
        return
    found = f"{noun} {name!r} is at version {version}" if version else f"there is no {noun} {name!r}"
    raise PreconditionFailed(f"{found}, not {if_match}; read it again" if version else found)
