"""Backups of an embedded store: what a backup contains, and what is missing in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

FORMAT = 1
"""The layout of the file. A higher number is refused."""


class BackupManifest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The description of a backup, inside of it."""

    format: int
    version: str
    """The version of Timeball that made the backup."""
    schema: int
    oldest_schema: int
    """The oldest schema whose servers can work on this database."""
    store_time: str
    """The time of the last commit in the backup, by the clock of the store."""
    rows: Mapping[str, int]
    """The number of rows of each table."""
    objects: int
    """Number of files with large values and archived runs."""
    scripts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupResult:
    file: str
    size: int
    manifest: BackupManifest
    not_included: tuple[str, ...] = ()
    """Places with data of the store that the backup does not contain, without secrets."""
    missing_objects: int = 0
    """Number of large values that rows of the backup refer to, and that do not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    file: str
    data_dir: str
    manifest: BackupManifest
