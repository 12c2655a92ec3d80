"""Writes `docs/reference/settings.md` from the table of settings: `make reference`."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any, Final

from timeball.config import TABLE, Setting

PAGE: Final = Path(__file__).parents[1] / "docs" / "reference" / "settings.md"

INTRODUCTION: Final = """\
<!-- Generated from src/timeball/config/settings.py by `make reference`. -->
# Settings

Each setting has one name. Its value comes from its flag, else from its environment variable, else from its key in
`timeball.toml`, else it is the default. An empty environment variable counts as unset.

```toml
# timeball.toml
port = 8080
slots = 64
labels = ["gpu", "eu"]
drain = "1m"
token_file = "/etc/timeball/token"
```

`timeball.toml` is the file that `TIMEBALL_CONFIG` names, else the one in the current folder, else the one in
`~/.config/timeball` (`$XDG_CONFIG_HOME/timeball`). Only one file is read, and all roles share it: a role ignores the
settings of other roles. A key that is not on this page is refused.

The roles are `up`, `server`, `worker`, `migrate`, `backup`, `restore`, `schema` and `doctor`, which are commands, and
`client`: every other command that talks to a server, and the Python clients. A role in brackets reads the setting
without a flag for it: a client finds the admin key of this machine by it, and a worker keeps the file or folder from
its jobs. A setting without a key is a flag only.

- **Secret**: the `_FILE` variable or the `_file` key can name a file whose only line is the value
  ([keys and passwords](../howto/fleet.md#keys-and-passwords)).
- **Protected**: a `timeball.toml` in the current folder cannot set it, because that file may come with a repository of
  another author.
- **Steering**: it decides which server gets a key. If a `timeball.toml` in the current folder sets it, only a key from
  the same file is sent there.
"""

HEAD: Final = """\
| key | flag | variable | meaning | value | default | roles |
|---|---|---|---|---|---|---|
"""


def page() -> str:
    groups = groupby(TABLE.values(), key=lambda setting: setting.group)
    return INTRODUCTION + "".join(f"\n## {heading}\n\n{HEAD}{''.join(map(_row, rows))}" for heading, rows in groups)


def _row(setting: Setting[Any]) -> str:
    cells = (
        _names(setting, setting.name, setting.file_name),
        _flags(setting),
        _names(setting, setting.variable, setting.file_variable),
        _meaning(setting),
        "–" if setting.flag_only and setting.is_switch else setting.value.unit,
        _default(setting),
        ", ".join(role if role in setting.flag_roles else f"({role})" for role in setting.roles),
    )
    return f"| {' | '.join(cells)} |\n"


def _names(setting: Setting[Any], name: str, file_name: str) -> str:
    if setting.flag_only:
        return "–"
    return _codes([name, file_name] if setting.secret else [name])


def _flags(setting: Setting[Any]) -> str:
    if not setting.flag:
        return "–"
    file_flag = setting.file_flag if setting.file_meaning else ""
    aliases = [f"`{flag}` ({role})" for role, flag in setting.aliases]
    return ", ".join([_codes([flag for flag in (setting.flag, setting.off_flag, file_flag) if flag]), *aliases])


def _meaning(setting: Setting[Any]) -> str:
    note = setting.note or ""
    added = f" ({note})" if note and not note.startswith("default") and note != setting.value.unit else ""
    marks = {"secret": setting.secret, "protected": setting.protects, "steering": setting.steers}
    words = ", ".join(word for word, is_set in marks.items() if is_set)
    return f"{setting.meaning[0].upper()}{setting.meaning[1:]}{added}." + (
        f" **{words.capitalize()}**." if words else ""
    )


def _default(setting: Setting[Any]) -> str:
    if setting.note is not None and setting.note.startswith("default"):
        return setting.note.removeprefix("default").removeprefix(":").strip()
    return setting.default_text or ("–" if setting.default is None else str(setting.default))


def _codes(words: list[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def main() -> None:
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
