"""All tables that are written in bulk, by name."""

from __future__ import annotations

from typing import Final

from timeball.stores.sql.schema.audit_log import AUDIT_HEADS, AUDIT_LOG
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
from timeball.stores.sql.schema.runs import (
    ATTEMPTS,
    EDITED,
    GATES,
    HISTORY,
    LOGS,
    OFFLOADED_SIZES,
    PREEMPTIONS,
    PROFILES,
    RUNS,
)
from timeball.stores.sql.schema.tenants import KEYS, QUOTA_USE, TENANT_DELETIONS, TENANTS, USERS
from timeball.stores.sql.schema.workflows import WORKFLOW_NODES, WORKFLOW_RUNS, WORKFLOW_TASKS

_ALL: Final = (
    JOBS,
    RUNS,
    HISTORY,
    ATTEMPTS,
    LOGS,
    OFFLOADED_SIZES,
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
    AUDIT_LOG,
    AUDIT_HEADS,
    TENANTS,
    TENANT_DELETIONS,
    USERS,
    KEYS,
    QUOTA_USE,
)
TABLES: Final = {table.name: table for table in _ALL}
