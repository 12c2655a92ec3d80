"""`up`, `server` and `worker`: the commands that run until they are stopped."""

from __future__ import annotations

from typing import Any

import click

from timeball import config
from timeball.cli.lazy_group import as_if_missing
from timeball.cli.setting_options import Wording, setting_options


@click.command()
@setting_options("up")
def up(**flags: Any) -> None:
    """Start a server and a worker in one process, or several workers in processes of their own (--processes).

    All data is stored in one folder, in an embedded database, unless --store names another database. The first start
    creates an admin key in that folder, and commands on this machine use it automatically. Ctrl-C stops the process.

    \b
    Examples:
      timeball up
      timeball up --port 8080 --data-dir ./data --slots 8
      timeball up --tasks myapp.jobs --processes 4
    """
    settings = config.up(flags)
    with as_if_missing("rich"):  # structlog would import it for tracebacks, which are not printed here
        from timeball import bootstrap

    raise SystemExit(bootstrap.run_up(settings))


@click.command()
@setting_options("server", first=("store", "store_direct", "read_store"))
def server(**flags: Any) -> None:
    """Start a server: the REST API and the scheduling loops.

    Any number of servers can use one PostgreSQL database, and all of them are active. Workers are started separately
    and need only the addresses of the servers.

    \b
    Examples:
      timeball server --store postgresql://timeball@db/timeball --host 0.0.0.0
      timeball server --data-dir /var/lib/timeball
    """
    settings = config.server(flags)
    with as_if_missing("rich"):  # structlog would import it for tracebacks, which are not printed here
        from timeball import bootstrap

    raise SystemExit(bootstrap.run_server(settings))


@click.command(short_help="Start a worker, which pulls runs and executes them.")
@setting_options(
    "worker",
    first=("url", "token_file", "token", "ca", "slots", "processes", "cpu", "memory", "labels", "dedicated", "kinds"),
    wording={
        "token_file": Wording("A file with a worker key (TIMEBALL_TOKEN_FILE)."),
        "token": Wording("The worker key; other users can see it in the list of processes (TIMEBALL_TOKEN)."),
    },
)
def worker(**flags: Any) -> None:
    """Start a worker. It pulls runs from the servers, executes them and reports the results. It opens no port.

    On SIGTERM the worker drains: it accepts no new runs, waits up to --drain for its runs to finish, and releases the
    others to other workers.

    \b
    Examples:
      timeball worker --server http://10.0.0.5:1300 --token-file worker.key
      timeball worker --server http://a:1300,http://b:1300 --slots 8 --label linux --tasks myapp.jobs
      timeball worker --server http://a:1300 --cpu 4 --memory 8G --label gpu --dedicated
      timeball worker --server http://a:1300 --kinds http,python
    """
    settings = config.worker(flags)
    with as_if_missing("rich"):  # structlog would import it for tracebacks, which are not printed here
        from timeball import bootstrap

    raise SystemExit(bootstrap.run_worker(settings))
