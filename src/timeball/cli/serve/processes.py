"""`up`, `server`, `worker`: the commands that stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from timeball import config
from timeball.cli.lazy_group import as_if_missing

F = TypeVar("F", bound=Callable[..., Any])


def _flag(setting: config.Setting[Any], *, multiple: bool = False, default: str, metavar: str) -> Callable[[F], F]:
    return click.option(
        setting.flag,
        setting.name,
        multiple=multiple,
        metavar=metavar,
        help=f"{setting.meaning[0].upper()}{setting.meaning[1:]} ({setting.variable}; {default}).",
    )


_store = click.option(
    config.STORE.flag,
    config.STORE.name,
    metavar="DSN",
    help="The database: sqlite:///path or postgresql://… (TIMEBALL_STORE; default: embedded, in the data folder).",
)
_store_direct = _flag(config.STORE_DIRECT, default="for PgBouncer in transaction mode", metavar="DSN")
_read_store = _flag(config.READ_STORE, default="default: the store", metavar="DSN")
_data_dir = _flag(config.DATA_DIR, default="default ~/.local/share/timeball", metavar="DIR")
_host = _flag(config.HOST, default="default 127.0.0.1", metavar="ADDRESS")
_port = _flag(config.PORT, default="default 1300", metavar="PORT")
_tls_cert = _flag(config.TLS_CERT, default="with --tls-key", metavar="FILE")
_tls_key = _flag(config.TLS_KEY, default="with --tls-cert", metavar="FILE")
_credit = _flag(config.CREDIT_PER_LEVEL, default="default 1m", metavar="TIME")
_retention = _flag(config.RETENTION, default="default 30d", metavar="TIME")
_archive = click.option(
    config.ARCHIVE.flag,
    config.ARCHIVE.name,
    metavar="FOLDER|URL",
    help="Where history goes before it leaves the store: a folder, s3://bucket/prefix, gs://…, az://…; or 'local', a"
    " folder beside the embedded database (TIMEBALL_ARCHIVE; default: nowhere).",
)
_objects = click.option(
    config.OBJECTS.flag,
    config.OBJECTS.name,
    metavar="FOLDER|URL",
    help="Where parameters, results and output of more than 64 KiB are kept: a folder, s3://bucket/prefix, … ("
    "TIMEBALL_OBJECTS; default: DATA_DIR/objects for the embedded database, else the archive, else the database).",
)
_accept_damaged_log = click.option(
    "--accept-damaged-log",
    is_flag=True,
    help="Start on an embedded database whose log lost acknowledged commits; its files are copied first.",
)
_slots = _flag(config.SLOTS, default="default 32", metavar="N")
_cpu = _flag(config.CPU, default="default: those of the machine", metavar="N")
_memory = _flag(config.MEMORY, default="default: that of the machine", metavar="SIZE")
_labels = _flag(config.LABELS, default="may be repeated", metavar="LABEL", multiple=True)
_dedicated = click.option(
    config.DEDICATED.flag,
    config.DEDICATED.name,
    is_flag=True,
    default=None,
    help="Take only runs that ask for a label of this worker (TIMEBALL_DEDICATED).",
)
_kinds = _flag(config.TAKEN_KINDS, default="default: all", metavar="KIND[,KIND…]")
_tasks = _flag(config.TASKS, default="may be repeated", metavar="MODULE", multiple=True)
_scripts = _flag(config.SCRIPTS_DIR, default="default DATA_DIR/scripts", metavar="DIR")
_name = _flag(config.NAME, default="default host-pid", metavar="NAME")
_job_user = _flag(config.JOB_USER, default="default: the worker's own", metavar="NAME")
_job_landlock = click.option(
    f"{config.JOB_LANDLOCK.flag}/--no-job-landlock",
    config.JOB_LANDLOCK.name,
    default=None,
    help="Keep Timeball's own files and processes from process jobs, by Landlock (TIMEBALL_JOB_LANDLOCK; default on,"
    " where the kernel has it; sudo and mount need it off).",
)
_no_new_privs = click.option(
    f"{config.NO_NEW_PRIVS.flag}/--new-privs",
    config.NO_NEW_PRIVS.name,
    default=None,
    help="Keep process jobs from gaining privileges (TIMEBALL_NO_NEW_PRIVS; default on; sudo needs it off).",
)
_job_signals = click.option(
    f"{config.JOB_SIGNALS.flag}/--no-job-signals",
    config.JOB_SIGNALS.name,
    default=None,
    help="Let process jobs send signals to processes outside of their job, as in `kill -HUP $(cat nginx.pid)`"
    " (TIMEBALL_JOB_SIGNALS; default off, where the kernel has Landlock ABI 6).",
)
_job_cgroups = click.option(
    f"{config.JOB_CGROUPS.flag}/--no-job-cgroups",
    config.JOB_CGROUPS.name,
    default=None,
    help="Limit the memory of process jobs to what they ask for, and the number of their processes, by control groups"
    " (TIMEBALL_JOB_CGROUPS; default on, where the worker may make them).",
)
_accept_clock = click.option(
    "--accept-clock",
    is_flag=True,
    help="Start although the wall clock is more than an hour behind the embedded store's time, or more than a year"
    " past it: the store's time becomes the wall clock's, and every schedule is planned anew.",
)
_drain = _flag(config.DRAIN, default="default 30s", metavar="TIME")
_log_level = _flag(config.LOG_LEVEL, default="debug, info, warning or error", metavar="LEVEL")
_log_format = _flag(config.LOG_FORMAT, default="text or json", metavar="FORMAT")


@click.command()
@_port
@_host
@_tls_cert
@_tls_key
@_data_dir
@_store
@_store_direct
@_read_store
@_credit
@_retention
@_archive
@_objects
@_accept_damaged_log
@_accept_clock
@_slots
@_cpu
@_memory
@_tasks
@_labels
@_dedicated
@_kinds
@_scripts
@_name
@_job_user
@_job_landlock
@_no_new_privs
@_job_signals
@_job_cgroups
@_drain
@_log_level
@_log_format
def up(**flags: Any) -> None:
    """Start a server and a worker in one process, here.

    Everything it keeps is in one folder, on an embedded database, unless --store names another. The first start
    generates an admin key into that folder; the commands on this machine find it by themselves. Stop it with Ctrl-C.

    \b
    Examples:
      timeball up
      timeball up --port 8080 --data-dir ./data --slots 8
      timeball up --tasks myapp.jobs
    """
    settings = config.up(flags)
    with as_if_missing("rich"):  # structlog would import it, for tracebacks that are not printed here
        from timeball import bootstrap

    raise SystemExit(bootstrap.run_up(settings))


@click.command()
@_store
@_store_direct
@_read_store
@_port
@_host
@_tls_cert
@_tls_key
@_data_dir
@_credit
@_retention
@_archive
@_objects
@_accept_damaged_log
@_accept_clock
@_log_level
@_log_format
def server(**flags: Any) -> None:
    """Start a server: the API and the loops that schedule.

    Start as many as you like on one PostgreSQL; all of them are active. Workers are started apart and need to know
    only the servers' addresses.

    \b
    Examples:
      timeball server --store postgresql://timeball@db/timeball --host 0.0.0.0
      timeball server --data-dir /var/lib/timeball
    """
    settings = config.server(flags)
    with as_if_missing("rich"):  # structlog would import it, for tracebacks that are not printed here
        from timeball import bootstrap

    raise SystemExit(bootstrap.run_server(settings))


@click.command(short_help="Start a worker: it pulls runs and executes them.")
@click.option("--server", "--url", "url", metavar="URL[,URL…]", help="Where the servers are (TIMEBALL_URL).")
@click.option("--token-file", metavar="PATH", help="A file with a worker key (TIMEBALL_TOKEN_FILE).")
@click.option("--token", metavar="KEY", help="The key itself; others can read it here (TIMEBALL_TOKEN).")
@_flag(config.CA, default="default: the system's", metavar="FILE")
@_slots
@_cpu
@_memory
@_labels
@_dedicated
@_kinds
@_tasks
@_scripts
@_name
@_job_user
@_job_landlock
@_no_new_privs
@_job_signals
@_job_cgroups
@_drain
@_log_level
@_log_format
def worker(**flags: Any) -> None:
    """Start a worker: it pulls runs from the servers, executes them and reports. It opens no port.

    SIGTERM drains it: it takes nothing new, finishes what it has within --drain and hands back the rest.

    \b
    Examples:
      timeball worker --server http://10.0.0.5:1300 --token-file worker.key
      timeball worker --server http://a:1300,http://b:1300 --slots 8 --label linux --tasks myapp.jobs
      timeball worker --server http://a:1300 --cpu 4 --memory 8G --label gpu --dedicated
      timeball worker --server http://a:1300 --kinds http,python
    """
    settings = config.worker(flags)
    with as_if_missing("rich"):  # structlog would import it, for tracebacks that are not printed here
        from timeball import bootstrap

    raise SystemExit(bootstrap.run_worker(settings))
