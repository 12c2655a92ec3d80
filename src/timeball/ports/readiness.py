"""What a server says about itself to load balancers and supervisors."""

from __future__ import annotations

from msgspec import Struct


class Readiness(Struct, frozen=True):
    checks: dict[str, bool]
    """What requests and runs depend on, and whether it works."""
    problems: dict[str, str]
    """What is wrong with the checks that failed: a kind of error, never its message."""
    degraded: dict[str, str]
    """The same of loops that nothing waits for: they do not make a server unready."""

    @property
    def is_ready(self) -> bool:
        return not self.problems
