"""Migrations: numbered SQL files. Each is applied once and recorded.

Servers of two versions share a database while a fleet is upgraded: the first new server migrates it while the old ones
run. A migration therefore only *expands* the schema, and declares that in its first lines with `-- works with: N`:
servers that know schema N or a newer one can start and work on it. A later release *contracts* the schema, when no
server uses the old parts any more. Such a migration has no such line, and older servers refuse to start after it. See
`docs/howto/fleet.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources

import structlog

from timeball.domain.errors import Conflict
from timeball.ports.store_schema import SchemaState
from timeball.stores.sql.dialect import Dialect, Query
from timeball.stores.sql.driver import Tx, scalar

_log = structlog.get_logger()

_FILE = re.compile(r"(\d{4})_(\w+)\.sql")
_ONLY = re.compile(r"^-- only: (\w+)$", re.MULTILINE)
_WORKS_WITH = re.compile(r"^-- works with: (\d+)$", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*$", re.MULTILINE)

CREATE = Query(
    "create_migrations",
    "CREATE TABLE IF NOT EXISTS migrations "
    "(version BIGINT PRIMARY KEY, name TEXT NOT NULL, applied_at BIGINT NOT NULL)",
)
APPLIED = Query("applied_migrations", "SELECT version FROM migrations ORDER BY version")
RECORD = Query("record_migration", "INSERT INTO migrations (version, name, applied_at) VALUES (:version, :name, {now})")
OLDEST = Query("oldest_schema", "SELECT value FROM meta WHERE name = 'oldest_schema'")
FORGET_OLDEST = Query("forget_oldest_schema", "DELETE FROM meta WHERE name = 'oldest_schema'")
SET_OLDEST = Query("set_oldest_schema", "INSERT INTO meta (name, value) VALUES ('oldest_schema', :version)")


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    text: str

    @property
    def works_with(self) -> int:
        """The oldest schema version whose servers can work on this schema."""
        found = _WORKS_WITH.search(self.text)
        return self.version if found is None else int(found[1])

    def statements(self, dialect: Dialect) -> list[Query]:
        """Return the statements for one database. `-- only: sqlite` excludes a statement from the other database."""
        statements = []
        for part in self.text.split(";\n"):
            only = _ONLY.search(part)
            sql = _COMMENT.sub("", part).strip().removesuffix(";")
            if sql and (only is None or only[1] == dialect.name):
                statements.append(Query(f"{self.version:04}_{self.name}", sql))
        return statements


def known() -> list[Migration]:
    folder = resources.files("timeball.stores.sql").joinpath("migrations")
    found = [(match, file) for file in folder.iterdir() if (match := _FILE.fullmatch(file.name))]
    return sorted(
        (Migration(int(match[1]), match[2], file.read_text("utf-8")) for match, file in found),
        key=lambda migration: migration.version,
    )


async def migrate(tx: Tx, dialect: Dialect, migrations: list[Migration]) -> list[Migration]:
    """Apply all missing migrations in one transaction, and return them. Raise `Conflict` if a newer version wrote the
    database, unless that version declared that this one can work on it."""
    await tx.execute(CREATE)
    applied = {version for (version,) in await tx.fetch(APPLIED)}
    newest = max((migration.version for migration in migrations), default=0)
    if any(version > newest for version in applied):
        refuse_newer(applied, scalar(await tx.fetch(OLDEST)), migrations)
    missing = [migration for migration in migrations if migration.version not in applied]
    for migration in missing:
        for statement in migration.statements(dialect):
            await tx.execute(statement)
        await tx.execute(RECORD, version=migration.version, name=migration.name)
    if missing:
        known_before = scalar(await tx.fetch(OLDEST)) or 0
        oldest_now = max(known_before, *(each.works_with for each in missing))
        await tx.execute(FORGET_OLDEST)
        await tx.execute(SET_OLDEST, version=oldest_now)
    return missing


def schema_state(applied: Iterable[int], oldest: int | None) -> SchemaState:
    """Return the state of a database with these migrations. `oldest` is the oldest schema that can work on it."""
    migrations, done = known(), set(applied)
    newest = migrations[-1].version
    missing = tuple(f"{each.version:04}_{each.name}" for each in migrations if each.version not in done)
    found = max(done, default=0)
    return SchemaState(found=found, newest=newest, oldest=oldest or found, missing=missing)


def require_current(state: SchemaState) -> None:
    """Raise `Conflict` if this version cannot work on the database as it is."""
    if state.is_too_new:
        refuse_newer([state.found], state.oldest, known())
    if state.missing:
        raise Conflict(
            f"the database has schema {state.found}, this version needs {state.newest}, and --no-migrate forbids to"
            " change tables: run `timeball schema upgrade` with a role that may, and start again"
        )


def refuse_newer(applied: Iterable[int], oldest: int | None, migrations: Sequence[Migration]) -> None:
    """Raise `Conflict` if a newer version wrote the database, unless that version declared that this one can work on
    it. `oldest` is the oldest schema that it declared."""
    newest = max((migration.version for migration in migrations), default=0)
    found = max(applied, default=0)
    if found > newest and (oldest is None or oldest > newest):
        raise Conflict(
            f"the database was written by a newer Timeball: it has schema {found}, this version knows "
            f"{newest}. Upgrade Timeball, or restore a backup from before the upgrade."
        )


def log_applied(migrations: list[Migration]) -> None:
    """Log which migrations a starting server has applied. Called after the commit. A script that opens a store without
    configured logs gets no line, because structlog would print it to the standard output of the script."""
    if not migrations or not structlog.is_configured():
        return
    schema = migrations[-1].version
    if migrations[0].version == 1:
        _log.info("tables created in the store", schema=schema)
    else:
        names = ", ".join(f"{each.version:04}_{each.name}" for each in migrations)
        _log.info("store migrated", schema=schema, migrations=names)
