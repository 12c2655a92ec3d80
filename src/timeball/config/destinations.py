"""Decides which servers a client calls, and which key it may send to all of them. The rules are in
`timeball.config.trust`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from timeball.config import files, trust
from timeball.config.readers import DEFAULT_PORT
from timeball.config.setting import InvalidSetting
from timeball.config.sources import Given
from timeball.config.trust import Trust

DEFAULT_HOST: Final = "127.0.0.1"


def default_servers(given: Given) -> tuple[str, ...]:
    """Return the URL of the server on this machine, at the default port. It is an https URL if that server recorded
    that it uses TLS."""
    scheme = "https" if "https" in noted(given, DEFAULT_PORT)[1:] else "http"
    return (f"{scheme}://{DEFAULT_HOST}:{DEFAULT_PORT}",)


def key(given: Given, token: str | None) -> str | None:
    """Return the key that may be sent to all servers: the one that is set, else, if all servers are on this machine,
    its admin key. None if there is no key. Raise `InvalidSetting` if the servers come from a less trusted source than
    the key."""
    servers: tuple[str, ...] = given.used("url")
    named, found = "token", token
    if found is None and all(map(trust.is_loopback, servers)):
        # The admin key of this machine is never sent to another machine.
        named, found = "admin_key", given("admin_key")
        if found is None:
            return _key_in_data_folder(given, urlsplit(servers[0]).port)
    if found is not None and (source := given.find(given.table[named])) is not None:
        _check_destination(given, source.trust, source.source)
    return found


def note(given: Given, port: int | None) -> Path:
    """Return the file in which the server on a port records its data folder, and whether it uses TLS."""
    return files.home(given.environ, "XDG_STATE_HOME", ".local/state") / f"data-dir-of-port-{port}"


def noted(given: Given, port: int | None) -> list[str]:
    return (files.content(note(given, port)) or "").split("\n")


def sign_in_page(given: Given) -> Path:
    """Return the path of the HTML file that leads a browser to a one-time sign-in link. It is in the data folder, which
    jobs cannot read, if this user may write there, and otherwise in the user's XDG state folder.
    """
    folder = _data_folder(given, urlsplit(given.used("url")[0]).port)
    if not os.access(folder, os.W_OK | os.X_OK):
        folder = files.home(given.environ, "XDG_STATE_HOME", ".local/state")
    return folder / "sign-in.html"


def admin_key_file(data_dir: Path) -> Path:
    return data_dir / "admin.key"


def _key_in_data_folder(given: Given, port: int | None) -> str | None:
    """Return the admin key in the data folder of the server on a port; None if there is none."""
    path = admin_key_file(_data_folder(given, port))
    found = files.content(path)
    if found is not None:
        # The key belongs to the user of this machine, even if a file in the current folder names the data folder.
        _check_destination(given, Trust.USER, str(path))
    return found


def _data_folder(given: Given, port: int | None) -> Path:
    """Return the data folder: the one that is set, else the one that the server on the port recorded, else the
    default."""
    return Path(given("data_dir") or noted(given, port)[0] or given.used("data_dir"))


def _check_destination(given: Given, key_trust: Trust, key_source: str) -> None:
    """Raise `InvalidSetting` if a source that is less trusted than that of the key decides which server receives it."""
    for setting in given.table.values():
        found = given.find(setting) if setting.steers else None
        if found is not None and found.trust < key_trust:
            path = Path(found.source).absolute()
            raise InvalidSetting(
                f"the key from {key_source} is not sent: {path} sets {setting.name} to {found.value!r}, and a file"
                f" in the current folder does not decide where your keys go. Pass {setting.flag} or set"
                f" {setting.variable} yourself; or, if you trust that file, set TIMEBALL_CONFIG={path}"
            )
