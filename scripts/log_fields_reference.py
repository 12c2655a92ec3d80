"""The page `docs/reference/log-fields.md`: the fields of lines of logs (`--log-format json`), and what they mean.

`logged()` finds the fields in the code; `tests/architecture/test_log_fields.py` compares them with this table, with the
mapping and the pipeline in `deploy/logs`, and with the lines of real processes.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path
from typing import Final, NamedTuple

SRC: Final = Path(__file__).parents[1] / "src" / "timeball"
METHODS: Final = {"debug", "info", "warning", "error", "exception", "critical"}
NOT_FIELDS: Final = {"exc_info", "stack_info", "extra", "stacklevel"}


class LogField(NamedTuple):
    type: str
    """The type of the field in Elasticsearch and OpenSearch."""
    meaning: str


ALWAYS: Final = {
    "timestamp": LogField("date", "When the line was written, in UTC."),
    "level": LogField("keyword", "`debug`, `info`, `warning`, `error` or `critical`."),
    "event": LogField("text", "What happened."),
}
SOMETIMES: Final = {
    "logger": LogField("keyword", "The logger of a library, or `timeball.worker`."),
    "exception": LogField("object", "The exceptions with their frames: a list. It has no values of variables."),
    "process": LogField("keyword", "The process, if a command starts several: `server`, `worker-1`, …"),
    "address": LogField("keyword", "The URL at which a server listens."),
    "admin_key": LogField("keyword", "Where the admin key is, never the key."),
    "asked": LogField("long", "The number of slots that was asked for."),
    "attempt": LogField("long", "The number of an attempt of a run."),
    "backfill": LogField("keyword", "The id of a backfill."),
    "calendars": LogField("keyword", "The names of calendars."),
    "cert": LogField("keyword", "The path of a certificate."),
    "copy": LogField("keyword", "The folder with copies of damaged files."),
    "count": LogField("long", "The number of things that the line is about."),
    "damage": LogField("text", "What is damaged."),
    "data_dir": LogField("keyword", "The data folder."),
    "day": LogField("keyword", "The day that is archived."),
    "error": LogField("text", "The error as text."),
    "exit_code": LogField("long", "The exit code of a process."),
    "failures": LogField("long", "How often a turn of a loop failed in a row."),
    "files": LogField("text", "Paths of files."),
    "first": LogField("keyword", "The first of the objects that the line is about."),
    "folder": LogField("keyword", "The path of a folder."),
    "folders": LogField("text", "Paths of folders."),
    "free_bytes": LogField("long", "Free space of the disk, in bytes."),
    "incident": LogField("keyword", "The id of an internal error, which the answer to the client has as well."),
    "job": LogField("keyword", "The id of a job."),
    "limit": LogField("long", "A limit of this process or machine."),
    "logs": LogField("long", "The number of archived chunks of output."),
    "loop": LogField("keyword", "The name of a loop of a server, as in `/readyz`."),
    "method": LogField("keyword", "The method of a request."),
    "migrations": LogField("keyword", "The names of migrations."),
    "mode": LogField("keyword", "The permissions of a folder."),
    "name": LogField("keyword", "The name of a worker."),
    "objects": LogField("long", "The number of objects in object storage."),
    "path": LogField("keyword", "The path of a request."),
    "reason": LogField("text", "Why."),
    "revoked": LogField("long", "The number of revoked keys."),
    "run": LogField("keyword", "The id of a run."),
    "runs": LogField("text", "Ids of runs, or the number of archived runs."),
    "schema": LogField("long", "The version of the tables."),
    "seconds": LogField("double", "A duration in seconds."),
    "servers": LogField("keyword", "The URLs of the servers of a worker."),
    "session": LogField("keyword", "The id of the session of a worker."),
    "slots": LogField("long", "The number of slots of a worker."),
    "source": LogField("keyword", "Where a setting comes from."),
    "store": LogField("keyword", "The database, without its password."),
    "store_time": LogField("date", "The time of the store."),
    "tenant": LogField("keyword", "The id of a tenant."),
    "wall_clock": LogField("date", "The wall clock of the machine."),
}
FIELDS: Final = ALWAYS | SOMETIMES
LOKI_LABELS: Final = ("level", "process", "loop")
"""Fields with few values. Ids are never labels."""


def logged() -> dict[str, list[str]]:
    """Return the fields that the code passes to loggers, each with the modules that do so."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SRC.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS):
                continue
            receiver = node.func.value
            name = receiver.attr if isinstance(receiver, ast.Attribute) else getattr(receiver, "id", "")
            if name in ("log", "_log"):
                for keyword in node.keywords:
                    if keyword.arg is not None and keyword.arg not in NOT_FIELDS:
                        found[keyword.arg].append(path.relative_to(SRC).as_posix())
    return dict(found)


def page() -> str:
    rows = "\n".join(
        f"| `{name}` | {field.type} | {'always' if name in ALWAYS else 'if it applies'} | {field.meaning} |"
        for name, field in FIELDS.items()
    )
    labels = ", ".join(f"`{label}`" for label in LOKI_LABELS)
    return f"""# Fields of logs

With `--log-format json`, servers and workers write one JSON object per line to standard error. `make reference` writes
this page, and a test compares it with the code and with lines of real processes. New fields may be added; a field keeps
its name and type.

| field | type | when | meaning |
|---|---|---|---|
{rows}

The output of jobs is not in these logs: read it with `timeball runs logs`. The normal course of a run writes no line.

`deploy/logs` has a pipeline for [Vector](https://vector.dev) (`vector.yaml`), the mapping for Elasticsearch and
OpenSearch (`index-template.json`), and the labels for Loki: {labels}. A test checks these files against this table; no
real Vector, Elasticsearch or Loki has run them.
"""
