"""The table of all settings, one row for each. Everything else about a setting follows from its row: the field of the
configurations, the flag and its help, the environment variable, the key in `timeball.toml`, the files that secrets come
from, and the page `docs/reference/settings.md`.

To add a setting, write its row into the group whose roles need it, use the field, and run `make reference`. The columns
are the fields of `timeball.config.setting.Setting`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from timeball import host
from timeball.config import destinations, places, values
from timeball.config.identity_settings import Identifying
from timeball.config.log_settings import Logging
from timeball.config.metrics_settings import Measuring, MeasuringWorkers
from timeball.config.readers import DEFAULT_PORT
from timeball.config.setting import setting
from timeball.domain import duration, retention
from timeball.domain.dispatch.priority import CREDIT
from timeball.domain.dispatch.slot_bounds import DEFAULT_SLOTS, DEFAULT_THREADS, MIN_PROCESSES, PROCESSES_PER_CPU
from timeball.domain.instant import Micros
from timeball.domain.task.kinds import KINDS
from timeball.job_user import JobUser


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class Connecting:
    """Reaching the servers."""

    servers: tuple[str, ...] = setting(
        values.URLS,
        "the URLs of the servers",
        "--url",
        name="url",
        aliases=(("worker", "--server"),),
        default=destinations.default_servers,
        default_text="http://127.0.0.1:1300",
        note="",
        steers=True,
    )
    token: str | None = setting(
        values.TOKEN,
        "the API key to send with every request",
        "--token",
        default_text="the admin key in the data folder of this machine, if all servers are on it",
        note="",
        settle=destinations.key,
        secret=True,
        file_meaning="a file with the API key",
    )
    ca: Path | None = setting(
        values.FILE,
        "certificate authorities to trust instead of the system's: a PEM file",
        "--ca",
        default_text="the system's",
        steers=True,
    )


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class Listening:
    """Listening."""

    port: int = setting(values.PORT, "the port to listen on; 0 for any free one", "--port", default=DEFAULT_PORT)
    host: str = setting(values.ADDRESS, "the address to listen on", "--host", default=destinations.DEFAULT_HOST)
    tls_cert: Path | None = setting(
        values.FILE,
        "the server's certificate chain, for HTTPS: a PEM file",
        "--tls-cert",
        default_text="HTTP only",
        note="with --tls-key",
    )
    tls_key: Path | None = setting(
        values.FILE,
        "the private key of that certificate: a PEM file",
        "--tls-key",
        note="with --tls-cert",
        also=("worker",),
    )
    public_url: str | None = setting(
        values.PUBLIC_URL,
        "the address at which browsers reach the server, for sign-in links and behind a proxy",
        "--public-url",
        default_text="the address to listen on",
        protects=True,
    )
    trusted_proxies: tuple[str, ...] = setting(
        values.NETWORKS,
        "the reverse proxies whose X-Forwarded-For names the client, for the audit log",
        "--trusted-proxies",
        default=(),
        default_text="none",
        protects=True,
    )
    insecure_sign_in: bool = setting(
        values.SWITCH,
        "allow sign-in with a browser over HTTP from other machines, where others can read the cookie",
        "--insecure-sign-in",
        default="off",
        protects=True,
    )


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class Storing:
    """Storing."""

    data_dir: Path = setting(
        values.FOLDER,
        "the folder for all files of a server",
        "--data-dir",
        default=places.data_dir,
        default_text="~/.local/share/timeball",
        also=("client", "worker"),
    )
    """Absolute path; the folder need not exist yet."""
    store: str = setting(
        values.STORE,
        "the database: sqlite:///path or postgresql://…",
        "--store",
        default=places.store,
        default_text="embedded, in the data folder",
        secret=True,
        also=("worker",),
    )
    """`sqlite:////absolute/path.db` or `postgresql://…`."""


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class Serving:
    """Serving."""

    store_direct: str | None = setting(
        values.POSTGRES,
        "the direct DSN of the database, if --store is the DSN of a connection pooler",
        "--store-direct",
        note="for PgBouncer in transaction mode",
        secret=True,
        also=("worker",),
    )
    """The direct DSN of the database; None if `store` is not the DSN of a pooler."""
    read_store: str | None = setting(
        values.POSTGRES,
        "a read replica for lists and history",
        "--read-store",
        default_text="the store",
        secret=True,
        also=("worker",),
    )
    priority_credit: Micros = setting(
        values.CREDIT,
        "how much waiting time one level of priority is worth",
        "--priority-credit",
        default=duration.render(CREDIT),
    )
    retention: Micros | None = setting(
        values.RETENTION,
        "how long finished runs are kept: a time, or never to keep them for ever",
        "--retention",
        default=duration.render(retention.DEFAULT),
        settle=lambda _, kept: kept or None,
    )
    """Microseconds; None keeps finished runs without a time limit."""
    archive: str | None = setting(
        values.PLACE,
        "where runs are archived before they are deleted: a folder, s3://bucket/prefix, gs://…, az://…; or 'local', a"
        " folder beside the embedded database",
        "--archive",
        default_text="nowhere",
        note="default: nowhere",
        settle=places.archive,
        secret=True,
        also=("worker",),
    )
    """An absolute folder or a bucket. None: finished runs are deleted without an archive."""
    objects: str | None = setting(
        values.PLACE,
        "where parameters, results and output over 64 KiB are stored: a folder, s3://bucket/prefix, …",
        "--objects",
        default_text="DATA_DIR/objects for the embedded database, else the archive, else the database",
        settle=places.objects,
        secret=True,
        also=("migrate", "worker"),
    )
    """An absolute folder or a bucket. None: large values stay in the store, like small ones."""
    admin_key: str | None = setting(
        values.ADMIN_KEY,
        "the first admin key",  # no flag, because every user of a machine can read the arguments of its processes
        default_text="generated into `admin.key` in the data folder",
        secret=True,
        protects=True,
        also=("client", "worker", "doctor"),
    )
    """The first admin key. None: the key in `admin_key_file`, which is generated if it does not exist."""
    migrate: bool = setting(
        values.SWITCH,
        "change the tables of the store to the schema of this version when the server starts; else it starts only if"
        " the schema is current",
        "--migrate",
        off_flag="--no-migrate",
        default="on",
    )
    loops: bool = setting(
        values.SWITCH,
        "plan, dispatch and maintain; a server without loops answers requests, and others must have them",
        "--loops",
        off_flag="--no-loops",
        default="on",
    )
    accept_damaged_log: bool = setting(
        values.SWITCH,
        "start on an embedded database whose log lost acknowledged commits; its files are copied first",
        "--accept-damaged-log",
        default="off",
        flag_only=True,
    )
    accept_clock: bool = setting(
        values.SWITCH,
        "start although the wall clock is more than an hour behind the time of the embedded store, or more than a year"
        " ahead of it: the store takes the time of the wall clock, and every schedule is planned again",
        "--accept-clock",
        default="off",
        flag_only=True,
    )


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class Executing:
    """Executing."""

    slots: int | None = setting(
        values.SLOTS,
        "how many runs a worker executes at the same time, of any kind",
        "--slots",
        default_text=f"{DEFAULT_SLOTS}, at most {DEFAULT_THREADS} of them in threads and {PROCESSES_PER_CPU} per CPU"
        f" (at least {MIN_PROCESSES}) in processes",
    )
    """None: a number for each kind of work (`SlotBounds.usual`)."""
    processes: int = setting(
        values.PROCESSES,
        "how many worker processes are started; they share the slots, CPUs and memory of the worker",
        "--processes",
        default=1,
    )
    cpu: float = setting(
        values.CPUS,
        "how many CPUs a worker has for runs that ask for CPUs",
        "--cpu",
        default=lambda _: host.cpus(),
        default_text="those of the machine",
    )
    memory_mb: int | None = setting(
        values.SIZE,
        "how much memory a worker has for runs that ask for memory: MiB, or 8G",
        "--memory",
        name="memory",
        default=lambda _: host.memory_mb(),
        default_text="that of the machine",
    )
    """Memory for runs that ask for memory, in MiB; None for no limit."""
    tasks: tuple[str, ...] = setting(
        values.MODULES,
        "Python modules whose tasks a worker executes",
        "--tasks",
        repeated=True,
        default=(),
        default_text="none",
    )
    labels: tuple[str, ...] = setting(
        values.LABELS,
        "labels of a worker, which runs can ask for",
        "--label",
        repeated=True,
        default=(),
        default_text="none",
    )
    dedicated: bool = setting(
        values.SWITCH, "accept only runs that ask for a label of this worker", "--dedicated", default="off", note=""
    )
    kinds: tuple[str, ...] | None = setting(
        values.KINDS,
        f"the kinds of jobs that a worker accepts: some of {', '.join(KINDS)}",
        "--kinds",
        default_text="all",
        note="default: all",
    )
    """The task kinds that the worker accepts; None for all kinds."""
    scripts_dir: Path = setting(
        values.FOLDER,
        "the folder with the scripts of script jobs",
        "--scripts-dir",
        default=places.scripts_dir,
        default_text="DATA_DIR/scripts",
    )
    name: str = setting(
        values.WORKER_NAME,
        "a worker's name; host name and process id by default",
        "--name",
        default=lambda _: f"{os.uname().nodename}-{os.getpid()}",
        default_text="host-pid",
    )
    job_user: JobUser | None = setting(
        values.USER,
        "the user that process jobs run as, if the worker is root",
        "--job-user",
        default_text="the worker's own",
        protects=True,
    )
    job_landlock: bool = setting(
        values.SWITCH,
        "deny process jobs access to Timeball's own files and processes, with Landlock",
        "--job-landlock",
        off_flag="--no-job-landlock",
        default="on",
        note="default on, where the kernel has it; sudo and mount need it off",
        protects=True,
    )
    no_new_privs: bool = setting(
        values.SWITCH,
        "prevent process jobs from gaining privileges",
        "--no-new-privs",
        off_flag="--new-privs",
        default="on",
        note="default on; sudo needs it off",
        protects=True,
    )
    job_signals: bool = setting(
        values.SWITCH,
        "allow process jobs to send signals to processes outside of their job, as in `kill -HUP $(cat nginx.pid)`",
        "--job-signals",
        off_flag="--no-job-signals",
        default="off",
        note="default off, where the kernel has Landlock ABI 6",
        protects=True,
    )
    job_cgroups: bool = setting(
        values.SWITCH,
        "limit the memory of process jobs to what they ask for, and the number of their processes, with control groups",
        "--job-cgroups",
        off_flag="--no-job-cgroups",
        default="on",
        note="default on, where the worker may create them",
        protects=True,
    )
    drain_seconds: float = setting(
        values.DURATION,
        "how long a stopping worker waits for its runs to finish",
        "--drain",
        name="drain",
        default="30s",
    )


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class Moving:
    """Moving to PostgreSQL."""

    target: str | None = setting(
        values.POSTGRES,
        "an empty PostgreSQL database: postgresql://user@host/database",
        "--to",
        name="to",
        flag_only=True,
        secret=True,
        file_meaning="a file with that DSN, if there is a password in it",
    )
    """The DSN of the target database. None with `--take-back`: the old store becomes usable again, and nothing is
    migrated.
    """
    target_objects: str | None = setting(
        values.PLACE,
        "where the servers on PostgreSQL will store large values; existing ones are copied there",
        "--objects",
        name="to_objects",
        default_text="the value of `objects`",
        settle=places.target_objects,
        flag_only=True,
        secret=True,
    )
    """The place where the servers on the target store keep large values; None if no setting names a place."""


GROUPS = (Connecting, Listening, Storing, Serving, Identifying, Executing, Measuring, MeasuringWorkers, Logging, Moving)
