"""The answer of a server to readiness checks of load balancers and supervisors."""

from __future__ import annotations

from msgspec import Struct


class Readiness(Struct, frozen=True):
    checks: dict[str, bool]
    """The result of each check, by name: True if that part of the server works. Requests and runs depend on all of
    these parts."""
    problems: dict[str, str]
    """The reasons why checks failed, by the name of the check. A reason is the kind of an error, never its message."""
    degraded: dict[str, str]
    """The reasons why loops fail that no request and no run depends on, by the name of the loop. Such a loop does not
    make the server unready."""

    @property
    def is_ready(self) -> bool:
        return not self.problems
