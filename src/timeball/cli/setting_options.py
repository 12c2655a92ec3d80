"""Options of commands, derived from the table of settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import click

from timeball import config

F = TypeVar("F", bound=Callable[..., Any])


class Wording(NamedTuple):
    """A help text that replaces the one of the table of settings for one command."""

    help: str
    metavar: str | None = None
    """None for the metavar of the table."""


def setting_options(
    role: config.Role, *, first: Sequence[str] = (), wording: Mapping[str, Wording] | None = None
) -> Callable[[F], F]:
    """Add an option for each setting of a role, in the order of the table, but with the settings of `first` before all
    others. `first` and `wording` use the name of the setting, or `NAME_file` for the option that takes a file with the
    value."""
    options = _options(role, wording or {})
    order = [*first, *(name for name in options if name not in first)]

    def decorate(command: F) -> F:
        for name in reversed(order):  # the help shows the option first that is applied last
            command = options[name](command)
        return command

    return decorate


def flag_names(role: config.Role) -> list[str]:
    """Return the names of the parameters that a command of this role gets from these options."""
    return list(_options(role, {}))


def _options(role: config.Role, wording: Mapping[str, Wording]) -> dict[str, Callable[[F], F]]:
    options: dict[str, Callable[[F], F]] = {}
    for setting in config.TABLE.values():
        if role in setting.flag_roles:
            if setting.file_meaning:
                options[setting.file_name] = _file_option(setting, wording.get(setting.file_name))
            options[setting.name] = _option(setting, role, wording.get(setting.name))
    return options


def _option(setting: config.Setting[Any], role: config.Role, wording: Wording | None) -> Callable[[F], F]:
    words = wording or Wording(_help(setting))
    if setting.is_switch:
        switch = f"{setting.flag}/{setting.off_flag}" if setting.off_flag else setting.flag
        return click.option(switch, setting.name, is_flag=True, default=None, help=words.help)
    metavar = words.metavar or setting.value.metavar
    flags = setting.flags(role)
    return click.option(*flags, setting.name, multiple=setting.repeated, metavar=metavar, help=words.help)


def _file_option(setting: config.Setting[Any], wording: Wording | None) -> Callable[[F], F]:
    named = "" if setting.flag_only else f" ({setting.file_variable})"
    words = wording or Wording(f"{_sentence(setting.file_meaning)}{named}.")
    return click.option(setting.file_flag, setting.file_name, metavar="PATH", help=words.help)


def _help(setting: config.Setting[Any]) -> str:
    if setting.flag_only:
        return f"{_sentence(setting.meaning)}."
    note = _note(setting)
    return f"{_sentence(setting.meaning)} ({setting.variable}{f'; {note}' if note else ''})."


def _note(setting: config.Setting[Any]) -> str:
    if setting.note is not None:
        return setting.note
    if setting.repeated:
        return "may be repeated"
    default = setting.written_default
    return f"default: {default}" if " " in default else f"default {default}"


def _sentence(meaning: str) -> str:
    return f"{meaning[0].upper()}{meaning[1:]}"
