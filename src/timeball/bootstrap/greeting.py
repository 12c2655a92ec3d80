"""The lines that a server prints when it has started. Keys and links are printed only on a terminal, because other
output may be stored in a log."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from timeball import system
from timeball.bootstrap.server import StartedServer
from timeball.operation.sign_in.create_link import create_link


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


def greet(started: StartedServer, key_file: Path, link: str | None = None) -> None:
    lines = [f"Timeball is up: {started.address}"]
    if link is not None:
        lines += ["", f"  web UI     {link}", "             (signs in once, within 10 minutes; then: timeball open)"]
    if started.is_new_key:
        lines += ["", *_first_steps(started, key_file)]
    print("\n".join(lines), flush=True)


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
