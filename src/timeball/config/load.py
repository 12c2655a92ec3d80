"""Builds the configuration of a role from its settings: one frozen object, validated once, before anything starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from timeball.config import destinations, places
from timeball.config.readers import SQLITE, provider_url, worker_name
from timeball.config.roles import (
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
from timeball.config.setting import InvalidSetting
from timeball.config.sources import Flags, Given

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

C = TypeVar("C", bound="DataclassInstance")
S = TypeVar("S", bound=ServerConfig)
W = TypeVar("W", bound=WorkerRoleConfig)

_NAMES = {row.field: row.name for row in TABLE.values()}


def client(flags: Flags, environ: Mapping[str, str] | None = None) -> ClientConfig:
    return _fill(ClientConfig, _given(flags, environ))


def server(flags: Flags, environ: Mapping[str, str] | None = None) -> ServerConfig:
    return _check_server(_fill(ServerConfig, _given(flags, environ)))


def worker(flags: Flags, environ: Mapping[str, str] | None = None) -> WorkerConfig:
    given = _given(flags, environ)
    if given.used("token") is None:
        raise InvalidSetting(
            "a worker needs a key: create one with `timeball keys create --role worker`,"
            " write it into a file, and name that with --token-file or TIMEBALL_TOKEN_FILE"
        )
    return _check_worker_role(_fill(WorkerConfig, given, given.used("url")), given)


def up(flags: Flags, environ: Mapping[str, str] | None = None) -> UpConfig:
    given = _given(flags, environ)
    config = _check_worker_role(_check_server(_fill(UpConfig, given)), given)
    if config.processes > 1 and config.tls_cert is not None:
        raise InvalidSetting(
            "`timeball up` with several worker processes has no TLS: start `timeball server` with TLS, and"
            " `timeball worker --processes` with --ca"
        )
    return config


def migrate(flags: Flags, environ: Mapping[str, str] | None = None) -> MigrateConfig:
    given = _given(flags, environ)
    if not given.used("store").startswith(SQLITE):
        raise InvalidSetting(
            "the store that is set is already PostgreSQL; name the one to migrate: --store sqlite:///path/to/file.db"
        )
    return _fill(MigrateConfig, given)


def backup(flags: Flags, environ: Mapping[str, str] | None = None) -> BackupConfig:
    given = _given(flags, environ)
    if not given.used("store").startswith(SQLITE):
        raise InvalidSetting(
            "the store that is set is PostgreSQL: back it up with pg_dump, or with an archive of its log"
            " (docs/howto/backup.md)"
        )
    return _fill(BackupConfig, given)


def restore(flags: Flags, environ: Mapping[str, str] | None = None) -> RestoreConfig:
    return _fill(RestoreConfig, _given(flags, environ))


def schema(flags: Flags, environ: Mapping[str, str] | None = None) -> SchemaConfig:
    return _fill(SchemaConfig, _given(flags, environ))


def doctor(flags: Flags, environ: Mapping[str, str] | None = None) -> DoctorConfig:
    given = _given(flags, environ)
    config = _fill(DoctorConfig, given)
    named = [*given.secret_files(), *([] if config.tls_key is None else [config.tls_key])]
    return replace(
        config,
        has_store=given("store") is not None
        or (config.sqlite_path is not None and places.may_exist(config.sqlite_path)),
        has_scripts_dir=given("scripts_dir") is not None,
        secret_files=tuple(dict.fromkeys(named)),
    )


def remember(data_dir: Path, port: int, environ: Mapping[str, str] | None = None, *, secure: bool = False) -> None:
    """Record for this user's clients which data folder the server on a port uses, so that they find its admin key, and
    whether it uses TLS.
    """
    note = destinations.note(_given({}, environ), port)
    try:
        note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        note.write_text(f"{data_dir}\n{'https' if secure else 'http'}\n", "utf-8")
    except OSError:
        return  # the record only saves clients a setting; a server without a home folder works as well


def sign_in_page(flags: Flags, environ: Mapping[str, str] | None = None) -> Path:
    """Return the path of the HTML file that leads this user's browser to a one-time sign-in link."""
    return destinations.sign_in_page(_given(flags, environ))


