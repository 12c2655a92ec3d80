"""Tasks: one frozen struct per kind, distinguished by the field `kind`. `kinds.py` has the table of kinds."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Annotated, ClassVar, Final, Literal
from urllib.parse import urlsplit

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from timeball.domain import duration
from timeball.domain.duration import Duration
from timeball.domain.errors import Invalid
from timeball.domain.instant import Micros

Text = Annotated[str, Meta(max_length=65_536)]
Header = Annotated[str, Meta(max_length=8_192, pattern=r"^[^\r\n\x00]*$(?!\n)")]
HeaderName = Annotated[str, Meta(max_length=256, pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$(?!\n)")]
VariableName = Annotated[str, Meta(max_length=256, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$(?!\n)")]
Status = Annotated[int, Meta(ge=100, le=599)]
MAX_HTTP_HEADERS: Final = 1_000
MAX_VARIABLES: Final = 10_000
"""Maximum number of environment variables of a task."""

_FUNCTION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}", re.ASCII)
# A scheme and a host, then the rest of the URL. No blank or control character is allowed.
_URL = re.compile(r"([^\x00-\x20/?#]*//[^\x00-\x20/?#]*)[^\x00-\x20]*")
REMEMBERED: Final = 1_024
"""Maximum number of valid values that each check caches, so that it need not check them again: most jobs use the same
few values. Each value is short."""


class _Task(
    Struct, frozen=True, gc=False, rename="camel", tag_field="kind", forbid_unknown_fields=True, omit_defaults=True
):
    """Base class of all task kinds."""


class Http(_Task, frozen=True, tag="http"):
    """An HTTP call. It succeeds with a 2xx status, or, if `acceptedStatuses` is given, with one of these."""

    url: Annotated[str, Meta(max_length=8_192)]
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"] = "POST"
    headers: Annotated[dict[HeaderName, Header], Meta(max_length=MAX_HTTP_HEADERS)] = {}
    """The headers of the request. Headers of the connection and `X-Timeball-*` are refused (`http_headers`)."""
    body: Raw | UnsetType = UNSET
    """A JSON string is sent as plain text; any other JSON value is sent as JSON. Without a body, POST, PUT and PATCH
    send the parameters."""
    accepted_statuses: Annotated[list[Status], Meta(max_length=100)] = []
    breaker: bool = True
    """True if runs wait while the circuit breaker of the host is open, and their calls count for the circuit breaker.
    """

    def __post_init__(self) -> None:
        parts = _URL.fullmatch(self.url)
        try:
            usable = parts is not None and _is_origin(parts[1])
        except ValueError as error:
            raise ValueError(f"{self.url!r} is not a URL: {error}") from None
        if not usable:
            raise ValueError(f"{self.url!r} is not an http or https URL")


class Shell(_Task, frozen=True, tag="shell"):
    """A command: an argv list, or a string run by `sh -c`."""

    command: Text | Annotated[list[Text], Meta(min_length=1, max_length=4_096)]
    env: Annotated[dict[VariableName, Text], Meta(max_length=MAX_VARIABLES)] = {}
    cwd: Annotated[str, Meta(max_length=4_096)] | None = None

    def __post_init__(self) -> None:
        words = [self.command] if isinstance(self.command, str) else self.command
        if not words[0].strip():
            raise ValueError("the command is empty")


class Script(_Task, frozen=True, tag="script"):
    """A file in the scripts folder of the worker. The worker looks it up when the run starts; the suffix of the file
    determines the interpreter."""

    script: Annotated[str, Meta(max_length=1_024)]
    args: Annotated[list[Text], Meta(max_length=4_096)] = []
    env: Annotated[dict[VariableName, Text], Meta(max_length=MAX_VARIABLES)] = {}

    INTERPRETERS: ClassVar[dict[str, str]] = {
        ".py": "python3",
        ".sh": "sh",
        ".js": "node",
        ".rb": "ruby",
        ".pl": "perl",
    }

    def __post_init__(self) -> None:
        path = PurePosixPath(self.script)
        if not self.script.strip() or path.is_absolute() or ".." in path.parts or "\\" in self.script or not path.name:
            raise ValueError(
                f"{self.script!r} is not a name inside the scripts folder; use a relative path without '..'"
            )


class Python(_Task, frozen=True, tag="python"):
    """A function that is registered on the worker with `@timeball.task`. The parameters become keyword arguments."""

    function: str

    def __post_init__(self) -> None:
        _check_function(self.function)


@lru_cache(maxsize=REMEMBERED)
def _is_origin(origin: str) -> bool:
    """True if the text is an http or https scheme with a host. Raise `ValueError` if it cannot be parsed."""
    parts = urlsplit(origin)
    _ = parts.port
    return parts.scheme in ("http", "https") and bool(parts.hostname)


@lru_cache(maxsize=REMEMBERED)
def _check_function(name: str) -> None:
    if not _FUNCTION.fullmatch(name):
        raise ValueError(f"{name!r} is not a task name; use letters, digits and . _ : / -")


Task = Http | Shell | Script | Python
MAX_HOST_LENGTH: Final = 253
DEFAULT_GRACE: Final[Duration] = "5s"


def kind_of(task: Task) -> str:
    return str(type(task).__struct_config__.tag)


def host_of(task: Task) -> str | None:
    """Return the host and port of the circuit breaker of a task, such as `api.example.com:443`. All tasks that call the
    same host and port share it.

    None if the task is not an HTTP call, does not use the circuit breaker, or has a host name that is too long.
    """
    if not isinstance(task, Http) or not task.breaker:
        return None
    parts = urlsplit(task.url)
    host = (parts.hostname or "").removesuffix(".")
    if len(host) > MAX_HOST_LENGTH:
        return None
    port = parts.port if parts.port is not None else {"http": 80, "https": 443}[parts.scheme]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def check_duration(
    field: str, value: Duration | None, *, shortest: Micros = 0, longest: Micros = duration.MAX_DURATION
) -> None:
    """Raise `ValueError` with the name of the field if a duration cannot be parsed or is out of range. Structs call
    this in `__post_init__`."""
    if value is not None:
        try:
            duration.parse(value, shortest=shortest, longest=longest)
        except Invalid as error:
            raise ValueError(f"{field}: {error.detail}") from None
