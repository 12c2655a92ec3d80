"""Settings: the only package that reads the environment and configuration files.

`settings` has the table: one row for each setting, from which everything else about it follows. One frozen object per
role is made of it, validated once, before anything starts. A setting comes from its flag, else its environment
variable, else `timeball.toml`, else its default; an empty environment variable counts as unset.

`timeball.toml` is the file that `TIMEBALL_CONFIG` names, else the one in the current folder, else the one in
`~/.config/timeball`. Its keys are the names in `SETTINGS`. A file in the current folder is not trusted with the user's
keys: the table in `timeball.config.trust` says which key goes to which server.

A secret setting may also come from a file: `--token-file`, `TIMEBALL_TOKEN_FILE` or `token_file` name it, and its only
line is the value.
"""

from __future__ import annotations

from timeball.config.load import client, migrate, remember, server, up, worker
from timeball.config.roles import (
    SECRETS,
    SETTINGS,
    TABLE,
    ClientConfig,
    CrewConfig,
    MigrateConfig,
    ServerConfig,
    UpConfig,
    WorkerConfig,
)
from timeball.config.setting import InvalidSetting, Role, Setting

__all__ = [
    "SECRETS",
    "SETTINGS",
    "TABLE",
    "ClientConfig",
    "CrewConfig",
    "InvalidSetting",
    "MigrateConfig",
    "Role",
    "ServerConfig",
    "Setting",
    "UpConfig",
    "WorkerConfig",
    "client",
    "migrate",
    "remember",
    "server",
    "up",
    "worker",
]
