"""The names under which statements mention values: `{state.ready}` stands for `'ready'`, `{hold.turn}` for `2`.

A name is resolved when the statements are read, so that the database gets the value itself: a partial index serves a
statement only if both mention the same literal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum, IntEnum, StrEnum
from functools import reduce
from operator import or_
from typing import Final

from timeball.domain.job.job import JobState
from timeball.domain.planning.backfill import BackfillState
from timeball.domain.run.ledger import Origin, Verdict
from timeball.domain.run.lifecycle import Hold, State
from timeball.domain.run.status import Status
from timeball.domain.workflow.definition import WOVEN
from timeball.domain.workflow.progress import TaskState

WEAVER: Final = "weaver"
"""The session that holds workflow runs: that of no worker."""


class FlowState(StrEnum):
    """Where a workflow run stands, in the column `workflow_runs.state`."""

    LIVE = "live"
    STOPPING = "stopping"
    """It was cancelled: no more tasks begin, and it ends with the last that runs."""
    ENDED = "ended"


class LeaseState(IntEnum):
    """What became of a session's lease, in the column `workers.lapsed`."""

    HELD = 0
    """Until `lease_until`, and may be renewed until then."""
    LAPSED = 1
    REVOKED = 2
    """Its key was revoked: it lasts until `lease_until`, and is not renewed."""


_Values = Mapping[str, str | int]


def _members(kind: type[Enum]) -> _Values:
    return {member.name.lower(): member.value for member in kind}


NAMES: Final[Mapping[str, _Values]] = {
    "state": _members(State),
    "hold": _members(Hold),
    "status": _members(Status),
    "origin": _members(Origin),
    "verdict": _members(Verdict),
    "job": _members(JobState),
    "backfill": _members(BackfillState),
    "flow": _members(FlowState),
    "task": _members(TaskState),
    "lease": _members(LeaseState),
    "session": {"weaver": WEAVER},
    "profile": {"workflow": WOVEN},
}
_NAMED: Final = re.compile(r"\{(\w+)\.(\w+(?:\+\w+)*)\}")


def resolve(text: str) -> str:
    """SQL with the values of the names in it; `{hold.overlap+turn}` is both bits."""
    return _NAMED.sub(_value, text)


def _value(match: re.Match[str]) -> str:
    kind, names = match.groups()
    values = [NAMES[kind][name] for name in names.split("+")]
    match values:
        case [str(word)]:
            return f"'{word}'"
        case _:
            return str(reduce(or_, map(int, values)))