def _given(flags: Flags, environ: Mapping[str, str] | None) -> Given:
    return Given(TABLE, flags, environ)


def _fill(config: type[C], given: Given, servers: Sequence[str] = ()) -> C:
    """Return a configuration with the settings that it has fields for. `servers` are the servers of a worker; some may
    run on this machine, and their data folders are then protected from jobs.
    """
    names = [found.name for found in fields(config)]
    values = {name: given.used(_NAMES[name]) for name in names if name in _NAMES}
    if issubclass(config, WorkerRoleConfig):
        values["protected"] = places.protected(given, servers)
    return config(**values)


def _check_server(config: S) -> S:
    if config.sqlite_path is not None and (config.store_direct is not None or config.read_store is not None):
        raise InvalidSetting("--store-direct and --read-store need PostgreSQL, and --store names an SQLite database")
    if config.sqlite_path is not None and not config.loops:
        raise InvalidSetting(
            "--no-loops needs PostgreSQL: the server on an SQLite database is the only one, and has to run the loops"
        )
    if (config.tls_cert is None) != (config.tls_key is None):
        raise InvalidSetting(
            "TLS needs both tls_cert and tls_key: name the certificate with --tls-cert and its key with --tls-key"
        )
    _check_identity_provider(config)
    return config


def _check_identity_provider(config: ServerConfig) -> None:
    if config.oidc_client_id is None and (config.oidc_client_secret is not None or config.oidc_name is not None):
        raise InvalidSetting("oidc_client_secret and oidc_name need oidc_client_id: this installation at the provider")
    if config.jwt_issuer is None:
        if config.jwt_audience is not None or config.oidc_client_id is not None:
            raise InvalidSetting("jwt_audience and oidc_client_id need jwt_issuer: the identity provider")
        return
    if config.jwt_audience is None and config.oidc_client_id is None:
        raise InvalidSetting(
            "jwt_issuer needs jwt_audience, for bearer tokens, or oidc_client_id, for sign-in with a browser, or both"
        )
    if config.jwt_secret is not None and config.jwt_keys is not None:
        raise InvalidSetting(
            "jwt_secret and jwt_keys exclude each other: tokens are signed with HS256 and the secret, or with a key of"
            " the key set"
        )
    if config.oidc_client_id is not None or (config.jwt_secret is None and config.jwt_keys is None):
        try:
            provider_url(config.jwt_issuer)
        except ValueError as error:
            raise InvalidSetting(f"jwt_issuer is where the discovery document is read from: {error}") from None


def _check_worker_role(config: W, given: Given) -> W:
    if config.dedicated and not config.labels:
        raise InvalidSetting(
            "a dedicated worker accepts only runs that ask for one of its labels, and it has none:"
            " give it some with --label or TIMEBALL_LABELS"
        )
    if config.scripts_dir.resolve() == given.used("data_dir").resolve():
        raise InvalidSetting(
            f"the scripts folder {config.scripts_dir} is the data folder, which jobs must not read:"
            " name another --scripts-dir"
        )
    if config.slots is not None and config.slots < config.processes:
        raise InvalidSetting(
            f"{config.slots} slots are not enough for {config.processes} processes: each needs at least one;"
            " set --slots higher or --processes lower"
        )
    if config.processes > 1:
        try:
            worker_name(f"{config.name}-{config.processes}")
        except ValueError as error:
            raise InvalidSetting(
                f"the name {config.name!r} is too long: the processes append a number to it, and {error}"
            ) from None
    if config.job_landlock and not config.no_new_privs:
        raise InvalidSetting(
            "Landlock cannot confine jobs that may gain privileges:"
            " with no_new_privs off, set job_landlock to off as well"
        )
    return config
