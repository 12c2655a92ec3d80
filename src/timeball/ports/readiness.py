"""The answer of a server to readiness checks of load balancers and supervisors."""

from __future__ import annotations

from msgspec import Struct


class Readiness(Struct, frozen=True):
    checks: dict[str, bool]
    """By name: True if a part that requests and runs depend on works."""
    problems: dict[str, str]
    """By name: why a check failed. The text is the kind of an error, never its message."""
    degraded: dict[str, str]
    """By name: why a loop fails that no request and no run depends on. Such a loop does not make the server unready."""

    @property
    def is_ready(self) -> bool:
        return not self.problems
