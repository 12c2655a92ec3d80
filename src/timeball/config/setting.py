"""`Setting`: one row of the table in `timeball.config.settings`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, TypeVar, overload

from timeball.config.values import Value
from timeball.domain.errors import TimeballError

T = TypeVar("T")

Role = Literal["client", "server", "worker", "up", "migrate", "backup", "restore", "schema", "doctor"]
"""The roles that are started with settings. `client` is every command and library call that calls a server."""

ROW: Final = "setting"
"""The key under which the metadata of a configuration field has its row of the table."""


class InvalidSetting(TimeballError):
    """Raised for a setting that cannot be used. The message names the setting, or the file that cannot be read. If one
    value is wrong, it also names the source of the value. It never has the value of a secret setting."""

    code = "invalid_setting"


@dataclass(frozen=True, kw_only=True, eq=False)
class Setting(Generic[T]):
    name: str
    """The key in `timeball.toml`. In capitals and with the prefix TIMEBALL_, it is the environment variable."""
    value: Value[T]
    """The reader of the value, with a description of how a user writes it."""
    meaning: str
    """The description of the setting, without capital and full stop."""
    field: str = ""
    """The attribute of the configurations that has the value."""
    group: str = ""
    """The heading of the group in the table."""
    flag: str = ""
    """The command line flag; empty if there is none."""
    aliases: tuple[tuple[Role, str], ...] = ()
    """Other flags with the same meaning, each with the role that has it."""
    off_flag: str = ""
    """The flag that sets a switch to false; empty if there is none."""
    repeated: bool = False
    """True if the flag may be given several times."""
    default: Any = None
    """The default as a user would write it, or a function that computes it; None leaves the setting unset."""
    default_text: str = ""
    """The default in words, if it is computed or unset."""
    note: str | None = None
    """The text that the help adds in brackets. If it is None, the help says that the flag may be repeated, or states
    the default.
    """
    settle: Callable[[Any, Any], Any] | None = None
    """Computes the value to use from all settings (`sources.Given`) and from the value that was set, or the default."""
    roles: tuple[Role, ...] = ()
    """The roles that read the setting."""
    flag_roles: tuple[Role, ...] = ()
    """The roles that have a flag for the setting."""
    flag_only: bool = False
    """True if neither the environment nor a file can set it, so that an operator confirms it at each start."""
    secret: bool = False
    """True if no other process may read the value. It may come from a file, and no configuration prints it."""
    file_meaning: str = ""
    """The description of the flag that names a file with the value; empty if there is no such flag."""
    steers: bool = False
    """True if the setting decides which server receives the key. Its source must be at least as trusted as that of the
    key."""
    protects: bool = False
    """True if the setting decides what jobs and other users can access. A file in the current folder cannot set it."""

    def flags(self, role: Role) -> list[str]:
        """Return the flags with which a role sets this setting, aliases first."""
        if role not in self.flag_roles:
            return []
        return [*(alias for other, alias in self.aliases if other == role), self.flag]

    @property
    def variable(self) -> str:
        return f"TIMEBALL_{self.name.upper()}"

    @property
    def file_name(self) -> str:
        """The key in `timeball.toml` that names a file with the value of a secret setting."""
        return f"{self.name}_file"

    @property
    def file_variable(self) -> str:
        return f"{self.variable}_FILE"

    @property
    def file_flag(self) -> str:
        return f"{self.flag}-file"

    @property
    def written_default(self) -> str:
        """The default as text; empty if there is none."""
        return self.default_text or ("" if self.default is None else str(self.default))

    @property
    def is_switch(self) -> bool:
        return not self.value.metavar


@overload
def setting(
    value: Value[T], meaning: str, flag: str = "", *, default: object, secret: bool = False, **columns: Any
) -> T: ...


@overload
def setting(value: Value[T], meaning: str, flag: str = "", *, secret: bool = False, **columns: Any) -> T | None: ...


def setting(
    value: Value[T], meaning: str, flag: str = "", *, default: Any = None, secret: bool = False, **columns: Any
) -> Any:
    """Declare a row of the table, as the field of a configuration that gets the value.

    `columns` are the other fields of `Setting`, and `also`: the roles that read the setting without a flag for it. The
    name of the setting is that of the field, unless `name` states another one.
    """
    row = {"value": value, "meaning": meaning, "flag": flag, "default": default, "secret": secret, **columns}
    return field(repr=not secret, metadata={ROW: row})
