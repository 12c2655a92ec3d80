"""Settings: the only module that reads the environment and configuration files.

One frozen object per role, validated once, before anything starts. A setting comes from its flag, else its
environment variable, else `timeball.toml`, else its default; an empty environment variable counts as unset.

`timeball.toml` is the file that `TIMEBALL_CONFIG` names, else the one in the current folder, else the one in
`~/.config/timeball`. Its keys are the names in `SETTINGS`. A file in the current folder is not trusted with the user's
keys: the table in `timeball.trust` says which key goes to which server.

A secret setting may also come from a file: `--token-file`, `TIMEBALL_TOKEN_FILE` or `token_file` name it, and its only
line is the value.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlsplit

from timeball import host as machine
from timeball import job_user, secret_files, trust
from timeball.domain import duration, retention
from timeball.domain.dispatch.priority import CREDIT
from timeball.domain.errors import Invalid, TimeballError
from timeball.domain.instant import DAY, SECOND, Micros
from timeball.job_user import JobUser
from timeball.trust import Trust

T = TypeVar("T")

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 1300
DEFAULT_SLOTS: Final = 32
DEFAULT_DRAIN: Final = 30.0
SHORTEST_ADMIN_KEY: Final = 32
MOST_SLOTS: Final = 10_000
MOST_CPUS: Final = 100_000
MOST_CREDIT: Final = DAY
LOCAL: Final = "local"
"""As an archive: a folder beside the embedded store."""

Flags = Mapping[str, Any]
"""What the command line said, by setting; None or an empty tuple: nothing."""


class InvalidSetting(TimeballError):
    """A setting that cannot be used: which, with what value, from where, and what to do."""

    code = "invalid_setting"


# --- what each role is started with -------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ClientConfig:
    servers: tuple[str, ...]
    """Base URLs, in the order of preference."""
    token: str | None = field(repr=False)
    ca: Path | None = None
    """The certificates of the authorities to trust; None: those of the system."""

    @property
    def local(self) -> bool:
        """Whether all of them are on this machine."""
        return all(map(trust.is_loopback, self.servers))


@dataclass(frozen=True, kw_only=True)
class ServerConfig:
    store: str = field(repr=False)
    """`sqlite:////absolute/path.db` or `postgresql://…`."""
    store_direct: str | None = field(repr=False)
    """A way to the same database past the pooler that `store` leads to; None: `store` leads to no pooler."""
    read_store: str | None = field(repr=False)
    """A replica of the store for lists and histories."""
    data_dir: Path
    """Absolute; need not exist yet."""
    host: str
    port: int
    """0: any free one."""
    tls_cert: Path | None
    """Its certificate and those between it and the authority, for HTTPS; None: it speaks HTTP."""
    tls_key: Path | None
    admin_key: str | None = field(repr=False)
    """None: the one in `admin_key_file`, which is generated when it is not there."""
    priority_credit: Micros
    """What one level of priority is worth in waiting time."""
    retention: Micros | None
    """How long runs that ended are kept; None: for ever."""
    archive: str | None = field(repr=False)
    """Where history goes before it leaves the store: an absolute folder, `s3://…`, `gs://…` or `az://…`. None: it is
    lost then."""
    objects: str | None = field(repr=False)
    """Where large values are kept, likewise. None: in the store, like small ones."""
    accept_damaged_log: bool
    """Start on an embedded store that lost acknowledged commits, once a copy was made."""
    log_level: str
    """`debug`, `info`, `warning` or `error`."""
    log_format: str
    """`text` or `json`."""
    accept_clock: bool = False
    """The wall clock is right, however far it is from the time of the embedded store. For one start: a flag only."""

    @property
    def admin_key_file(self) -> Path:
        return _admin_key_file(self.data_dir)

    @property
    def sqlite_path(self) -> Path | None:
        """The embedded store's file; None: the store is a database server."""
        return Path(self.store.removeprefix(_SQLITE)) if self.store.startswith(_SQLITE) else None


@dataclass(frozen=True, kw_only=True)
class MigrateConfig:
    source: Path
    """The file of the embedded store."""
    target: str | None = field(repr=False)
    """`postgresql://…`; None: nothing is to be moved, but taken back."""
    data_dir: Path
    objects: str = field(repr=False)
    """Where the embedded store keeps large values."""
    target_objects: str | None = field(repr=False)
    """Where the new one's servers will look for them; None: nobody said so."""


