"""Readers of settings. Each one converts what a user wrote into the value of the setting, or raises `ValueError` with a
message that says how to write it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from timeball import job_user
from timeball.config import trust
from timeball.domain import duration
from timeball.domain import retention as keeping
from timeball.domain.errors import Invalid
from timeball.domain.identity.role import Role
from timeball.domain.identity.token_claims import MAPPED_ROLES
from timeball.domain.instant import DAY, SECOND, Micros
from timeball.domain.task.kinds import KINDS
from timeball.job_user import JobUser

DEFAULT_PORT: Final = 1300
MIN_ADMIN_KEY_LENGTH: Final = 32
MIN_SECRET_LENGTH: Final = 32
MAX_TOKEN_LIFETIME: Final = 7 * DAY
MAX_IDENTIFIER_LENGTH: Final = 1_000
MAX_SLOTS: Final = 10_000
MAX_PROCESSES: Final = 256
"""Maximum number of worker processes of one command."""
MAX_CPUS: Final = 100_000
MAX_CREDIT: Final = DAY
LOCAL: Final = "local"
"""The value of `archive` and `objects` for the folder `objects` in the data folder. It is valid only with an SQLite
store."""
SQLITE: Final = "sqlite:///"
POSTGRES: Final = "postgresql://"


def text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("write some text")
    return value.strip()


def one_of(*choices: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if str(value).lower() not in choices:
            raise ValueError(f"write {', '.join(choices[:-1])} or {choices[-1]}")
        return str(value).lower()

    return read


def whole(low: int, high: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        digits = str(value).strip()
        if isinstance(value, bool) or not digits.isascii() or not digits.isdigit() or not low <= int(digits) <= high:
            raise ValueError(f"write a whole number from {low} to {high}")
        return int(digits)

    return read


def listen(value: Any) -> tuple[str, int]:
    """Read `host:port`, `[::1]:port`, or a port of the loopback address."""
    host, _, port = text(str(value)).rpartition(":")
    return host.strip("[]") or "127.0.0.1", whole(0, 65_535)(port)


def cpus(value: Any) -> float:
    try:
        count = math.nan if isinstance(value, bool) else float(str(value))
    except ValueError:
        count = math.nan
    if not 0 <= count <= MAX_CPUS:
        raise ValueError(f"write a number from 0 to {MAX_CPUS}, like 4 or 0.5")
    return count


def size(value: Any) -> int:
    from timeball.domain.dispatch.placement import mebibytes

    try:
        return mebibytes(str(value))
    except Invalid:
        raise ValueError("write a number of MiB, or a size like 512M or 8G") from None


def yes_or_no(value: Any) -> bool:
    known = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
    if (found := known.get(str(value).strip().lower())) is None:
        raise ValueError("write true or false")
    return found


def words(value: Any) -> tuple[str, ...]:
    """Read a list of words, given as a list or as text with commas between the words."""
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list | tuple) or not all(isinstance(word, str) for word in listed):
        raise ValueError("write a list of words, or words with commas between them")
    return tuple(part.strip() for word in listed for part in word.split(",") if part.strip())


def networks(value: Any) -> tuple[str, ...]:
    import ipaddress  # only a server needs it

    found = words(value)
    for word in found:
        try:
            ipaddress.ip_network(word)
        except ValueError:
            raise ValueError(f"{word!r} is not an address or a range of addresses like 10.0.0.0/8") from None
    return found


def labels(value: Any) -> tuple[str, ...]:
    import msgspec  # only a worker needs it here

    from timeball.domain.dispatch.placement import Label
    from timeball.ports.worker_protocol import MAX_LABELS

    found = words(value)
    for word in found:
        try:
            msgspec.convert(word, Label)
        except msgspec.ValidationError:
            raise ValueError(f"{word!r} is not a label; use letters, digits and . _ : / = -") from None
    if len(found) > MAX_LABELS:
        raise ValueError(f"a worker has at most {MAX_LABELS} labels")
    return found


def worker_name(value: Any) -> str:
    from timeball.ports.worker_protocol import MAX_WORKER_NAME_LENGTH  # only a worker needs it here

    name = text(value)
    if len(name) > MAX_WORKER_NAME_LENGTH:
        raise ValueError(f"a worker's name has at most {MAX_WORKER_NAME_LENGTH} characters")
    return name


def kinds(value: Any) -> tuple[str, ...]:
    found = words(value)
    for word in found:
        if word not in KINDS:
            raise ValueError(f"{word!r} is not a kind; write some of {', '.join(KINDS)}")
    if not found:
        raise ValueError(f"write some of {', '.join(KINDS)}")
    return tuple(kind for kind in KINDS if kind in found)


def urls(value: Any) -> tuple[str, ...]:
    found = tuple(url.rstrip("/") for url in words(value))
    for url in found:
        try:
            trust.check_server(url)
        except ValueError as error:
            example = f"http://127.0.0.1:{DEFAULT_PORT}"
            raise ValueError(f"write an address like {example}, several with commas ({error})") from None
    if not found:
        raise ValueError("write at least one address")
    return found


def public_url(value: Any) -> str:
    """Read the address at which browsers reach the server, without a slash at its end."""
    url = text(value).rstrip("/")
    try:
        trust.check_server(url)
    except ValueError as error:
        raise ValueError(f"write an address like https://timeball.example.org ({error})") from None
    return url


def collector_url(value: Any) -> str:
    url = text(value).rstrip("/")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("write an address like http://127.0.0.1:4318")
    return url


def ratio(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1
    if not 0 <= number <= 1:
        raise ValueError("write a number from 0 to 1")
    return number


def folder(value: Any) -> Path:
    path = text(value)
    if "\0" in path:
        raise ValueError("write the path of a file or folder")
    return Path(path).expanduser().absolute()


def file(value: Any) -> Path:
    path = folder(value)
    if not path.is_file():
        raise ValueError("there is no such file")
    return path


def _duration(value: Any) -> Micros:
    try:
        return duration.parse(value if isinstance(value, str | int | float) else str(value))
    except Invalid as error:
        raise ValueError(error.detail) from None


def seconds(value: Any) -> float:
    return _duration(value) / SECOND


def priority_credit(value: Any) -> Micros:
    credit = _duration(value)
    if credit > MAX_CREDIT:
        raise ValueError("write at most 1d; a run of the lowest priority may wait nine times as long")
    return credit


def retention(value: Any) -> Micros:
    """Return the retention in microseconds; 0 for `never`, which keeps finished runs without a time limit."""
    if str(value).strip().lower() == "never":
        return 0
    try:
        kept = _duration(value)
    except ValueError as error:
        raise ValueError(f"{error}; or never, to prune nothing") from None
    if kept < keeping.SHORTEST:
        raise ValueError("write at least 1d, or never, to prune nothing")
    return kept


def user(value: Any) -> JobUser:
    return job_user.find(text(value))


def store(value: Any) -> str:
    dsn = text(value)
    scheme, separator, rest = dsn.partition("://")
    if separator and scheme in ("postgresql", "postgres"):
        _check_dsn(f"postgresql://{rest}")
        return f"postgresql://{rest}"
    if dsn.startswith(SQLITE) and len(dsn) > len(SQLITE):
        return f"{SQLITE}{folder(dsn.removeprefix(SQLITE))}"
    raise ValueError("write sqlite:///path/to/file.db or postgresql://user@host/database")


def _check_dsn(dsn: str) -> None:
    """Raise `ValueError` for a DSN that the database driver could not parse, because the error messages of the driver
    repeat parts of the password."""
    try:
        parts = urlsplit(dsn)
        parse_qsl(parts.query, strict_parsing=bool(parts.query))
        ports = [host.rpartition("]")[2].partition(":")[2] for host in parts.netloc.rpartition("@")[2].split(",")]
        named_once = parts.netloc.count("@") <= 1 and not parts.fragment
        readable = named_once and all(port.isdigit() or not port for port in ports)
    except ValueError:
        readable = False
    if not readable:
        raise ValueError(
            "write postgresql://user:password@host:port/database, with %2F for / in the password, %40 for @, %23 for #"
            " and %3F for ?"
        )


def place(value: Any) -> str:
    """Read a folder, a bucket, or the word `local`."""
    name = text(value)
    if name == LOCAL:
        return name
    scheme, separator, _ = name.partition("://")
    if not separator:
        return str(folder(name))
    if scheme not in ("s3", "gs", "az") or not urlsplit(name).netloc:
        raise ValueError(f"write a folder, s3://bucket/prefix, gs://… or az://…, or the word {LOCAL}")
    return name


def postgres(value: Any) -> str:
    dsn = store(value)
    if dsn.startswith(SQLITE):
        raise ValueError("write postgresql://user@host/database")
    return dsn


def token(value: Any) -> str:
    key = text(value)
    if not key.isascii() or not key.isprintable():
        raise ValueError("write one line of ASCII characters")
    return key


def shared_secret(value: Any) -> str:
    secret = token(value)
    if len(secret) < MIN_SECRET_LENGTH:
        raise ValueError(f"it has {len(secret)} characters; use {MIN_SECRET_LENGTH} or more")
    return secret


def identifier(value: Any) -> str:
    found = token(value)
    if len(found) > MAX_IDENTIFIER_LENGTH or " " in found:
        raise ValueError(f"write ASCII characters without blanks, at most {MAX_IDENTIFIER_LENGTH}")
    return found


def scopes(value: Any) -> tuple[str, ...]:
    return tuple(map(identifier, words(value)))


def provider_url(value: Any) -> str:
    """Read an address of the identity provider: HTTPS, or HTTP on this machine."""
    url = text(value)
    try:
        trust.check_server(url)
    except ValueError as error:
        raise ValueError(f"write an address like https://id.example.org ({error})") from None
    if urlsplit(url).scheme == "http" and not trust.is_loopback(url):
        raise ValueError("write an https address; http is accepted for a loopback address only")
    return url


def token_lifetime(value: Any) -> Micros:
    lifetime = _duration(value)
    if not 0 < lifetime <= MAX_TOKEN_LIFETIME:
        raise ValueError("write a time like 1h, at most 7d")
    return lifetime


def role_mapping(value: Any) -> tuple[tuple[str, Role], ...]:
    """Read pairs `VALUE=ROLE`, given as a list or as text with commas between the pairs."""
    listed = [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value
    if not isinstance(listed, list | tuple) or not listed or not all(isinstance(pair, str) for pair in listed):
        raise ValueError("write a list like 'platform-team=admin', or pairs with commas between them")
    found = []
    for pair in listed:
        name, _, named = pair.rpartition("=")
        role = next((role for role in MAPPED_ROLES if role == named), None)
        if not name or role is None:
            raise ValueError(f"{pair!r} is not VALUE=ROLE, with one of the roles {', '.join(MAPPED_ROLES)}")
        found.append((name, role))
    return tuple(found)


def admin_key(value: Any) -> str:
    key = token(value)
    if len(key) < MIN_ADMIN_KEY_LENGTH:
        raise ValueError(f"it has {len(key)} characters; use {MIN_ADMIN_KEY_LENGTH} or more")
    return key
