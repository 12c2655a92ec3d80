"""The lines that a server prints when it has started. Keys and links are printed only on a terminal, because other
output may be stored in a log."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import structlog

from timeball import system
from timeball.bootstrap.server import StartedServer
from timeball.config import ServerConfig
from timeball.config.destinations import DEFAULT_HOST
from timeball.config.readers import DEFAULT_PORT
from timeball.operation.sign_in.create_link import create_link

_log = structlog.get_logger()


async def sign_in_link(started: StartedServer) -> str | None:
    """Return a one-time link that opens the web UI, signed in with the admin key. None if the output is not a terminal,
    if browsers cannot sign in here, or if the admin key was revoked.
    """
    if not sys.stdout.isatty() or started.site.refusal is not None:
        return None
    context = started.server.context
    key = await context.store.key_by_digest(hashlib.sha256(started.admin_key.encode()).hexdigest())
    if key is None:
        return None
    link, _ = await create_link(context, key.id, started.site.address.url, system.secret())
    return link


def greet(started: StartedServer, config: ServerConfig, link: str | None = None) -> None:
    on_terminal = sys.stdout.isatty()
    lines = [f"Timeball is up: {started.address}"]
    if link is not None:
        lines += [
            "",
            f"  web UI     {link}",
            f"             (signs in once, within 10 minutes; then: {_open(started)})",
        ]
    elif on_terminal and started.site.refusal is None:
        lines += ["", f"  web UI     open it with: {_open(started)}"]
    if on_terminal:
        lines += ["", *_places(config)]
    if started.is_new_key:
        lines += ["", *_first_steps(started, config.admin_key_file)]
    elif on_terminal:
        lines += [f"  admin key  {_key_place(config)}"]
    print("\n".join(lines), flush=True)
    if not (on_terminal and sys.stderr.isatty()):  # on a terminal, the printed lines say the same
        _log.info(
            "server is up",
            address=started.address,
            store=_store_address(config),
            data_dir=str(config.data_dir),
            admin_key=_key_place(config),
        )


def _open(started: StartedServer) -> str:
    """Return the command that opens the web UI of this server."""
    is_default = started.address == f"http://{DEFAULT_HOST}:{DEFAULT_PORT}"
    return "timeball open" if is_default else f"timeball open --url {started.address}"


def _key_place(config: ServerConfig) -> str:
    return f"in {config.admin_key_file}" if config.admin_key is None else "from the configuration"


def _places(config: ServerConfig) -> list[str]:
    data = f"  data       {config.data_dir}"
    in_data_folder = config.sqlite_path is not None and config.sqlite_path.parent == config.data_dir
    return [data] if in_data_folder else [data, f"  store      {_store_address(config)}"]


def _store_address(config: ServerConfig) -> str:
    """Return the path of the SQLite database, or the address of the PostgreSQL database without its password."""
    if config.sqlite_path is not None:
        return str(config.sqlite_path)
    from timeball.stores.transfer.target import shown

    return shown(config.store)


def _first_steps(started: StartedServer, key_file: Path) -> list[str]:
    if sys.stdout.isatty():
        token = started.admin_key
        shown = [
            f"  admin key  {token}",
            f"             (kept in {key_file}; the command line on this machine finds it)",
        ]
    else:
        token = f"$(cat {key_file})"
        shown = [f"  admin key  in {key_file}; the command line on this machine finds it"]
    return [
        *shown,
        "",
        "  try        timeball jobs create hello --shell 'echo hello' --wait",
        f'  or         curl -H "Authorization: Bearer {token}" {started.address}/v1/jobs \\',
        """               -d '{"task": {"kind": "shell", "command": "echo hello"}}'\n""",
    ]
