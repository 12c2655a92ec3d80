"""Checks of the store: whether it can be reached and used, its schema and its clock; and of the object storage."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from timeball import system
from timeball.bootstrap.doctor.finding import Finding, ok, problem, skipped, warning
from timeball.config import DoctorConfig, places
from timeball.domain.errors import Conflict, Invalid, TimeballError, Unavailable
from timeball.domain.instant import SECOND, Micros
from timeball.domain.text import english
from timeball.ports.store_schema import SchemaState

MAX_CLOCK_DIFFERENCE: Final = 2 * SECOND
TIMEOUT: Final = 15.0


def check_store(config: DoctorConfig) -> Iterator[Finding]:
    if not config.has_store:
        yield skipped("store", f"no setting names a store, and there is none in {config.data_dir}")
        return
    if config.sqlite_path is not None:
        yield from _sqlite(config.sqlite_path)
    else:
        yield from _postgres(config.store_direct or config.store)
    for place in dict.fromkeys([config.objects, config.archive]):
        if place is not None:
            yield from _objects(place)


def _sqlite(path: Path) -> Iterator[Finding]:
    from timeball.stores.sqlite import log, moved_note
    from timeball.stores.sqlite.clock import SteadyClock, check_start
    from timeball.stores.sqlite.commit_mark import MARK_SUFFIX, CommitMark
    from timeball.stores.sqlite.file import Database, is_file, marked_time, read_schema

    database = Database(path, SteadyClock(system.wall, system.monotonic))
    try:
        if not is_file(path):
            yield problem(
                "store",
                f"there is no database {path}",
                "correct --store or --data-dir; the first start creates a database",
            )
            return
        holder = database.holder()
        damage = None if holder else log.find_damage(path, CommitMark(log.beside(path, MARK_SUFFIX)).read())
        if damage is not None:
            yield problem(
                "store",
                damage.text,
                "timeball restore a backup, or start once with --accept-damaged-log (docs/howto/backup.md)",
            )
            return
        with contextlib.closing(database.connect_reader()) as connection:
            database.check(connection)
            if (note := moved_note.read(connection)) is not None:
                yield problem("store", f"{path} was moved to {note.target}", f"start with --store {note.target}")
                return
            yield ok("store", f"{path} is intact" + (f", and process {holder} uses it" if holder else ""))
            yield from _schema(read_schema(connection))
            mark = marked_time(connection)
    except OSError as error:
        yield problem(
            "store", f"{path} cannot be opened: {error.strerror}", "run the command as the user of the server"
        )
    except (sqlite3.Error, TimeballError) as error:
        found = database.explained(error) if isinstance(error, sqlite3.Error) else error
        yield problem(
            "store",
            str(found),
            "run the command as the user of the server, and free space on the disk if it is full"
            if isinstance(found, Unavailable)
            else "timeball restore a backup into a new data folder (docs/howto/backup.md)",
        )
    else:
        try:
            if mark is not None:
                check_start(mark, system.wall())
        except TimeballError as error:
            yield problem("store-clock", str(error), "set the clock of this machine, or start once with --accept-clock")
            return
        yield from _clock(0 if mark is None else max(0, mark - system.wall()), "the store")


def _postgres(dsn: str) -> Iterator[Finding]:
    import asyncpg

    from timeball.stores.postgres.schema import inspect

    try:
        found = asyncio.run(inspect(dsn, system.wall))
    except Conflict as error:
        cause = error.__cause__
        if isinstance(cause, asyncpg.InvalidCatalogNameError):
            yield problem("store", str(error), "create the database (createdb), or correct --store")
        else:
            yield problem("store", str(error), "correct the user and the password in --store or TIMEBALL_STORE_FILE")
        return
    except (TimeballError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError, ValueError) as error:
        yield problem(
            "store",
            f"PostgreSQL cannot be reached: {error}",
            "start it, correct the host and port of --store, and check firewalls and pg_hba.conf",
        )
        return
    if found.is_read_only:
        yield problem(
            "store",
            "PostgreSQL accepts no writes: it is a standby, or read-only",
            "name the primary in --store, or all hosts (postgresql://a,b/db) so that Timeball finds it",
        )
    else:
        yield ok("store", f"PostgreSQL {found.version} answers")
    yield from _schema(found.schema)
    yield from _clock(found.ahead, "PostgreSQL")


def _schema(state: SchemaState) -> Iterator[Finding]:
    if state.is_too_new:
        yield problem(
            "schema",
            f"the store has schema {state.found}, and this version knows {state.newest}",
            "upgrade Timeball on this machine, or restore a backup from before the upgrade; schemas are not downgraded",
        )
    elif state.missing:
        yield problem(
            "schema",
            f"the store has schema {state.found}, and this version needs {state.newest}",
            "run `timeball schema upgrade`, or start a server of this version without --no-migrate",
        )
    else:
        yield ok("schema", f"schema {state.found}")


def _clock(ahead: Micros, of: str) -> Iterator[Finding]:
    if abs(ahead) < MAX_CLOCK_DIFFERENCE:
        yield ok("store-clock", f"the clocks of this machine and of {of} agree")
        return
    side = "ahead of" if ahead > 0 else "behind"
    yield warning(
        "store-clock",
        f"the clock of {of} is {english.about(abs(ahead))} {side} the clock of this machine; jobs fire by the clock of"
        f" {of}",
        "synchronize the clocks with NTP (timedatectl set-ntp true)",
    )


def _objects(place: str) -> Iterator[Finding]:
    from timeball.object_stores.bucket import open_objects

    shown = place.partition("?")[0]  # the query may contain a secret
    remedy = "check the address, the credentials in the environment and the network; or correct --objects and --archive"
    if "://" not in place:
        if not places.may_exist(Path(place)):
            yield skipped("objects", f"{shown} does not exist; a server creates it")
            return
        remedy = f"let the user of the server write to {shown}, and mount it if it is a shared folder"

    async def probe() -> None:
        objects = open_objects(place)
        key = "doctor/probe"
        async with asyncio.timeout(TIMEOUT):
            await objects.put({key: b"timeball doctor"})
            await objects.delete([key])

    try:
        asyncio.run(probe())
    except (Invalid, TimeballError, OSError) as error:
        text = f"no answer within {TIMEOUT:.0f} s" if isinstance(error, TimeoutError) else str(error)
        yield problem("objects", f"large values cannot be stored in {shown}: {text}", remedy)
    else:
        yield ok("objects", f"large values can be stored in {shown}")
