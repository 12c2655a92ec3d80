"""The page `docs/reference/tables.md`: the tables of the schema, read from an SQLite store that was just migrated."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Final

from tests.support.migrated import sqlite_store

PURPOSES: Final[dict[str, str]] = {
    "attempts": "Attempts before the last one of their run. PostgreSQL has one partition per day.",
    "audit_heads": "The last entry of each chain of the audit log.",
    "audit_log": "The audit log: each change with its actor. The database refuses to change its rows.",
    "backfills": "Requests to run the fires of a past range. `cursor_at` is the first fire that has no run yet.",
    "calendars": "Calendars: named sets of closed times.",
    "daily_sums": "Number of fires per job, day and verdict, of runs that have left `history`.",
    "departures": "Days of `history` that are being removed, and how far their sums are counted.",
    "echoes": "Upstream events: ends of runs that other jobs follow. A row is removed with the fire that it causes.",
    "edited_runs": "Specs of runs that were retried or replayed with an edit.",
    "follows": "Which job follows which, as long as that can cause a fire.",
    "gates": "Shared limits: concurrency, rate, and the circuit breaker of a host.",
    "history": "Finished runs, and spans of fires that never became a run. PostgreSQL has one partition per day.",
    "idempotency": "Idempotency keys, each with the first answer.",
    "job_calendars": "Which jobs refer to which calendars.",
    "job_tags": "Tags of jobs.",
    "job_versions": "Earlier specs of jobs, for the runs that executed them.",
    "jobs": "Jobs: spec, state and next fire.",
    "keys": "API keys: digest, tenant, role and limits. The key itself is not stored.",
    "leases": "Duties that one server does for all. `epoch` grows with each new holder.",
    "logs": "Output of attempts, in pieces. PostgreSQL has one partition per day.",
    "meta": "Named numbers of the store. On SQLite `token` is the last fencing token.",
    "migrations": "Migrations that were applied.",
    "offloaded_sizes": "Sizes of output and results in object storage, for the usage of their tenant.",
    "planning_failures": "Jobs that could not be planned, with the reason and the next try.",
    "preemptions": "Each time a run gave its slots to another run.",
    "profiles": "Placement profiles: requirements that not every worker fulfils.",
    "quota_use": "What tenants with quotas use of them: the runs that begin on each day.",
    "run_stats": "How runs of each tenant ended, in stretches of 10 seconds and of a minute, for a day.",
    "runs": "Live runs. A run that ends moves to `history`, so this table stays small.",
    "sign_in_attempts": "Sign-ins at the identity provider that were finished, so that each opens one session.",
    "sign_in_tokens": "Tokens of one-time sign-in links: digest, key and expiry. A row is removed when it is used.",
    "slot_loads": "Number of jobs per minute of the day, for the choice of a window slot.",
    "stats_writers": "The last batch that each server added to `run_stats`.",
    "tasks": "Registered tasks.",
    "tenant_prices": "The prices of tenants from a day on. A tenant whose prices never changed has no row.",
    "tenants": "Tenants, with their limits and prices as JSON.",
    "tenant_deletions": "Tenants that are being deleted, and how far that is.",
    "turns": "Ordering keys, and the run that holds each.",
    "usage_marks": "The id up to which runs are in `usage_sums`, unless they are pending.",
    "usage_pending": "Runs that were alive when their turn to be added to `usage_sums` came.",
    "usage_sums": "What runs used, by day, user, job and resources. The rows outlive the runs.",
    "users": "Users of tenants: their roles, addresses for notifications, and accounts at the identity provider.",
    "web_sessions": "Browsers that are signed in: digest of the cookie, and the key or the user that they act with.",
    "workers": "Sessions of workers: what they offer, and until when their lease lasts.",
    "workflow_nodes": "What does not change in a workflow task: its definition, dependents and sources.",
    "workflow_runs": "Workflow runs that have begun, with the number of their open tasks.",
    "workflow_tasks": "Tasks and `forEach` instances of workflow runs. A row gets its run once.",
}

INTRODUCTION: Final = """\
<!-- Generated from src/timeball/stores/sql/migrations by `make reference`. -->
# Tables

The tables of the store, for backups, for reading with other tools, and for contributors. They are no interface: a
release may change them by a [migration](../howto/fleet.md#upgrades-without-a-gap). Read them, and write only over
the API.

Times are microseconds since 1970 in UTC, flags are 0 or 1, ids sort by age, and specs are JSON. The columns below
are those of SQLite. PostgreSQL has the same tables and columns, with a partition per day of `history`, `attempts`
and `logs` (`history_20261115`), and the sequence `tokens` for fencing tokens.
"""


def schema() -> dict[str, list[tuple[str, str, str, str]]]:
    """By table: name, type, whether it may be null, and key of each column."""

    async def make(path: Path) -> None:
        store = sqlite_store(path)
        await store.open()
        await store.close()

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "timeball.db"
        asyncio.run(make(path))
        with closing(sqlite3.connect(path)) as database:
            names = [
                name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1")
            ]
            return {
                name: [
                    (column, kind or "any", "no" if required or key else "yes", "primary" if key else "")
                    for _, column, kind, required, _, key in database.execute(f"PRAGMA table_info({name})")
                ]
                for name in names
                if not re.match("sqlite_", name)
            }


def page() -> str:
    head = "| column | type | null | key |\n|---|---|---|---|\n"
    parts = [
        f"\n## {table}\n\n{PURPOSES[table]}\n\n{head}"
        + "".join(f"| `{c}` | {k} | {n} | {p} |\n" for c, k, n, p in columns)
        for table, columns in schema().items()
    ]
    return INTRODUCTION + "".join(parts)
