"""Row types have the columns of their statements, in the same number and order, and under the same names."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from timeball.ports.store.queries import LogLine, RunFilter
from timeball.ports.store.runs import RunMark
from timeball.stores.sql.dialect import SQLITE, Query
from timeball.stores.sql.jobs import backfills, manual_runs
from timeball.stores.sql.migrate import known
from timeball.stores.sql.planning import preemption
from timeball.stores.sql.reading import archive, dead_letters, diagnosis_snapshot, ledger, run_filters
from timeball.stores.sql.reading import runs as reading
from timeball.stores.sql.runs import candidates, claim_kinds, claimants, claiming, ordering_keys, runs, workers
from timeball.stores.sql.schema.jobs import ListedBackfillRow, LiveBackfillRow
from timeball.stores.sql.schema.runs import ArchivedHistoryRow, ListedHistoryRow, ListedRunRow, LockedRunRow
from timeball.stores.sql.workflows import workflow_runs
from timeball.stores.sql.workflows.rows import Flow

LETTER_GROUPS = run_filters.statement(
    "dead_letter_groups", where=run_filters.finished(RunFilter(tenant="t", dead_letters=True))[0], jobs=""
)
LIST_LIVE = run_filters.statement("list_live", found="SELECT id FROM runs", order="r.id")
LIST_FINISHED = run_filters.statement("list_finished", jobs="", where="true", order="r.id")

CASES = [
    (reading.LIVE_RUNS, ListedRunRow.__struct_fields__),
    (ledger.LEDGER_LIVE, ListedRunRow.__struct_fields__),
    (reading.LIVE_OF_JOB, ListedRunRow.__struct_fields__),
    (LIST_LIVE, ListedRunRow.__struct_fields__),
    (diagnosis_snapshot.LIVE_OF_JOB, ListedRunRow.__struct_fields__),
    (reading.FINISHED_RUNS, ListedHistoryRow.__struct_fields__),
    (reading.LAST_STARTED, ListedHistoryRow.__struct_fields__),
    (ledger.LEDGER_DONE, ListedHistoryRow.__struct_fields__),
    (LIST_FINISHED, ListedHistoryRow.__struct_fields__),
    (diagnosis_snapshot.NEWEST_OF_JOB, ListedHistoryRow.__struct_fields__),
    (diagnosis_snapshot.EXCEPTIONS, ListedHistoryRow.__struct_fields__),
    (archive.RUNS, ArchivedHistoryRow.__struct_fields__),
    (archive.LOGS, ("tenant", "run_id", *LogLine.__struct_fields__)),
    (reading.LOGS_OF_RUN, LogLine.__struct_fields__),
    (reading.LOGS_OF_ATTEMPT, LogLine.__struct_fields__),
    (LETTER_GROUPS, dead_letters.DeadLetterGroupRow.__struct_fields__),
    (runs.LOCK_RUNS, LockedRunRow.__struct_fields__),
    (runs.RUN_MARKS, ("id", *RunMark.__struct_fields__)),
    (backfills.LOCK_BACKFILLS, LiveBackfillRow.__struct_fields__),
    (backfills.BY_ID, ListedBackfillRow.__struct_fields__),
    (backfills.LIST, ListedBackfillRow.__struct_fields__),
    (backfills.LIST_OF_JOB, ListedBackfillRow.__struct_fields__),
    (manual_runs.TO_FOLLOW, manual_runs._Finished.__struct_fields__),
    (preemption.FIRST_WAITING, preemption._FirstWaiting.__struct_fields__),
    (claim_kinds.TASKS_OF_RUNS, claim_kinds._TaskOfRun.__struct_fields__),
    (claimants.LEASED_SESSIONS, claimants.LeasedSession._fields),
    (claiming._claimable(1, False), candidates.ClaimCandidate.__struct_fields__),
    (claiming._claimable(1, True), candidates.ClaimCandidate.__struct_fields__),
    (claiming.FITTING_RUNS, candidates.ClaimCandidate.__struct_fields__),
    (ordering_keys.TURN_HOLDERS, ordering_keys.LiveHolder.__struct_fields__),
    (ordering_keys.NEXT_IN_TURN, ordering_keys._Head.__struct_fields__),
    (workers.HELD_BY, workers._HeldAttempt.__struct_fields__),
    (workers.LOST_RUNS, workers._LostAttempt.__struct_fields__),
    (workers.HELD_FOR_LONG, workers._LongHeldAttempt.__struct_fields__),
    (workflow_runs.LIVE_FLOWS, Flow.__struct_fields__),
]
_PARAMETER = re.compile(r"(?<!:):([a-z_]+)")


@pytest.fixture(scope="module")
def database() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        for migration in known():
            for statement in migration.statements(SQLITE):
                sql = SQLITE.compile(statement.text).sql
                connection.execute(sql, dict.fromkeys(_PARAMETER.findall(sql), 0))
        yield connection


def answered(database: sqlite3.Connection, query: Query) -> list[str]:
    """What SQLite calls the columns of a statement: a name, or the text of an expression."""
    sql = SQLITE.compile(query.text).sql
    cursor = database.execute(sql, dict.fromkeys(_PARAMETER.findall(sql), 0))
    return [name for name, *_ in cursor.description]


def agree(column: str, field: str) -> bool:
    """A field may say of what it is (`job_name` is the column `name`). An expression has no name to compare."""
    return not column.isidentifier() or column == "NULL" or column.endswith(field) or field.endswith(column)


@pytest.mark.parametrize(("query", "fields"), CASES, ids=[f"{query.name}-{len(each)}" for query, each in CASES])
def test_a_row_type_names_the_columns_of_its_statement(
    database: sqlite3.Connection, query: Query, fields: tuple[str, ...]
) -> None:
    columns = answered(database, query)
    assert len(columns) == len(fields)
    assert [(column, field) for column, field in zip(columns, fields, strict=True) if not agree(column, field)] == []


def test_exchanged_columns_are_noticed() -> None:
    assert not agree("job_id", "run_id")
    assert not agree("fire_time", "eligible_at")
