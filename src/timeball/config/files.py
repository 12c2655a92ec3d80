"""Finds and reads `timeball.toml`, and decides whether the file is trusted."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from timeball.config import trust
from timeball.config.setting import InvalidSetting, Setting
from timeball.config.trust import Trust


def home(environ: Mapping[str, str], variable: str, usual: str) -> Path:
    """Return Timeball's folder in an XDG directory: the one that the environment variable names with an absolute path,
    else `usual` in the user's home folder."""
    base = environ.get(variable, "")
    return (Path(base) if os.path.isabs(base) else Path.home() / usual) / "timeball"


def find(environ: Mapping[str, str]) -> tuple[Path | None, Trust]:
    """Return the configuration file and how far it is trusted; the path is None if there is no file. Raise
    `InvalidSetting` if `TIMEBALL_CONFIG` names no file, or if the file in the current folder must not be read."""
    named = environ.get("TIMEBALL_CONFIG")
    if named:
        if not Path(named).is_file():
            raise InvalidSetting(f"TIMEBALL_CONFIG names {named!r}, which is not a file; correct or unset it")
        return Path(named), Trust.USER
    here, at_home = Path("timeball.toml"), home(environ, "XDG_CONFIG_HOME", ".config") / "timeball.toml"
    if not here.is_file():
        return at_home if at_home.is_file() else None, Trust.USER
    if at_home.is_file() and here.samefile(at_home):
        return here, Trust.USER
    if (objection := trust.check_folder_file(here)) is not None:
        raise InvalidSetting(
            f"{objection}, so its settings are not used; correct that, or if you trust the file, set"
            f" TIMEBALL_CONFIG={here.absolute()}"
        )
    return here, Trust.FOLDER


def load(path: Path, settings: Iterable[Setting[Any]]) -> dict[str, Any]:
    """Return the values in the file, by key. Raise `InvalidSetting` if the file cannot be read, or has a key that is
    neither the name of a setting that a file may set nor `NAME_file` of a secret setting."""
    import tomllib  # imported here, because most commands need no file and would lose 20 ms

    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidSetting(f"cannot read {path}: {error}") from None
    keys = [setting.name for setting in settings if not setting.flag_only]
    of_files = {setting.file_name for setting in settings if not setting.flag_only and setting.secret}
    for name in found:
        if name not in keys and name not in of_files:
            import difflib

            close = difflib.get_close_matches(name, keys, n=1)
            hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(keys)}"
            raise InvalidSetting(f"{path} sets {name}, which is not a setting; {hint}")
    return found


def content(path: Path) -> str | None:
    """Return the text of a small file, or None if it is empty or cannot be read."""
    try:
        return path.read_text("utf-8").strip() or None
    except (OSError, ValueError):
        return None
