"""Names that are stored, sent or public are never renamed: databases, workers and clients of other versions use them.

`frozen_names.json` has them all. A new name is added there; a line that has to be changed or removed breaks somebody's
store, worker or client.
"""

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from tests.simulation.plants import PLANTS
from timeball import tasks
from timeball.chaos import witness
from timeball.chaos.bugs import BUGS
from timeball.domain.job import large_values
from timeball.domain.run import lifecycle
from timeball.domain.schedule import schedule
from timeball.domain.task import task
from timeball.domain.workflow import definition
from timeball.ports import worker_protocol
from timeball.ports.wakeups import Topic
from timeball.server.loops import maintenance
from timeball.stores.postgres import wakeups
from timeball.stores.sql import names
from timeball.stores.sql.dialect import SQLITE
from timeball.stores.sql.migrate import known

_PARAMETER = re.compile(r"(?<!:):([a-z_]+)")
FROZEN = Path(__file__).with_name("frozen_names.json")
MESSAGES = (
    worker_protocol.RegisterWorker,
    worker_protocol.WorkerRegistered,
    worker_protocol.Assignment,
    worker_protocol.Poll,
    worker_protocol.PollResponse,
    worker_protocol.Beat,
    worker_protocol.Started,
    worker_protocol.Progress,
    worker_protocol.Pausing,
    worker_protocol.LogChunk,
    worker_protocol.Ended,
    worker_protocol.Report,
    worker_protocol.ReportAck,
    lifecycle.Failure,
)


def frozen_names() -> dict[str, Any]:
    return {
        "sessions": [names.WEAVER],
        "leases": [maintenance.LEASE_NAME],
        "notify channel": wakeups.CHANNEL,
        "topics": sorted(topic.value for topic in Topic),
        "tags": sorted(_tags()),
        "messages": sorted(",".join(kind.__struct_encode_fields__) for kind in MESSAGES),
        "columns": _columns(),
        "objects": [large_values.key(kind, 1, 0, "name") for kind in large_values.KINDS],
        "tasks": [tasks.NOOP, witness.FUNCTION],
        "planted bugs": sorted([*BUGS, *PLANTS]),
    }


def _tags() -> Iterator[str]:
    for module in (lifecycle, schedule, task, definition):
        for value in vars(module).values():
            if (
                isinstance(value, type)
                and issubclass(value, msgspec.Struct)
                and value.__struct_config__.tag
                and value.__name__[0] != "_"
            ):
                yield f"{value.__struct_config__.tag_field}={value.__struct_config__.tag}"


def _columns() -> dict[str, list[str]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        for migration in known():
            for statement in migration.statements(SQLITE):
                sql = SQLITE.compile(statement.text).sql
                connection.execute(sql, dict.fromkeys(_PARAMETER.findall(sql), 0))
        tables = [
            row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1")
        ]
        return {
            table: [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            for table in tables
            if not table.startswith("sqlite_")
        }


def test_what_is_stored_sent_or_public_keeps_its_name() -> None:
    assert frozen_names() == json.loads(FROZEN.read_text("utf-8"))
