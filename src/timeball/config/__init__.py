"""Settings. Only this package reads settings from the environment and from `timeball.toml`.

`settings` has the table with one row for each setting; everything else about a setting follows from its row. Each role
gets one frozen object with its settings, which is validated once, before anything starts. A setting comes from its
flag, else from its environment variable, else from `timeball.toml`, else it has its default; an empty environment
variable counts as unset.

`timeball.toml` is the file that `TIMEBALL_CONFIG` names, else the one in the current folder, else the one in
`~/.config/timeball`. Its keys are the names in `SETTINGS`. A file in the current folder does not decide where the
user's keys are sent: the table in `timeball.config.trust` states which key is sent to which server.

A secret setting may also come from a file with one line: `--token-file`, `TIMEBALL_TOKEN_FILE` or `token_file` name it.
"""

from __future__ import annotations

from timeball.config.load import (
    backup,
    client,
    doctor,
    migrate,
    remember,
    restore,
    schema,
    server,
    sign_in_page,
    up,
    worker,
)
from timeball.config.roles import (
    SECRETS,
    SETTINGS,
    TABLE,
    BackupConfig,
    ClientConfig,
    DoctorConfig,
    MigrateConfig,
    RestoreConfig,
    SchemaConfig,
    ServerConfig,
    UpConfig,
    WorkerConfig,
    WorkerRoleConfig,
)
from timeball.config.setting import InvalidSetting, Role, Setting

__all__ = [
    "SECRETS",
    "SETTINGS",
    "TABLE",
    "BackupConfig",
    "ClientConfig",
    "DoctorConfig",
    "InvalidSetting",
    "MigrateConfig",
    "RestoreConfig",
    "Role",
    "SchemaConfig",
    "ServerConfig",
    "Setting",
    "UpConfig",
    "WorkerConfig",
    "WorkerRoleConfig",
    "backup",
    "client",
    "doctor",
    "migrate",
    "remember",
    "restore",
    "schema",
    "server",
    "sign_in_page",
    "up",
    "worker",
]
