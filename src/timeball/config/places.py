"""Where Timeball stores its data: the data folder, the store, the archive and large values; and which of these paths
jobs must not open.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from timeball.config import files
from timeball.config.destinations import noted
from timeball.config.readers import LOCAL, POSTGRES, SQLITE
from timeball.config.setting import InvalidSetting
from timeball.config.sources import Given

_SECRET_FILES_IN_DSN: Final = ("passfile", "sslkey")
_SECRET_FILE_VARIABLES: Final = {
    "postgresql": ("PGPASSFILE", "PGSSLKEY"),
    "s3": ("AWS_SHARED_CREDENTIALS_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE"),
    "gs": ("GOOGLE_APPLICATION_CREDENTIALS",),
    "az": ("AZURE_FEDERATED_TOKEN_FILE",),
}
"""Environment variables that name files with secrets, by the scheme of the setting that needs them."""
_SQLITE_FILES: Final = ("", "-wal", "-shm", "-journal", ".lock")


def may_exist(path: Path) -> bool:
    """False if there is no such file or folder. True if there is, or if this user cannot open the folder of it."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def data_dir(given: Given) -> Path:
    return files.home(given.environ, "XDG_DATA_HOME", ".local/share")


def store(given: Given) -> str:
    return f"{SQLITE}{given.used('data_dir') / 'timeball.db'}"


def scripts_dir(given: Given) -> Path:
    found: Path = given.used("data_dir") / "scripts"
    return found


def otlp_endpoint(given: Given) -> str | None:
    """Return the endpoint that the variable of the OpenTelemetry SDKs names, if there is one."""
    return given.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or None


def archive(given: Given, found: str | None) -> str | None:
    if found == LOCAL and not _is_embedded(given):
        raise InvalidSetting(
            "all servers on one PostgreSQL need the same archive, and they do not share the data folder of this server:"
            " name a folder that all of them share, or a bucket like s3://bucket/prefix"
        )
    return _own_objects(given) if found == LOCAL else found


def objects(given: Given, found: str | None) -> str | None:
    """Return where large values are stored. The default is the folder `objects` in the data folder for an SQLite store,
    and the archive for PostgreSQL. None if large values stay in the store."""
    if found == LOCAL and not _is_embedded(given):
        raise InvalidSetting(
            "all servers on one PostgreSQL need the same place for objects, and they do not share the data folder"
            " of this server: name a folder that all of them share, or a bucket like s3://bucket/prefix"
        )
    if found is not None and found != LOCAL:
        return found
    if _is_embedded(given):
        return _own_objects(given)
    shared: str | None = given.used("archive")
    return shared


def target_objects(given: Given, found: str | None) -> str | None:
    """Return the place where the servers on the target store of a migration read large values; None if no setting names
    a place.
    """
    place: str | None = given("objects") if found is None else found
    return None if place == LOCAL else place  # `local` is no place that servers on PostgreSQL can share


def protected(given: Given, servers: Sequence[str]) -> tuple[Path, ...]:
    """Return the files and folders on this machine that jobs must not open: data folders, the database, the archive,
    objects and secrets. They follow from the settings, and from the data folders that local `servers` recorded."""
    found = [given.used("data_dir"), *_noted_data_dirs(given, servers)]
    if _is_embedded(given):
        database = given.used("store").removeprefix(SQLITE)
        found += [Path(f"{database}{suffix}") for suffix in _SQLITE_FILES]
    found += [Path(place) for place in (given("archive"), given("objects")) if place and os.path.isabs(place)]
    if (tls_key := given("tls_key")) is not None:
        found.append(tls_key)
    return tuple(dict.fromkeys([*found, *given.secret_files(), *_secret_files_of_drivers(given)]))


def _is_embedded(given: Given) -> bool:
    return bool(given.used("store").startswith(SQLITE))


def _own_objects(given: Given) -> str:
    return str(given.used("data_dir") / "objects")


def _noted_data_dirs(given: Given, servers: Sequence[str]) -> list[Path]:
    """Return the data folders of servers that this user started on this machine. A recorded folder counts only if it
    contains a key or a database.
    """
    named = [noted(given, urlsplit(server).port)[0] for server in servers]
    folders = [Path(folder) for folder in named if os.path.isabs(folder)]
    return [folder for folder in folders if any((folder / name).is_file() for name in ("admin.key", "timeball.db"))]


def _secret_files_of_drivers(given: Given) -> list[Path]:
    """Return the files with secrets that the drivers of databases and buckets read."""
    places = ("store", "store_direct", "read_store", "archive", "objects")
    values = [value for name in places if (value := given(name))]
    schemes = {urlsplit(value).scheme for value in values}
    dsns = [value for value in values if value.startswith(POSTGRES)]
    named = [path for dsn in dsns for name, path in parse_qsl(urlsplit(dsn).query) if name in _SECRET_FILES_IN_DSN]
    variables = [name for scheme in schemes for name in _SECRET_FILE_VARIABLES.get(scheme, ())]
    named += [path for name in variables if (path := given.environ.get(name))]
    return [Path(os.path.expanduser(path)).absolute() for path in named]
