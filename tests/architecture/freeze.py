"""Writes everything that users, workers, other versions and databases see to a folder, and compares two such folders.

    python -m tests.architecture.freeze FOLDER
    python -m tests.architecture.freeze compare BEFORE AFTER [--renames tests/architecture/renames.toml]

A change that only moves or renames code leaves all of it equal. `compare` reads BEFORE through the table of renames:
old names of classes and fields, which appear in the OpenAPI document, in messages and in traces, become the new ones.
Parts: `openapi.json`, `help.txt` (every command), `public.txt` (`timeball.__all__`), `schema_sqlite.txt`,
`schema_postgres.txt`, `protocol.json` (messages between workers and servers), `statements.json` (named SQL),
`counts.json` (statements of plain jobs), `names.json` (see `test_frozen_names`) and `trace_SEED.txt`.
"""

from __future__ import annotations

import argparse
import asyncio
import difflib
import json
import re
import sqlite3
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from unittest import mock

import asyncpg
import click
import msgspec

import timeball
from tests.architecture.test_frozen_names import frozen_names
from tests.conformance.test_plain_jobs import JOBS, _Recorder, run_all
from tests.simulation import simulate
from tests.support.builders import LEASE, one_shot, plan_due, recurring, worker
from tests.support.migrated import migrate_postgres, sqlite_store
from tests.support.postgres import PostgresServer, run_apart
from timeball.api.app import ROUTES
from timeball.api.documentation import openapi
from timeball.cli.root import timeball as root
from timeball.domain.instant import SECOND
from timeball.domain.run.lifecycle import Cancelled, Failed, Failure, Lost, Released, Succeeded
from timeball.ports import worker_protocol
from timeball.stores.sql import statements as sql_statements

SEEDS: Final = (105, 108, 117)
"""Of worlds without a planted bug."""
RENAMES: Final = Path(__file__).with_name("renames.toml")


# --- the parts ----------------------------------------------------------------------------------------------------


def openapi_document() -> str:
    return _json(msgspec.json.decode(msgspec.json.encode(openapi.document(ROUTES, "0"))))


def help_texts() -> str:
    return "\n".join(_help_texts(root, "timeball", None))


def _help_texts(command: click.Command, name: str, parent: click.Context | None) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent, max_content_width=100, terminal_width=100)
    yield f"=== {context.command_path}\n{command.get_help(context)}\n"
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            assert found is not None
            yield from _help_texts(found, each, context)


def public_names() -> str:
    return "\n".join(timeball.__all__) + "\n"


def sqlite_schema() -> str:
    async def make(path: Path) -> None:
        store = sqlite_store(path)
        await store.open()
        await store.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(make(Path(folder) / "timeball.db"))
        with closing(sqlite3.connect(Path(folder) / "timeball.db")) as connection:
            found = connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY 1, 2").fetchall()
    return "\n".join(f"{kind} {name}: {sql}" for kind, name, sql in found) + "\n"


_COLUMNS: Final = """
SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns
WHERE table_schema = 'public' ORDER BY table_name, ordinal_position
"""
_INDEXES: Final = "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1"
_CONSTRAINTS: Final = """
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2
"""


def postgres_schema() -> str:
    async def ask(dsn: str) -> list[str]:
        connection = await asyncpg.connect(dsn)
        try:
            return [
                str(tuple(row)) for sql in (_COLUMNS, _INDEXES, _CONSTRAINTS) for row in await connection.fetch(sql)
            ]
        finally:
            await connection.close()

    with PostgresServer.start() as server:
        dsn = server.create_database()
        migrate_postgres(dsn)
        found = run_apart(ask(dsn))
    # Partitions are named by days: their own lines are those of the table that they belong to.
    return "\n".join(line for line in found if not re.search(r"_\d{8}|\d{4}_\d\d_\d\d", line)) + "\n"


def protocol_messages() -> str:
    """Each message once with everything in it, and once with as little as possible."""
    key: dict[str, Any] = {"run_id": "r_1", "token": 7}
    ended: dict[str, Any] = {"job_id": "j_1", "attempt": 2, "serial": True, **key}
    outcomes = [
        Succeeded(result=msgspec.Raw(b'{"rows":3}')),
        Failed(Failure(kind="exit", message="code 1")),
        Cancelled(),
        Released(),
        Lost(),
    ]
    assignment = worker_protocol.Assignment(
        run_id="r_1",
        job_id="j_1",
        attempt=2,
        token=7,
        delay=5,
        fire_time=6,
        serial=True,
        turn=("a", "b"),
        spec=msgspec.Raw(b'{"task":{}}'),
        task=msgspec.Raw(b'{"kind":"shell"}'),
    )
    messages: list[Any] = [
        worker_protocol.RegisterWorker(name="w", slots=3),
        worker_protocol.RegisterWorker(
            name="w",
            slots=3,
            labels=["gpu"],
            tasks=["a:b"],
            version="1",
            cpu=1.5,
            memory_mb=64,
            dedicated=True,
            kinds=["shell"],
        ),
        worker_protocol.WorkerRegistered(session="s", lease=30, beat_every=10),
        worker_protocol.Poll(session="s", seq=1, free=2, held=[7], wait=9),
        worker_protocol.PollResponse(),
        worker_protocol.PollResponse(assignments=[assignment], cancel=[1], pause=[(2, 3)], kill=[4], lost=[5]),
        worker_protocol.Beat(session="s", held=[7]),
        worker_protocol.Report(session="s", poll_seq=1, free=2),
        worker_protocol.Report(
            session="s",
            poll_seq=1,
            free=2,
            started=[worker_protocol.Started(age=1, **key)],
            progress=[worker_protocol.Progress(fraction=0.5, note="half", **key)],
            logs=[worker_protocol.LogChunk(attempt=2, seq=0, stream="stdout", text="hello", **key)],
            ended=[
                *(worker_protocol.Ended(outcome=outcome, **ended) for outcome in outcomes),
                worker_protocol.Ended(
                    outcome=Succeeded(), turn=("a", "b"), age=1, took=2, host="h:443", placed=True, **ended
                ),
            ],
            pausing=[worker_protocol.Pausing(number=3, what="paused", age=1, **key)],
        ),
        worker_protocol.ReportAck(stale=[7]),
    ]
    return _json([[type(each).__name__, json.loads(msgspec.json.encode(each))] for each in messages])