@dataclass(frozen=True, kw_only=True)
class CrewConfig:
    """What executes runs."""

    name: str
    slots: int
    """Runs at a time."""
    cpu: float
    """CPUs for runs that ask for some."""
    memory_mb: int | None
    """MiB for runs that ask for some; None: as much as anybody asks for."""
    labels: tuple[str, ...]
    dedicated: bool
    """Takes only runs that ask for one of its labels."""
    kinds: tuple[str, ...] | None
    """The kinds of jobs that it takes; None: every one."""
    tasks: tuple[str, ...]
    """Modules to import, for the functions they register."""
    scripts_dir: Path
    drain_seconds: float
    """How long a stopping worker waits for what it runs before it hands it back."""
    job_user: JobUser | None
    """The user that process jobs run as; None: the worker's own."""
    job_landlock: bool
    """Process jobs run in a Landlock domain, if the kernel has it."""
    no_new_privs: bool
    """No program, such as sudo, gives a process job more privileges than its user has."""
    job_signals: bool
    """Process jobs in a Landlock domain may send signals to processes outside of their job."""
    job_cgroups: bool
    """Process jobs are limited by control groups, as far as the system lets the worker make some."""
    protected: tuple[Path, ...]
    """Files and folders that a job may not open: keys, the store, and what else Timeball keeps. Some do not exist."""


@dataclass(frozen=True, kw_only=True)
class WorkerConfig(CrewConfig):
    servers: tuple[str, ...]
    token: str = field(repr=False)
    ca: Path | None
    log_level: str
    log_format: str


@dataclass(frozen=True, kw_only=True)
class UpConfig(CrewConfig, ServerConfig):
    """A server and a worker in one process."""


def client(flags: Flags, environ: Mapping[str, str] | None = None) -> ClientConfig:
    return _Given(flags, environ).connecting()


def server(flags: Flags, environ: Mapping[str, str] | None = None) -> ServerConfig:
    given = _Given(flags, environ)
    return ServerConfig(**given.serving(), **given.logging())


def worker(flags: Flags, environ: Mapping[str, str] | None = None) -> WorkerConfig:
    given = _Given(flags, environ)
    found = given.connecting()
    if found.token is None:
        raise InvalidSetting(
            "a worker needs a key: create one with `timeball keys create --role worker`,"
            " write it into a file, and name that with --token-file or TIMEBALL_TOKEN_FILE"
        )
    executing = given.executing(found.servers)
    return WorkerConfig(servers=found.servers, token=found.token, ca=found.ca, **executing, **given.logging())


def up(flags: Flags, environ: Mapping[str, str] | None = None) -> UpConfig:
    given = _Given(flags, environ)
    return UpConfig(**given.serving(), **given.executing(), **given.logging())


def migrate(flags: Flags, environ: Mapping[str, str] | None = None) -> MigrateConfig:
    given = _Given(flags, environ)
    store = given.store()
    if not store.startswith(_SQLITE):
        raise InvalidSetting(
            "the store that is set is PostgreSQL already; say which one is to be moved: --store sqlite:///path/to/file.db"
        )
    return MigrateConfig(
        source=Path(store.removeprefix(_SQLITE)),
        target=given(_TO),
        data_dir=given.data_dir(),
        objects=given.objects_of_embedded(),
        target_objects=_target_objects(given, flags),
    )


def _target_objects(given: _Given, flags: Flags) -> str | None:
    named = flags.get("to_objects")
    found: str | None = given(OBJECTS) if named is None else _read(OBJECTS, named, OBJECTS.flag)
    return None if found == LOCAL else found  # a place that was named before is named for the servers, too


def remember(data_dir: Path, port: int, environ: Mapping[str, str] | None = None, *, secure: bool = False) -> None:
    """Note for this user's clients which folder the server on a port uses, so that they find its admin key, and whether
    it speaks TLS."""
    note = _Given({}, environ).note(port)
    try:
        note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        note.write_text(f"{data_dir}\n{'https' if secure else 'http'}\n", "utf-8")
    except OSError:
        return  # a convenience: a server without a home works as well


# --- the settings -------------------------------------------------------------------------------------------------

_SQLITE: Final = "sqlite:///"
_POSTGRES: Final = "postgresql://"
_SECRET_FILES_IN_DSN: Final = ("passfile", "sslkey")
_SECRET_FILE_VARIABLES: Final = {
    "postgresql": ("PGPASSFILE", "PGSSLKEY"),
    "s3": ("AWS_SHARED_CREDENTIALS_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE"),
    "gs": ("GOOGLE_APPLICATION_CREDENTIALS",),
    "az": ("AZURE_FEDERATED_TOKEN_FILE",),
}
"""Environment variables that name files with secrets, by the scheme of the setting that needs them."""
_SQLITE_FILES: Final = ("", "-wal", "-shm", "-journal", ".lock")


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("write some text")
    return value.strip()


