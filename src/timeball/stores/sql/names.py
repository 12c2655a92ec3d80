"""Names for values in SQL statements: `{state.ready}` stands for `'ready'`, `{hold.turn}` for `2`.

Names are resolved when the statements are read, so that the database gets literals: it uses a partial index only for a
statement with the same literal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum, IntEnum, StrEnum
from functools import reduce
from operator import or_
from typing import Final, get_args

from timeball.domain.identity.user import UserState
from timeball.domain.job.job import JobState
from timeball.domain.planning.backfill import BackfillState
from timeball.domain.run.ledger import Origin, Verdict
from timeball.domain.run.lifecycle import Hold, State
from timeball.domain.run.status import Status
from timeball.domain.tenant import TenantState
from timeball.domain.workflow.definition import WORKFLOW_PROFILE
from timeball.domain.workflow.progress import TaskState

WEAVER: Final = "weaver"
"""The session id in the rows of running workflow runs. It belongs to no worker."""


class FlowState(StrEnum):
    """States of a workflow run in the column `workflow_runs.state`."""

    LIVE = "live"
    STOPPING = "stopping"
    """The workflow run was cancelled: no more tasks begin, and it ends with the last running task."""
    ENDED = "ended"


class LeaseState(IntEnum):
    """States of the lease of a session in the column `workers.lapsed`."""

    HELD = 0
    """The lease is valid until `lease_until`, and may be renewed until then."""
    LAPSED = 1
    REVOKED = 2
    """The API key was revoked: the lease is valid until `lease_until`, and cannot be renewed."""


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
    "tenant": {state: state for state in get_args(TenantState)},
    "user": {state: state for state in get_args(UserState)},
    "session": {"weaver": WEAVER},
    "profile": {"workflow": WORKFLOW_PROFILE},
}
_NAMED: Final = re.compile(r"\{(\w+)\.(\w+(?:\+\w+)*)\}")


def resolve(text: str) -> str:
    """Replace the names in a SQL text by their values. `{hold.overlap+turn}` is the sum of both bits."""
    return _NAMED.sub(_value, text)


def _value(match: re.Match[str]) -> str:
    kind, names = match.groups()
    values = [NAMES[kind][name] for name in names.split("+")]
    match values:
        case [str(word)]:
            return f"'{word}'"
        case _:
            return str(reduce(or_, map(int, values)))
