"""Reads and upgrades the schema of a store."""

from __future__ import annotations

import asyncio
from pathlib import Path

from timeball import system
from timeball.bootstrap.hardening import hide_secrets
from timeball.bootstrap.private_files import make_new_files_private
from timeball.config import SchemaConfig
from timeball.config.readers import SQLITE
from timeball.ports.store_schema import SchemaState


def read_schema(config: SchemaConfig) -> SchemaState:
    hide_secrets()
    if config.store.startswith(SQLITE):
        from timeball.stores.sqlite import schema as sqlite

        return sqlite.schema_of(Path(config.store.removeprefix(SQLITE)))
    from timeball.stores.postgres import schema as postgres

    return asyncio.run(postgres.schema_of(config.store_direct or config.store))


def upgrade_schema(config: SchemaConfig) -> None:
    make_new_files_private()
    hide_secrets()
    if config.store.startswith(SQLITE):
        from timeball.stores.sqlite import schema as sqlite
        from timeball.stores.sqlite.clock import SteadyClock

        clock = SteadyClock(system.wall, system.monotonic)
        sqlite.upgrade_schema(Path(config.store.removeprefix(SQLITE)), clock)
        return
    from timeball.stores.postgres import schema as postgres

    asyncio.run(postgres.upgrade_schema(config.store_direct or config.store))
