"""`up`, `server`, `worker`: the commands that stay."""

from __future__ import annotations

from typing import Any

import click

from timeball import config
from timeball.cli.lazy_group import as_if_missing
from timeball.cli.setting_options import Wording, setting_options


@click.command()
@setting_options("up")
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
@setting_options("server", first=("store", "store_direct", "read_store"))
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
@setting_options(
    "worker",
    first=("url", "token_file", "token", "ca", "slots", "cpu", "memory", "labels", "dedicated", "kinds"),
    wording={
        "token_file": Wording("A file with a worker key (TIMEBALL_TOKEN_FILE)."),
        "token": Wording("The key itself; others can read it here (TIMEBALL_TOKEN)."),
    },
)
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
