"""All tables that are written in bulk, by name."""

from __future__ import annotations

from typing import Final

from timeball.stores.sql.schema.jobs import (
    BACKFILLS,
    ECHOES,
    FOLLOWS,
    IDEMPOTENCY,
    JOB_CALENDARS,
    JOBS,
    PLANNING_FAILURES,
    TAGS,
    VERSIONS,
)
from timeball.stores.sql.schema.runs import ATTEMPTS, EDITED, GATES, HISTORY, LOGS, PREEMPTIONS, PROFILES, RUNS
from timeball.stores.sql.schema.workflows import WORKFLOW_NODES, WORKFLOW_RUNS, WORKFLOW_TASKS

_ALL: Final = (
    JOBS,
    RUNS,
    HISTORY,
    ATTEMPTS,
    LOGS,
    TAGS,
    JOB_CALENDARS,
    FOLLOWS,
    ECHOES,
    IDEMPOTENCY,
    GATES,
    PROFILES,
    VERSIONS,
    EDITED,
    BACKFILLS,
    PREEMPTIONS,
    PLANNING_FAILURES,
    WORKFLOW_RUNS,
    WORKFLOW_TASKS,
    WORKFLOW_NODES,
)
TABLES: Final = {table.name: table for table in _ALL}
