"""The configuration class of each role, and the table of all settings. A class inherits the groups of settings that its
role reads. The table is computed from the groups, and the roles of each setting from the classes.
"""

from __future__ import annotations

from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from timeball.config import destinations, trust
from timeball.config.identity_settings import Identifying
from timeball.config.log_settings import Logging
from timeball.config.metrics_settings import Measuring, MeasuringWorkers
from timeball.config.readers import SQLITE
from timeball.config.setting import ROW, Role, Setting
from timeball.config.settings import (
    GROUPS,
    Connecting,
    Executing,
    Listening,
    Moving,
    Serving,
    Storing,
)


@dataclass(frozen=True, kw_only=True)
class ClientConfig(Connecting):
    ca: Path | None = None

    @property
    def local(self) -> bool:
        """True if all servers are on this machine: their hosts are `localhost` or loopback addresses."""
        return all(map(trust.is_loopback, self.servers))


@dataclass(frozen=True, kw_only=True)
class ServerConfig(Listening, Storing, Serving, Identifying, Measuring, Logging):
    @property
    def sqlite_path(self) -> Path | None:
        """The path of the SQLite database, or None if the store is PostgreSQL."""
        return Path(self.store.removeprefix(SQLITE)) if self.store.startswith(SQLITE) else None

    @property
    def admin_key_file(self) -> Path:
        return destinations.admin_key_file(self.data_dir)


@dataclass(frozen=True, kw_only=True)
class WorkerRoleConfig(Executing, MeasuringWorkers):
    """The settings of a process that executes runs: `timeball worker` and `timeball up`."""

    protected: tuple[Path, ...]
    """Files and folders that a job must not open: keys, the store and other data of Timeball. Some may not exist."""


@dataclass(frozen=True, kw_only=True)
class WorkerConfig(Connecting, WorkerRoleConfig, Logging):
    token: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class UpConfig(WorkerRoleConfig, ServerConfig):
    """The settings of `timeball up`: a server and a worker in one process."""


@dataclass(frozen=True, kw_only=True)
class MigrateConfig(Storing, Moving):
    objects: str = field(repr=False)
    """Where the SQLite store keeps large values."""

    @property
    def source(self) -> Path:
        """The path of the SQLite database."""
        return Path(self.store.removeprefix(SQLITE))


@dataclass(frozen=True, kw_only=True)
class BackupConfig(Storing):
    objects: str = field(repr=False)
    """Where the SQLite store keeps large values."""
    archive: str | None = field(repr=False)
    scripts_dir: Path

    @property
    def source(self) -> Path:
        """The path of the SQLite database."""
        return Path(self.store.removeprefix(SQLITE))


@dataclass(frozen=True, kw_only=True)
class RestoreConfig:
    data_dir: Path


@dataclass(frozen=True, kw_only=True)
class SchemaConfig(Storing):
    store_direct: str | None = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class DoctorConfig(Connecting, Storing):
    """The settings of all roles that `timeball doctor` checks on this machine."""

    ca: Path | None
    port: int
    host: str
    tls_key: Path | None
    store_direct: str | None = field(repr=False)
    objects: str | None = field(repr=False)
    archive: str | None = field(repr=False)
    scripts_dir: Path
    has_store: bool = False
    """True if a setting names a store, or the data folder has one."""
    has_scripts_dir: bool = False
    """True if a setting names the folder with scripts."""
    secret_files: tuple[Path, ...] = ()
    """The files with keys and passwords that settings name."""

    @property
    def sqlite_path(self) -> Path | None:
        return Path(self.store.removeprefix(SQLITE)) if self.store.startswith(SQLITE) else None


CONFIGS: Final[dict[Role, type]] = {
    "client": ClientConfig,
    "server": ServerConfig,
    "worker": WorkerConfig,
    "up": UpConfig,
    "migrate": MigrateConfig,
    "backup": BackupConfig,
    "restore": RestoreConfig,
    "schema": SchemaConfig,
    "doctor": DoctorConfig,
}


# --- the table ----------------------------------------------------------------------------------------------------


def _rows() -> list[Setting[Any]]:
    fields_of = {role: {found.name for found in fields(config)} for role, config in CONFIGS.items()}
    return [_row(group, found, fields_of) for group in GROUPS for found in fields(group)]


def _row(group: type, found: Field[Any], fields_of: dict[Role, set[str]]) -> Setting[Any]:
    columns: dict[str, Any] = {"name": found.name, **found.metadata[ROW]}
    also: tuple[Role, ...] = columns.pop("also", ())
    roles = [role for role, names in fields_of.items() if found.name in names or role in also]
    flag_roles = [role for role in roles if columns["flag"] and role not in also]
    heading = (group.__doc__ or "").removesuffix(".")
    return Setting(field=found.name, group=heading, roles=tuple(roles), flag_roles=tuple(flag_roles), **columns)


TABLE: Final[dict[str, Setting[Any]]] = {row.name: row for row in _rows()}
"""All settings by name, in the order of the help and of the reference page."""
SETTINGS: Final[dict[str, Setting[Any]]] = {name: row for name, row in TABLE.items() if not row.flag_only}
"""The settings that the environment and `timeball.toml` can set."""
SECRETS: Final[tuple[Setting[Any], ...]] = tuple(row for row in TABLE.values() if row.secret)
"""The settings whose values no other process may read."""
