"""What a setting is: one row of the table in `timeball.config.settings`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, TypeVar, overload

from timeball.config.values import Value
from timeball.domain.errors import TimeballError

T = TypeVar("T")

Role = Literal["client", "server", "worker", "up", "migrate"]
"""What is started with settings. `client`: every command and library call that talks to a server."""

ROW: Final = "setting"
"""Where the metadata of a configuration's field has its row of the table."""


class InvalidSetting(TimeballError):
    """A setting that cannot be used: which, with what value, from where, and what to do."""

    code = "invalid_setting"


@dataclass(frozen=True, kw_only=True, eq=False)
class Setting(Generic[T]):
    name: str
    """Its key in `timeball.toml`, and with TIMEBALL_ before it, in capitals, its environment variable."""
    value: Value[T]
    """How it is read and written."""
    meaning: str
    """A sentence for people, without its capital and its full stop."""
    field: str = ""
    """The attribute of the configurations that has its value."""
    group: str = ""
    """The heading of its part of the table."""
    flag: str = ""
    """Empty: the command line cannot set it."""
    aliases: tuple[tuple[Role, str], ...] = ()
    """Other flags of the same meaning, each with the role that has it."""
    off_flag: str = ""
    """The flag that sets a switch to false; empty: there is none."""
    repeated: bool = False
    """Whether the flag may be given several times."""
    default: Any = None
    """A value as a user would write it, or how to compute it; None: it stays unset."""
    default_text: str = ""
    """The default in words, where it is computed or stays unset."""
    note: str | None = None
    """What help adds in brackets; None: that the flag may be repeated, else the default."""
    settle: Callable[[Any, Any], Any] | None = None
    """From everything that is set (`sources.Given`), and from what is set here, else the default, to what is used."""
    roles: tuple[Role, ...] = ()
    """Which read it."""
    flag_roles: tuple[Role, ...] = ()
    """Which of these have a flag for it."""
    flag_only: bool = False
    """Whether neither the environment nor a file can set it: an operator says it at each start."""
    secret: bool = False
    """Whether no other process may read its value. It may come from a file, and no configuration prints it."""
    file_meaning: str = ""
    """What the flag means that names a file with its value; empty: there is no such flag."""
    steers: bool = False
    """Decides which peer receives the key, so that its source has to be as trusted as the key's."""
    protects: bool = False
    """Decides what jobs and strangers can reach, so that no file in the current folder sets it."""

    def flags(self, role: Role) -> list[str]:
        """The flags with which a role sets it: aliases first."""
        if role not in self.flag_roles:
            return []
        return [*(alias for other, alias in self.aliases if other == role), self.flag]

    @property
    def variable(self) -> str:
        return f"TIMEBALL_{self.name.upper()}"

    @property
    def file_name(self) -> str:
        """The key in `timeball.toml` that names a file with its value, if it is secret."""
        return f"{self.name}_file"

    @property
    def file_variable(self) -> str:
        return f"{self.variable}_FILE"

    @property
    def file_flag(self) -> str:
        return f"{self.flag}-file"

    @property
    def written_default(self) -> str:
        """The default, for people; empty: there is none."""
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
    """A row of the table, as the field of a configuration that gets the value.

    The other columns are fields of `Setting`, and `also`: the roles that read the setting without a flag for it. Its
    name is the field's, unless `name` says otherwise.
    """
    row = {"value": value, "meaning": meaning, "flag": flag, "default": default, "secret": secret, **columns}
    return field(repr=not secret, metadata={ROW: row})