def statements() -> str:
    return _json({name: " ".join(text.split()) for name, text in sorted(sql_statements._TEXTS.items())})


def statement_counts() -> str:
    """The statements of a thousand plain jobs, once and again and again."""

    async def count(path: Path) -> dict[str, list[str]]:
        store: Any = sqlite_store(path)
        await store.open()
        said: list[str] = []
        read, write = store._db.read, store._db.write

        async def recorded_read(work: Any, **how: bool) -> Any:
            return await read(lambda tx: work(_Recorder(tx, said)), **how)

        async def recorded_write(work: Any, *, once: bool = False) -> Any:
            return await write(lambda tx: work(_Recorder(tx, said)), once=once)

        try:
            await store.register(worker("w_1"), LEASE)
            with mock.patch.multiple(store._db, read=recorded_read, write=recorded_write):
                await store.submit([one_shot(store.now()) for _ in range(JOBS)])
                await run_all(store)
                one_shots = list(said)
                due = store.now() - SECOND
                await store.submit([recurring(due - 10 * SECOND, next_fire_at=due) for _ in range(JOBS)])
                said.clear()
                await plan_due(store, limit=JOBS)
                await run_all(store)
            return {"one-shots": one_shots, "recurring": said}
        finally:
            await store.close()

    with tempfile.TemporaryDirectory() as folder:
        return _json(asyncio.run(count(Path(folder) / "timeball.db")))


def trace(seed: int) -> str:
    found = simulate.simulate(seed, tail=1_000_000)
    return "\n".join([*found.tail, f"violation: {found.violation}", f"steps: {found.steps}"]) + "\n"


PARTS: Final[dict[str, Callable[[], str]]] = {
    "openapi.json": openapi_document,
    "help.txt": help_texts,
    "public.txt": public_names,
    "schema_sqlite.txt": sqlite_schema,
    "schema_postgres.txt": postgres_schema,
    "protocol.json": protocol_messages,
    "statements.json": statements,
    "counts.json": statement_counts,
    "names.json": lambda: _json(frozen_names()),
    **{f"trace_{seed}.txt": (lambda seed=seed: trace(seed)) for seed in SEEDS},
}


# --- writing and comparing ------------------------------------------------------------------------------------------


def freeze(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in PARTS.items():
        (folder / name).write_text(part(), "utf-8")
        print(folder / name, flush=True)


def compare(before: Path, after: Path, renames: Path) -> int:
    """How many parts differ; their first differences are printed."""
    different = 0
    for name in PARTS:
        old, new = (
            _ordered(name, text) for text in (_renamed(before / name, renames), (after / name).read_text("utf-8"))
        )
        if old != new:
            different += 1
            lines = difflib.unified_diff(
                old.splitlines(), new.splitlines(), f"before/{name}", f"after/{name}", "", "", 1
            )
            print("\n".join(list(lines)[:40]))
        print(f"{name}: {'equal' if old == new else 'DIFFERENT'}", flush=True)
    return different


def _words(renames: Path, name: str) -> dict[str, str]:
    """What appears in a part under its old name, by old name."""
    table = tomllib.loads(renames.read_text("utf-8")) if renames.exists() else {}
    match name.partition("_")[0]:
        case "openapi.json" | "protocol.json":
            return dict(table.get("classes", {}))
        case "trace":
            return {**table.get("classes", {}), **table.get("fields", {})}
        case _:
            return {}


def _renamed(path: Path, renames: Path) -> str:
    words = _words(renames, path.name)
    text = path.read_text("utf-8")
    if path.name == "openapi.json" and renames.exists():
        text = _renamed_components(text, tomllib.loads(renames.read_text("utf-8")).get("components", {}))
    return re.sub(r"[A-Za-z_]\w*", lambda found: words.get(found[0], found[0]), text)


def _renamed_components(text: str, names: dict[str, str]) -> str:
    document = json.loads(text)
    for old, new in names.items():
        document["components"]["schemas"].get(old, {})["title"] = new
    text = _json(document)
    for old, new in names.items():
        text = text.replace(old, new)
    return text


def _ordered(name: str, text: str) -> str:
    """Names that changed are in another order where there is one."""
    return _json(json.loads(text)) if name.endswith(".json") else text


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def main() -> int:
    if sys.argv[1:2] == ["compare"]:
        parser = argparse.ArgumentParser(prog="freeze compare")
        parser.add_argument("before", type=Path)
        parser.add_argument("after", type=Path)
        parser.add_argument("--renames", type=Path, default=RENAMES)
        given = parser.parse_args(sys.argv[2:])
        return min(compare(given.before, given.after, given.renames), 1)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    freeze(parser.parse_args().folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