def _one_of(*choices: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if str(value).lower() not in choices:
            raise ValueError(f"write {', '.join(choices[:-1])} or {choices[-1]}")
        return str(value).lower()

    return read


def _whole(low: int, high: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        text = str(value).strip()
        if isinstance(value, bool) or not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
            raise ValueError(f"write a whole number from {low} to {high}")
        return int(text)

    return read


def _cpus(value: Any) -> float:
    try:
        count = math.nan if isinstance(value, bool) else float(str(value))
    except ValueError:
        count = math.nan
    if not 0 <= count <= MOST_CPUS:
        raise ValueError(f"write a number from 0 to {MOST_CPUS}, like 4 or 0.5")
    return count


def _size(value: Any) -> int:
    from timeball.domain.dispatch.placement import mebibytes

    try:
        return mebibytes(str(value))
    except Invalid:
        raise ValueError("write a number of MiB, or a size like 512M or 8G") from None


def _yes_or_no(value: Any) -> bool:
    words = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
    if (found := words.get(str(value).strip().lower())) is None:
        raise ValueError("write true or false")
    return found


def _words(value: Any) -> tuple[str, ...]:
    """A list, or text with commas."""
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
        raise ValueError("write a list of words, or words with commas between them")
    return tuple(part.strip() for word in words for part in word.split(",") if part.strip())


def _labels(value: Any) -> tuple[str, ...]:
    import msgspec  # only a worker needs it here

    from timeball.domain.dispatch.placement import Label
    from timeball.ports.worker_protocol import MAX_LABELS

    words = _words(value)
    for word in words:
        try:
            msgspec.convert(word, Label)
        except msgspec.ValidationError:
            raise ValueError(f"{word!r} is not a label; use letters, digits and . _ : / = -") from None
    if len(words) > MAX_LABELS:
        raise ValueError(f"a worker has at most {MAX_LABELS} labels")
    return words


def _worker_name(value: Any) -> str:
    from timeball.ports.worker_protocol import MAX_WORKER_NAME_LENGTH  # only a worker needs it here

    name = _text(value)
    if len(name) > MAX_WORKER_NAME_LENGTH:
        raise ValueError(f"a worker's name has at most {MAX_WORKER_NAME_LENGTH} characters")
    return name


def _kinds(value: Any) -> tuple[str, ...]:
    from timeball.domain.task.task import KINDS

    words = _words(value)
    for word in words:
        if word not in KINDS:
            raise ValueError(f"{word!r} is not a kind; write some of {', '.join(KINDS)}")
    if not words:
        raise ValueError(f"write some of {', '.join(KINDS)}")
    return tuple(kind for kind in KINDS if kind in words)


def _urls(value: Any) -> tuple[str, ...]:
    urls = tuple(url.rstrip("/") for url in _words(value))
    for url in urls:
        try:
            trust.check_server(url)
        except ValueError as error:
            example = f"http://127.0.0.1:{DEFAULT_PORT}"
            raise ValueError(f"write an address like {example}, several with commas ({error})") from None
    if not urls:
        raise ValueError("write at least one address")
    return urls


def _folder(value: Any) -> Path:
    return Path(_text(value)).expanduser().absolute()


def _file(value: Any) -> Path:
    path = _folder(value)
    if not path.is_file():
        raise ValueError("there is no such file")
    return path


def _seconds(value: Any) -> float:
    try:
        return duration.parse(value) / SECOND
    except Invalid as error:
        raise ValueError(error.detail) from None


def _credit(value: Any) -> Micros:
    try:
        credit = duration.parse(value)
    except Invalid as error:
        raise ValueError(error.detail) from None
    if credit > MOST_CREDIT:
        raise ValueError("write at most 1d; the lowest priority may have to wait nine times as long")
    return credit


def _retention(value: Any) -> Micros:
    """0: for ever."""
    if str(value).strip().lower() == "never":
        return 0
    try:
        kept = duration.parse(value)
    except Invalid as error:
        raise ValueError(f"{error.detail}; or never, to prune nothing") from None
    if kept < retention.SHORTEST:
        raise ValueError("write at least 1d, or never, to prune nothing")
    return kept


def _store(value: Any) -> str:
    text = _text(value)
    scheme, separator, rest = text.partition("://")
    if separator and scheme in ("postgresql", "postgres"):
        _check_dsn(f"postgresql://{rest}")
        return f"postgresql://{rest}"
    if text.startswith(_SQLITE) and len(text) > len(_SQLITE):
        return f"{_SQLITE}{_folder(text.removeprefix(_SQLITE))}"
    raise ValueError("write sqlite:///path/to/file.db or postgresql://user@host/database")


def _check_dsn(dsn: str) -> None:
    """Refuse what the driver would stumble over: its errors repeat parts of the password."""
    try:
        parts = urlsplit(dsn)
        parse_qsl(parts.query, strict_parsing=bool(parts.query))
        ports = [host.rpartition("]")[2].partition(":")[2] for host in parts.netloc.rpartition("@")[2].split(",")]
        named_once = parts.netloc.count("@") <= 1 and not parts.fragment
        readable = named_once and all(port.isdigit() or not port for port in ports)
    except ValueError:
        readable = False
    if not readable:
        raise ValueError(
            "write postgresql://user:password@host:port/database, with %2F for / in the password, %40 for @, %23 for #"
            " and %3F for ?"
        )


def _archive(value: Any) -> str:
    text = _text(value)
    if text == LOCAL:
        return text
    scheme, separator, _ = text.partition("://")
    if not separator:
        return str(_folder(text))
    if scheme not in ("s3", "gs", "az") or not urlsplit(text).netloc:
        raise ValueError(f"write a folder, s3://bucket/prefix, gs://… or az://…, or the word {LOCAL}")
    return text


def _postgres(value: Any) -> str:
    store = _store(value)
    if store.startswith(_SQLITE):
        raise ValueError("write postgresql://user@host/database")
    return store


def _token(value: Any) -> str:
    text = _text(value)
    if not text.isascii() or not text.isprintable():
        raise ValueError("a key is one line of ASCII characters")
    return text


def _admin_key(value: Any) -> str:
    text = _token(value)
    if len(text) < SHORTEST_ADMIN_KEY:
        raise ValueError(f"it has {len(text)} characters; use {SHORTEST_ADMIN_KEY} or more")
    return text


@dataclass(frozen=True)
class Setting(Generic[T]):
    name: str
    """Its key in `timeball.toml`, and with TIMEBALL_ before it, in capitals, its environment variable."""
    read: Callable[[Any], T]
    """The value, or ValueError with what to write instead."""
    meaning: str
    flag: str
    secret: bool = False
    steers: bool = False
    """Decides which peer receives the key, so that its source has to be as trusted as the key's."""
    protects: bool = False
    """Decides what jobs and strangers can reach, so that no file in the current folder sets it."""

    @property
    def variable(self) -> str:
        return f"TIMEBALL_{self.name.upper()}"

    @property
    def file_name(self) -> str:
        """The key in `timeball.toml` that names a file with its value, if it is secret."""
        return f"{self.name}_file"

    @property
    def file_variable(self) -> str:
        return f"{self.variable}_FILE"

    @property
    def file_flag(self) -> str:
        return f"{self.flag}-file"


URL = Setting("url", _urls, "where the servers are; several with commas", "--url", steers=True)
TOKEN = Setting("token", _token, "the key that goes with every request", "--token", secret=True)
DATA_DIR = Setting("data_dir", _folder, "the folder for everything a server keeps", "--data-dir")
HOST = Setting("host", _text, "the address to listen on", "--host")
PORT = Setting("port", _whole(0, 65_535), "the port to listen on; 0: any free one", "--port")
TLS_CERT = Setting("tls_cert", _file, "the server's certificate chain, for HTTPS: a PEM file", "--tls-cert")
TLS_KEY = Setting("tls_key", _file, "the private key of that certificate: a PEM file", "--tls-key")
CA = Setting("ca", _file, "the authorities to trust instead of the system's: a PEM file", "--ca", steers=True)
STORE = Setting("store", _store, "the database: sqlite:///… or postgresql://…", "--store", secret=True)
STORE_DIRECT = Setting(
    "store_direct", _postgres, "the database itself, where --store leads to a pooler", "--store-direct", secret=True
)
READ_STORE = Setting("read_store", _postgres, "a replica for lists and histories", "--read-store", secret=True)
# No flag: the arguments of a process can be read by everybody on its machine.
ADMIN_KEY = Setting("admin_key", _admin_key, "the first admin key", "", secret=True, protects=True)
CREDIT_PER_LEVEL = Setting(
    "priority_credit", _credit, "what one level of priority is worth in waiting time", "--priority-credit"
)
RETENTION = Setting(
    "retention", _retention, "how long runs that ended are kept: a time, or never to prune any", "--retention"
)
ARCHIVE = Setting("archive", _archive, "where history goes before it leaves the store", "--archive", secret=True)
OBJECTS = Setting("objects", _archive, "where large values are kept", "--objects", secret=True)
SLOTS = Setting("slots", _whole(1, MOST_SLOTS), "how many runs a worker executes at a time", "--slots")
CPU = Setting("cpu", _cpus, "how many CPUs a worker shares out to runs that ask for some", "--cpu")
MEMORY = Setting("memory", _size, "how much memory a worker shares out likewise: MiB, or 8G", "--memory")
LABELS = Setting("labels", _labels, "what a worker is good for", "--label")
DEDICATED = Setting("dedicated", _yes_or_no, "take only runs that ask for a label of this worker", "--dedicated")
TAKEN_KINDS = Setting(
    "kinds", _kinds, "the kinds of jobs that a worker takes: some of http, shell, script, python", "--kinds"
)
TASKS = Setting("tasks", _words, "modules whose tasks a worker offers", "--tasks")
SCRIPTS_DIR = Setting("scripts_dir", _folder, "the folder that script jobs are looked up in", "--scripts-dir")
NAME = Setting("name", _worker_name, "a worker's name; host name and process id by default", "--name")
JOB_USER = Setting(
    "job_user",
    job_user.find,
    "the user that process jobs run as, if the worker is root",
    "--job-user",
    protects=True,
)
JOB_LANDLOCK = Setting(
    "job_landlock",
    _yes_or_no,
    "keep Timeball's own files and processes from process jobs",
    "--job-landlock",
    protects=True,
)
NO_NEW_PRIVS = Setting(
    "no_new_privs",
    _yes_or_no,
    "keep process jobs from gaining privileges, as by sudo",
    "--no-new-privs",
    protects=True,
)
JOB_SIGNALS = Setting(
    "job_signals",
    _yes_or_no,
    "let process jobs send signals to processes outside of their job",
    "--job-signals",
    protects=True,
)
JOB_CGROUPS = Setting(
    "job_cgroups",
    _yes_or_no,
    "limit process jobs by control groups, and end them by these",
    "--job-cgroups",
    protects=True,
)
DRAIN = Setting("drain", _seconds, "how long a stopping worker waits for its runs", "--drain")
LOG_LEVEL = Setting("log_level", _one_of("debug", "info", "warning", "error"), "how much to log", "--log-level")
LOG_FORMAT = Setting("log_format", _one_of("text", "json"), "how to log", "--log-format")

SETTINGS: Final[dict[str, Setting[Any]]] = {
    setting.name: setting
    for setting in (
        *(
            URL,
            TOKEN,
            DATA_DIR,
            HOST,
            PORT,
            TLS_CERT,
            TLS_KEY,
            CA,
            STORE,
            STORE_DIRECT,
            READ_STORE,
            ADMIN_KEY,
            CREDIT_PER_LEVEL,
            RETENTION,
            ARCHIVE,
            OBJECTS,
            SLOTS,
            CPU,
            MEMORY,
        ),
        *(LABELS, DEDICATED, TAKEN_KINDS, TASKS, SCRIPTS_DIR, NAME, DRAIN, JOB_USER, JOB_LANDLOCK, NO_NEW_PRIVS),
        JOB_SIGNALS,
        JOB_CGROUPS,
        *(LOG_LEVEL, LOG_FORMAT),
    )
}

_TO = Setting("to", _postgres, "the empty PostgreSQL database to move to", "--to", secret=True)
"""Not among the settings: nothing is moved because the environment or a file says so."""


class _Found(NamedTuple):
    """A setting as it was written, before it is read."""

    value: Any
    source: str
    """For people."""
    trust: Trust


class _Source(NamedTuple):
    """A place where a setting, or a file with its value, may be named."""

    value: Any
    file: Any
    name: str
    file_name: str
    title: str
    """For people."""
    where: str = ""
    trust: Trust = Trust.USER


SECRETS: Final[tuple[Setting[Any], ...]] = tuple(
    setting for setting in (*SETTINGS.values(), OBJECTS, _TO) if setting.secret
)
"""Those whose values no other process may read."""


class _Given:
    """What was set, wherever it was set."""

    def __init__(self, flags: Flags, environ: Mapping[str, str] | None) -> None:
        self._flags = flags
        self._environ = os.environ if environ is None else environ
        self._file_path, self._file_trust = self._find_file()
        self._file = {} if self._file_path is None else _load(self._file_path)
        self._secrets: dict[Path, str] = {}
        """What was read of secret files."""

    def __call__(self, setting: Setting[T]) -> T | None:
        """The validated value; None: not set anywhere."""
        found = self._find(setting)
        return None if found is None else _read(setting, found.value, found.source)

    def _find(self, setting: Setting[Any]) -> _Found | None:
        """What the first source says that says something."""
        for source in self._sources(setting):
            if setting.protects and source.trust < Trust.USER and (source.value, source.file) != (None, None):
                raise self._unprotected(setting, source)
            if source.value is not None and source.file is not None:
                raise InvalidSetting(
                    f"both {source.name} and {source.file_name} are set{source.where}; leave one of them out"
                )
            if source.file is not None:
                return self._from_file(setting, source)
            if source.value is not None:
                return _Found(source.value, source.title, source.trust)
        return None

    def _unprotected(self, setting: Setting[Any], source: _Source) -> InvalidSetting:
        name = source.name if source.file is None else source.file_name
        variable = setting.file_variable if setting.secret else setting.variable
        instead = f"Pass {setting.flag} or set {variable}" if setting.flag else f"Set {variable}"
        path = Path(source.title).absolute()
        return InvalidSetting(
            f"{path} sets {name}, and a file in the current folder does not decide about {name}. {instead} yourself;"
            f" or, if you trust that file, set TIMEBALL_CONFIG={path}"
        )

    def _sources(self, setting: Setting[Any]) -> Iterator[_Source]:
        """Where a setting is looked for, the most trusted source first."""
        variable = self._environ.get(setting.variable) or None
        named = self._environ.get(setting.file_variable) or None
        flag = self._flags.get(setting.name)
        file_flag = self._flags.get(setting.file_name)
        yield _Source(None if flag == () else flag, file_flag, setting.flag, setting.file_flag, setting.flag)
        if setting is _TO:
            return
        title = f"the environment variable {setting.variable}"
        yield _Source(variable, named if setting.secret else None, setting.variable, setting.file_variable, title)
        where, path = f" in {self._file_path}", str(self._file_path)
        written, named = self._file.get(setting.name), self._file.get(setting.file_name)
        yield _Source(written, named, setting.name, setting.file_name, path, where, self._file_trust)

    def _from_file(self, setting: Setting[Any], source: _Source) -> _Found:
        """The value in a file. Whichever source names the file: what is in it belongs to the user."""
        title = f"{source.file_name}{source.where}"
        path = _read_path(setting, source.file, title)
        try:
            if path not in self._secrets:  # a pipe can be read only once
                self._secrets[path] = secret_files.read(path)
        except ValueError as error:
            raise InvalidSetting(f"{setting.name} from {title} cannot be used: {error}") from None
        return _Found(self._secrets[path], f"{title} ({path})", Trust.USER)

    def _secret_files(self) -> list[Path]:
        """The files that are named for any secret, and the configuration file if it holds one."""
        sources = [(setting, source) for setting in SECRETS for source in self._sources(setting)]
        named = [_read_path(setting, source.file, "") for setting, source in sources if source.file is not None]
        if self._file_path is not None and any(setting.name in self._file for setting in SECRETS):
            named.append(self._file_path)
        return [found for path in named for found in secret_files.lasting(path)]

    def connecting(self) -> ClientConfig:
        """The servers, and the key that may go to all of them."""
        servers = _or(self(URL), (f"{self.scheme_on_this_machine(DEFAULT_PORT)}://{DEFAULT_HOST}:{DEFAULT_PORT}",))
        named = TOKEN
        token = self(TOKEN)
        if token is None and all(map(trust.is_loopback, servers)):
            # The key of this machine's Timeball never leaves this machine.
            named, token = ADMIN_KEY, self(ADMIN_KEY)
            if token is None:
                return self._with_key_on_this_machine(servers)
        if token is not None and (source := self._find(named)) is not None:
            self._check_destination(source.trust, source.source)
        return ClientConfig(servers=servers, token=token, ca=self(CA))

    def _with_key_on_this_machine(self, servers: tuple[str, ...]) -> ClientConfig:
        path = self.key_file_on_this_machine(urlsplit(servers[0]).port)
        token = _content(path)
        if token is not None:
            # Also where a file in the current folder names the data folder: the key in it is this machine's.
            self._check_destination(Trust.USER, str(path))
        return ClientConfig(servers=servers, token=token, ca=self(CA))

    def _check_destination(self, key_trust: Trust, key_source: str) -> None:
        """Refuse to send a key to a server that a less trusted source chose."""
        for setting in SETTINGS.values():
            found = self._find(setting) if setting.steers else None
            if found is not None and found.trust < key_trust:
                path = Path(found.source).absolute()
                raise InvalidSetting(
                    f"the key from {key_source} is not sent: {path} sets {setting.name} to {found.value!r}, and a file"
                    f" in the current folder does not decide where your keys go. Pass {setting.flag} or set"
                    f" {setting.variable} yourself; or, if you trust that file, set TIMEBALL_CONFIG={path}"
                )

    def data_dir(self) -> Path:
        return _or(self(DATA_DIR), self._home("XDG_DATA_HOME", ".local/share"))

    def note(self, port: int | None) -> Path:
        return self._home("XDG_STATE_HOME", ".local/state") / f"data-dir-of-port-{port}"

    def key_file_on_this_machine(self, port: int | None) -> Path:
        """The admin key in the data folder: the one that was set, that the port's server noted, or the default."""
        folder = self(DATA_DIR) or self._noted(port)[0] or self.data_dir()
        return _admin_key_file(Path(folder))

    def scheme_on_this_machine(self, port: int) -> str:
        return "https" if "https" in self._noted(port)[1:] else "http"

    def _noted(self, port: int | None) -> list[str]:
        return (_content(self.note(port)) or "").split("\n")

    def store(self) -> str:
        return _or(self(STORE), f"{_SQLITE}{self.data_dir() / 'timeball.db'}")

    def serving(self) -> dict[str, Any]:
        store = self.store()
        others = {setting.name: self(setting) for setting in (STORE_DIRECT, READ_STORE)}
        if store.startswith(_SQLITE) and any(others.values()):
            raise InvalidSetting("the embedded store has neither poolers nor replicas: --store names no PostgreSQL")
        secrets = {setting.name: self(setting) for setting in (TLS_CERT, TLS_KEY)}
        if len({value is None for value in secrets.values()}) > 1:
            raise InvalidSetting(
                "TLS needs both tls_cert and tls_key: name the certificate with --tls-cert and its key with --tls-key"
            )
        return {
            "store": store,
            **others,
            "data_dir": self.data_dir(),
            "host": _or(self(HOST), DEFAULT_HOST),
            "port": _or(self(PORT), DEFAULT_PORT),
            **secrets,
            "admin_key": self(ADMIN_KEY),
            "priority_credit": _or(self(CREDIT_PER_LEVEL), CREDIT),
            "retention": _or(self(RETENTION), retention.DEFAULT) or None,
            "archive": self._archive(),
            "objects": self._objects(),
            # A flag only: a loss is accepted by an operator, never by the environment or a file.
            "accept_damaged_log": bool(self._flags.get("accept_damaged_log")),
            "accept_clock": bool(self._flags.get("accept_clock")),
        }

    def _archive(self) -> str | None:
        found = self(ARCHIVE)
        if found != LOCAL:
            return found
        if self.store().startswith(_SQLITE):
            return str(self._own_objects())
        raise InvalidSetting(
            "the archive has to be the same for all servers of a PostgreSQL, and the data folder of this one is not:"
            " name a folder that all of them share, or a bucket like s3://bucket/prefix"
        )

    def objects_of_embedded(self) -> str:
        found = self(OBJECTS)
        return str(self._own_objects()) if found in (None, LOCAL) else str(found)

    def _objects(self) -> str | None:
        """Where history goes, unless it is said; the embedded store has a folder of its own in any case."""
        found = self(OBJECTS)
        if found == LOCAL:
            if not self.store().startswith(_SQLITE):
                raise InvalidSetting(
                    "objects have to be at the same place for all servers of a PostgreSQL, and the data folder of this"
                    " one is not: name a folder that all of them share, or a bucket like s3://bucket/prefix"
                )
            return str(self._own_objects())
        if found is not None:
            return found
        return str(self._own_objects()) if self.store().startswith(_SQLITE) else self._archive()

    def _own_objects(self) -> Path:
        return self.data_dir() / "objects"

    def executing(self, servers: Sequence[str] = ()) -> dict[str, Any]:
        """`servers`: those of a worker, which may be on this machine."""
        labels, dedicated = _or(self(LABELS), ()), _or(self(DEDICATED), False)
        if dedicated and not labels:
            raise InvalidSetting(
                "a dedicated worker takes only runs that ask for one of its labels, and it has none:"
                " give it some with --label or TIMEBALL_LABELS"
            )
        scripts_dir = _or(self(SCRIPTS_DIR), self.data_dir() / "scripts")
        if scripts_dir.resolve() == self.data_dir().resolve():
            raise InvalidSetting(
                f"the scripts folder {scripts_dir} is the data folder, which jobs may not read:"
                " name another --scripts-dir"
            )
        return {
            "name": _or(self(NAME), _own_name()),
            "slots": _or(self(SLOTS), DEFAULT_SLOTS),
            "cpu": _or(self(CPU), machine.cpus()),
            "memory_mb": _or(self(MEMORY), machine.memory_mb()),
            "labels": labels,
            "dedicated": dedicated,
            "kinds": self(TAKEN_KINDS),
            "tasks": _or(self(TASKS), ()),
            "scripts_dir": scripts_dir,
            "drain_seconds": _or(self(DRAIN), DEFAULT_DRAIN),
            **self._confining(),
            "protected": self._protected(servers),
        }

    def _confining(self) -> dict[str, Any]:
        landlock, no_new_privs = _or(self(JOB_LANDLOCK), True), _or(self(NO_NEW_PRIVS), True)
        if landlock and not no_new_privs:
            raise InvalidSetting(
                "jobs that may gain privileges cannot be kept in a Landlock domain:"
                " with no_new_privs off, set job_landlock to off as well"
            )
        return {
            "job_user": self(JOB_USER),
            "job_landlock": landlock,
            "no_new_privs": no_new_privs,
            "job_signals": _or(self(JOB_SIGNALS), False),
            "job_cgroups": _or(self(JOB_CGROUPS), True),
        }

    def _protected(self, servers: Sequence[str]) -> tuple[Path, ...]:
        """Everything that this Timeball keeps on this machine, as far as this user's settings and notes tell."""
        found = [self.data_dir(), *self._noted_data_dirs(servers)]
        store = self.store()
        if store.startswith(_SQLITE):
            database = store.removeprefix(_SQLITE)
            found += [Path(f"{database}{suffix}") for suffix in _SQLITE_FILES]
        found += [Path(place) for place in (self(ARCHIVE), self(OBJECTS)) if place and os.path.isabs(place)]
        if (tls_key := self(TLS_KEY)) is not None:
            found.append(tls_key)
        return tuple(dict.fromkeys([*found, *self._secret_files(), *self._secret_files_of_drivers()]))

    def _secret_files_of_drivers(self) -> list[Path]:
        """The files that the drivers of databases and buckets take their secrets from."""
        values = [value for setting in (STORE, STORE_DIRECT, READ_STORE, ARCHIVE, OBJECTS) if (value := self(setting))]
        schemes = {urlsplit(value).scheme for value in values}
        dsns = [value for value in values if value.startswith(_POSTGRES)]
        named = [path for dsn in dsns for name, path in parse_qsl(urlsplit(dsn).query) if name in _SECRET_FILES_IN_DSN]
        variables = [name for scheme in schemes for name in _SECRET_FILE_VARIABLES.get(scheme, ())]
        named += [path for name in variables if (path := self._environ.get(name))]
        return [Path(os.path.expanduser(path)).absolute() for path in named]

    def _noted_data_dirs(self, servers: Sequence[str]) -> list[Path]:
        """Those of servers that this user started on this machine. A note alone does not make a data folder."""
        noted = [self._noted(urlsplit(server).port)[0] for server in servers]
        folders = [Path(folder) for folder in noted if os.path.isabs(folder)]
        return [folder for folder in folders if any((folder / name).is_file() for name in ("admin.key", "timeball.db"))]

    def logging(self) -> dict[str, Any]:
        return {"log_level": _or(self(LOG_LEVEL), "info"), "log_format": _or(self(LOG_FORMAT), "text")}

    def _home(self, variable: str, usual: str) -> Path:
        """Our folder in the place that the XDG specification gives it."""
        base = self._environ.get(variable, "")
        return (Path(base) if os.path.isabs(base) else Path.home() / usual) / "timeball"

    def _find_file(self) -> tuple[Path | None, Trust]:
        named = self._environ.get("TIMEBALL_CONFIG")
        if named:
            if not Path(named).is_file():
                raise InvalidSetting(f"TIMEBALL_CONFIG names {named!r}, which is not a file; correct or unset it")
            return Path(named), Trust.USER
        here, home = Path("timeball.toml"), self._home("XDG_CONFIG_HOME", ".config") / "timeball.toml"
        if not here.is_file():
            return home if home.is_file() else None, Trust.USER
        if home.is_file() and here.samefile(home):
            return here, Trust.USER
        if (objection := trust.check_folder_file(here)) is not None:
            raise InvalidSetting(
                f"{objection}, so its settings are not used; correct that, or if you trust the file, set"
                f" TIMEBALL_CONFIG={here.absolute()}"
            )
        return here, Trust.FOLDER


def _load(path: Path) -> dict[str, Any]:
    import tomllib  # 20 ms that most commands need not pay

    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidSetting(f"cannot read {path}: {error}") from None
    secret = {setting.file_name for setting in SETTINGS.values() if setting.secret}
    for name in found:
        if name not in SETTINGS and name not in secret:
            import difflib

            close = difflib.get_close_matches(name, SETTINGS, n=1)
            hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(SETTINGS)}"
            raise InvalidSetting(f"{path} sets {name}, which is not a setting; {hint}")
    return found


def _read_path(setting: Setting[Any], value: Any, source: str) -> Path:
    try:
        return _folder(value)
    except ValueError:
        raise InvalidSetting(f"{setting.name} from {source} cannot be used: write the path of a file") from None


def _read(setting: Setting[T], value: Any, source: str) -> T:
    try:
        return setting.read(value)
    except ValueError as error:
        shown = "" if setting.secret or "@" in str(value) else f" {value!r}"
        raise InvalidSetting(f"{setting.name}{shown} from {source} cannot be used: {error}") from None


def _or(value: T | None, default: T) -> T:
    return default if value is None else value


def _own_name() -> str:
    return f"{os.uname().nodename}-{os.getpid()}"


def _admin_key_file(data_dir: Path) -> Path:
    return data_dir / "admin.key"


def _content(path: Path) -> str | None:
    try:
        return path.read_text("utf-8").strip() or None
    except (OSError, ValueError):
        return None
