"""Makes and restores backups of an embedded store."""

from __future__ import annotations

import os
from pathlib import Path

import timeball
from timeball.bootstrap.hardening import hide_secrets
from timeball.bootstrap.private_files import make_new_files_private
from timeball.config import BackupConfig, RestoreConfig
from timeball.ports.store_backup import BackupResult, RestoreResult
from timeball.ports.store_transfer import Report


def run_backup(config: BackupConfig, file: Path, report: Report) -> BackupResult:
    from timeball.stores.backup.backup import make_backup

    make_new_files_private()
    hide_secrets()
    objects = Path(config.objects) if os.path.isabs(config.objects) else None
    elsewhere = [place for place in (config.objects, config.archive) if place and place != str(objects)]
    places = tuple(place.partition("?")[0] for place in dict.fromkeys(elsewhere))  # the query may contain a secret
    return make_backup(
        file,
        config.source,
        objects,
        config.scripts_dir,
        not_included=places,
        version=timeball.__version__,
        report=report,
    )


def run_restore(config: RestoreConfig, file: Path, report: Report) -> RestoreResult:
    from timeball.stores.backup.restore import restore_backup

    make_new_files_private()
    return restore_backup(file, config.data_dir, report)
