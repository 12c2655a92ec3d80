"""Decides which API key may be sent to which server.

Every setting has a source. The user controls the flags, the environment, the file that `TIMEBALL_CONFIG` names, the
file in `~/.config/timeball` and the data folders of this machine. A file in the current folder may be written by
another person: it may come with a cloned repository, or be in a folder that other users can write. A key is sent only
to a server whose address has the same or a more trusted source:

| key \\ URL                          | default | flag | environment | user's file | file in the current folder |
|------------------------------------|---------|------|-------------|-------------|----------------------------|
| flag                               | sent    | sent | sent        | sent        | refused                    |
| environment                        | sent    | sent | sent        | sent        | refused                    |
| user's file                        | sent    | sent | sent        | sent        | (only one file is read)    |
| secret file that one of these names| sent    | sent | sent        | sent        | refused                    |
| data folder of this machine (*)    | sent    | sent | sent        | sent        | refused                    |
| file in the current folder         | sent    | sent | sent        | (only one file is read) | sent           |
| secret file that it names          | sent    | sent | sent        | (only one file is read) | refused        |

(*) This key, like that of the setting `admin_key`, is used only if all addresses are loopback. Otherwise no key is
sent.

The same holds for every other setting that decides which peer receives the key (`Setting.steers`). A file in the
current folder cannot change settings that limit what jobs and other users can access (`Setting.protects`).
"""

from __future__ import annotations

import os
import re
from enum import IntEnum
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from timeball.domain import web_address

_HOST: Final = re.compile(r"[^\x00-\x20\x7f@\\/?#]+")


class Trust(IntEnum):
    """How far a source of settings is trusted."""

    FOLDER = 0
    """`timeball.toml` in the current folder."""
    USER = 1
    """Everything that the user controls, and the built-in defaults."""


def is_loopback(server: str) -> bool:
    """True if the host of a URL is `localhost` or a loopback address."""
    return web_address.is_loopback(urlsplit(server).hostname or "")


def check_server(url: str) -> None:
    """Raise `ValueError` unless the URL is an http or https address with a host and a valid port, and without the parts
    that URL parsers read differently: user names, queries, fragments, blanks, control characters and backslashes."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or parts.query or parts.fragment or re.search(r"[\x00-\x20\x7f\\]", url):
        raise ValueError("it is not an http or https address")
    if "@" in parts.netloc:
        raise ValueError("it has a user name or password; Timeball takes a key instead")
    if not parts.hostname or not _HOST.fullmatch(parts.hostname):
        raise ValueError("it names no host")
    _ = parts.port  # raises ValueError for an invalid port


def check_folder_file(path: Path) -> str | None:
    """Return why a `timeball.toml` in the current folder must not be read, or None if it may be read."""
    try:
        found = os.stat(path)
    except OSError:
        return None  # reading the file reports the error
    if found.st_uid not in (0, os.geteuid()):
        return f"{path.absolute()} belongs to another user"
    if found.st_mode & 0o002:
        return f"every user can write {path.absolute()}"
    return None
