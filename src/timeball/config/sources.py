"""Finds the value of a setting: its flag, else its environment variable, else `timeball.toml`, else its default. An
empty environment variable counts as unset.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from timeball.config import files, readers, secret_files
from timeball.config.setting import InvalidSetting, Setting
from timeball.config.trust import Trust

Flags = Mapping[str, Any]
"""The values of command line flags by setting name; None or an empty tuple means that the flag was not given."""


class FoundValue(NamedTuple):
    """A setting as the user wrote it, before it is validated."""

    value: Any
    source: str
    """The name of the source in messages."""
    trust: Trust


class SettingSource(NamedTuple):
    """One source of a setting: a flag, an environment variable or `timeball.toml`. It has the value, or the path of a
    file with the value, or neither."""

    value: Any
    file: Any
    name: str
    file_name: str
    title: str
    """The name of the source in messages."""
    where: str = ""
    trust: Trust = Trust.USER


class Given:
    """All settings that were given, from all sources."""

    def __init__(self, table: Mapping[str, Setting[Any]], flags: Flags, environ: Mapping[str, str] | None) -> None:
        self.table = table
        self.environ = os.environ if environ is None else environ
        self._flags = flags
        self._file_path, self._file_trust = files.find(self.environ)
        self._file = {} if self._file_path is None else files.load(self._file_path, table.values())
        self._secrets: dict[Path, str] = {}
        """The content of the secret files that were read, by path."""

    def __call__(self, name: str) -> Any:
        """Return the validated value of a setting, or None if no source sets it."""
        setting = self.table[name]
        found = self.find(setting)
        return None if found is None else _read(setting, found.value, found.source)

    def used(self, name: str) -> Any:
        """Return the value of a setting: the one that a source sets, else the default. `Setting.settle`, if the setting
        has it, computes the final value from that."""
        setting, found = self.table[name], self(name)
        if found is None and setting.default is not None:
            found = setting.default(self) if callable(setting.default) else setting.value.read(setting.default)
        return found if setting.settle is None else setting.settle(self, found)

    def find(self, setting: Setting[Any]) -> FoundValue | None:
        """Return the unvalidated value of a setting from the first source that sets it; None if no source does."""
        for source in self._sources(setting):
            if setting.protects and source.trust < Trust.USER and (source.value, source.file) != (None, None):
                raise self._unprotected(setting, source)
            if source.value is not None and source.file is not None:
                raise InvalidSetting(
                    f"both {source.name} and {source.file_name} are set{source.where}; leave one of them out"
                )
            if source.file is not None:
                return self._from_file(setting, source)
            if source.value is not None:
                return FoundValue(source.value, source.title, source.trust)
        return None

    def secret_files(self) -> list[Path]:
        """Return the paths of the files that contain secrets: those that a flag, a variable or `timeball.toml` names,
        and `timeball.toml` itself if it contains a secret."""
        secrets = [setting for setting in self.table.values() if setting.secret]
        sources = [(setting, source) for setting in secrets for source in self._sources(setting)]
        named = [
            _read_path(setting, source.file, f"{source.file_name}{source.where}")
            for setting, source in sources
            if source.file is not None
        ]
        if self._file_path is not None and any(setting.name in self._file for setting in secrets):
            named.append(self._file_path)
        return [found for path in named for found in secret_files.lasting(path)]

    def _sources(self, setting: Setting[Any]) -> Iterator[SettingSource]:
        """Yield the sources of a setting, in the order in which they are tried: flag, environment variable,
        `timeball.toml`."""
        flag = self._flags.get(setting.name)
        file_flag = self._flags.get(setting.file_name)
        yield SettingSource(None if flag == () else flag, file_flag, setting.flag, setting.file_flag, setting.flag)
        if setting.flag_only:
            return
        variable = self.environ.get(setting.variable) or None
        named = self.environ.get(setting.file_variable) or None
        title = f"the environment variable {setting.variable}"
        yield SettingSource(variable, named if setting.secret else None, setting.variable, setting.file_variable, title)
        where, path = f" in {self._file_path}", str(self._file_path)
        written, named = self._file.get(setting.name), self._file.get(setting.file_name)
        yield SettingSource(written, named, setting.name, setting.file_name, path, where, self._file_trust)

    def _from_file(self, setting: Setting[Any], source: SettingSource) -> FoundValue:
        """Read the value from a file. The content of the file is trusted like the user's own settings, whichever source
        names it.
        """
        title = f"{source.file_name}{source.where}"
        path = _read_path(setting, source.file, title)
        try:
            if path not in self._secrets:  # a pipe can be read only once
                self._secrets[path] = secret_files.read(path)
        except ValueError as error:
            raise InvalidSetting(f"{setting.name} from {title} cannot be used: {error}") from None
        return FoundValue(self._secrets[path], f"{title} ({path})", Trust.USER)

    def _unprotected(self, setting: Setting[Any], source: SettingSource) -> InvalidSetting:
        name = source.name if source.file is None else source.file_name
        variable = setting.file_variable if setting.secret else setting.variable
        instead = f"Pass {setting.flag} or set {variable}" if setting.flag else f"Set {variable}"
        path = Path(source.title).absolute()
        return InvalidSetting(
            f"{path} sets {name}, and a file in the current folder must not set {name}. {instead} yourself;"
            f" or, if you trust that file, set TIMEBALL_CONFIG={path}"
        )


def _read_path(setting: Setting[Any], value: Any, source: str) -> Path:
    try:
        return readers.folder(value)
    except ValueError:
        raise InvalidSetting(f"{setting.name} from {source} cannot be used: write the path of a file") from None


def _read(setting: Setting[Any], value: Any, source: str) -> Any:
    try:
        return setting.value.read(value)
    except ValueError as error:
        shown = "" if setting.secret or "@" in str(value) else f" {value!r}"
        raise InvalidSetting(f"{setting.name}{shown} from {source} cannot be used: {error}") from None
