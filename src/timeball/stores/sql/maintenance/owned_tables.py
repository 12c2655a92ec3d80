"""The tables with rows of tenants, and how a row is found to belong to a tenant. A table that is missing here makes a
test fail (`tests/conformance/test_tenant_deletion.py`)."""

from __future__ import annotations

from typing import Final

from msgspec import Struct


class OwnedTable(Struct, frozen=True):
    """A table whose rows have the id of their owner in a column: that of a tenant, or of a row of another table."""

    name: str
    key: tuple[str, ...]
    """The primary key."""
    column: str
    """The column with the id of the owner."""


class Family(Struct, frozen=True):
    """A table whose rows have the id of their tenant, and the tables with what belongs to these rows."""

    table: OwnedTable
    children: tuple[OwnedTable, ...] = ()
    """`column` of each is a reference to the primary key of the parent, which has one column."""


RUNS: Final = Family(
    OwnedTable("history", ("id",), "tenant"),
    (
        OwnedTable("logs", ("run_id", "attempt", "seq"), "run_id"),
        OwnedTable("attempts", ("run_id", "attempt"), "run_id"),
        OwnedTable("edited_runs", ("run_id",), "run_id"),
        OwnedTable("offloaded_sizes", ("run_id", "attempt", "kind"), "run_id"),
        OwnedTable("usage_pending", ("run_id",), "run_id"),
        OwnedTable("preemptions", ("run_id", "number"), "run_id"),
        OwnedTable("preemptions", ("run_id", "number"), "by_run"),
    ),
)
WORKFLOW_RUNS: Final = Family(
    OwnedTable("workflow_runs", ("id",), "tenant"),
    (
        OwnedTable("workflow_tasks", ("flow_id", "place", "idx"), "flow_id"),
        OwnedTable("workflow_nodes", ("flow_id", "place"), "flow_id"),
    ),
)
JOBS: Final = Family(
    OwnedTable("jobs", ("id",), "tenant"),
    (
        OwnedTable("job_tags", ("job_id", "tag"), "job_id"),
        OwnedTable("job_versions", ("job_id", "version"), "job_id"),
        OwnedTable("job_calendars", ("job_id", "calendar"), "job_id"),
        OwnedTable("daily_sums", ("job_id", "day", "verdict"), "job_id"),
        OwnedTable("planning_failures", ("job_id",), "job_id"),
        OwnedTable("follows", ("follower",), "follower"),
        OwnedTable("follows", ("follower",), "job_id"),
        OwnedTable("echoes", ("follower", "cause"), "follower"),
        OwnedTable("echoes", ("follower", "cause"), "job_id"),
    ),
)
API_KEYS: Final = Family(
    OwnedTable("keys", ("id",), "tenant"),
    (
        OwnedTable("sign_in_tokens", ("digest",), "key_id"),
        OwnedTable("web_sessions", ("id",), "key_id"),
        OwnedTable("workers", ("session",), "key_id"),
    ),
)
FAMILIES: Final = (
    WORKFLOW_RUNS,
    RUNS,
    JOBS,
    Family(OwnedTable("backfills", ("id",), "tenant")),
    Family(OwnedTable("job_calendars", ("job_id", "calendar"), "tenant")),
    Family(OwnedTable("idempotency", ("tenant", "key"), "tenant")),
    Family(OwnedTable("turns", ("tenant", "ordering_key"), "tenant")),
    Family(OwnedTable("gates", ("tenant", "gate"), "tenant")),
    Family(OwnedTable("calendars", ("tenant", "name"), "tenant")),
    Family(OwnedTable("tasks", ("tenant", "id"), "tenant")),
    Family(OwnedTable("usage_sums", ("tenant", "day", "user_id", "job_id", "cpu", "memory"), "tenant")),
    Family(OwnedTable("tenant_prices", ("tenant", "day"), "tenant")),
    Family(OwnedTable("run_stats", ("tenant", "width", "at"), "tenant")),
    Family(OwnedTable("quota_use", ("tenant",), "tenant")),
    API_KEYS,
    Family(OwnedTable("web_sessions", ("id",), "tenant")),
    Family(OwnedTable("users", ("tenant", "id"), "tenant")),
    Family(OwnedTable("audit_log", ("chain", "seq"), "chain")),
)
"""In the order in which their rows are deleted. Rows of `runs` are not deleted: they move to the history when the runs
end. The rows of the last tables (`tenants`, `tenant_deletions`, `audit_heads`) are deleted when all others are."""
