"""The kinds of values that settings have: how each is read, and how a user writes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from timeball.config import readers
from timeball.config.readers import MAX_CPUS, MAX_PROCESSES, MAX_SLOTS, MIN_ADMIN_KEY_LENGTH, MIN_SECRET_LENGTH

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Value(Generic[T]):
    read: Callable[[Any], T]
    """Return the value, or raise ValueError with what to write instead."""
    metavar: str
    """The placeholder of the value in the help; empty for a switch, whose flag has no value."""
    unit: str
    """How a user writes the value: its unit, its bounds or the allowed words."""


URLS: Final = Value(readers.urls, "URL[,URL…]", "`http://…` or `https://…`, several with commas")
PUBLIC_URL: Final = Value(readers.public_url, "URL", "`http://…` or `https://…`, with a path if there is a prefix")
TOKEN: Final = Value(readers.token, "KEY", "one line of ASCII characters")
ADMIN_KEY: Final = Value(readers.admin_key, "KEY", f"at least {MIN_ADMIN_KEY_LENGTH} ASCII characters")
SHARED_SECRET: Final = Value(readers.shared_secret, "SECRET", f"at least {MIN_SECRET_LENGTH} ASCII characters")
PROVIDER_URL: Final = Value(readers.provider_url, "URL", "`https://…`, or `http://` with a loopback address")
TOKEN_LIFETIME: Final = Value(readers.token_lifetime, "TIME", "a time like 1h, at most 7d")
ROLE_MAPPING: Final = Value(readers.role_mapping, "VALUE=ROLE", "a list of `VALUE=ROLE`, or pairs with commas")
CLAIM: Final = Value(readers.identifier, "CLAIM", "the name of a claim, or its path like `realm_access.roles`")
OTLP_URL: Final = Value(readers.collector_url, "URL", "`http://…` or `https://…`, without `/v1/traces`")
RATIO: Final = Value(readers.ratio, "RATIO", "0 to 1")
IDENTIFIER: Final = Value(readers.identifier, "TEXT", "ASCII characters without blanks")
SCOPES: Final = Value(readers.scopes, "SCOPE", "a list of scopes, or scopes with commas")
TEXT: Final = Value(readers.text, "TEXT", "some text")
FILE: Final = Value(readers.file, "FILE", "the path of a file")
FOLDER: Final = Value(readers.folder, "DIR", "the path of a folder")
ADDRESS: Final = Value(readers.text, "ADDRESS", "an address or a host name")
LISTEN: Final = Value(readers.listen, "HOST:PORT", "a host and a port, as 127.0.0.1:9400; or only a port, of 127.0.0.1")
PORT: Final = Value(readers.whole(0, 65_535), "PORT", "0 to 65535")
NETWORKS: Final = Value(readers.networks, "CIDR[,CIDR…]", "addresses or ranges like `10.0.0.0/8`, several with commas")
STORE: Final = Value(readers.store, "DSN", "`sqlite:///path` or `postgresql://…`")
POSTGRES: Final = Value(readers.postgres, "DSN", "`postgresql://…`")
PLACE: Final = Value(readers.place, "FOLDER|URL", "a folder, `s3://…`, `gs://…`, `az://…` or `local`")
DURATION: Final = Value(readers.seconds, "TIME", "a time like 30s, 5m or 1d")
CREDIT: Final = Value(readers.priority_credit, "TIME", "a time like 30s or 5m, at most 1d")
RETENTION: Final = Value(readers.retention, "TIME", "a time like 90d, at least 1d; or never")
SLOTS: Final = Value(readers.whole(1, MAX_SLOTS), "N", f"1 to {MAX_SLOTS} runs")
PROCESSES: Final = Value(readers.whole(1, MAX_PROCESSES), "N", f"1 to {MAX_PROCESSES} processes")
CPUS: Final = Value(readers.cpus, "N", f"0 to {MAX_CPUS} CPUs, like 4 or 0.5")
SIZE: Final = Value(readers.size, "SIZE", "MiB, or a size like 512M or 8G")
MODULES: Final = Value(readers.words, "MODULE", "a list of modules, or modules with commas")
LABELS: Final = Value(readers.labels, "LABEL", "a list of words, or words with commas")
KINDS: Final = Value(readers.kinds, "KIND[,KIND…]", "a list of kinds, or kinds with commas")
WORKER_NAME: Final = Value(readers.worker_name, "NAME", "some text")
USER: Final = Value(readers.user, "NAME", "the name of a user")
SWITCH: Final = Value(readers.yes_or_no, "", "true or false, on or off")
LOG_LEVEL: Final = Value(readers.one_of("debug", "info", "warning", "error"), "LEVEL", "debug, info, warning or error")
LOG_FORMAT: Final = Value(readers.one_of("text", "json"), "FORMAT", "text or json")
