"""The values before and after a change, as the audit log has them: only what changed, without secrets, and bounded."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

Values = Mapping[str, Any]
"""The fields of a thing, as they would be in JSON."""
MASK: Final = "***"
MAX_VALUES_LENGTH: Final = 64 * 1024
"""Maximum number of characters of the values of one entry. Of larger ones only the size and the hash are kept."""
_SECRET_NAME: Final = re.compile(
    r"pass(?:word|wd|phrase)|^pwd$|secret|token|(?:api|access|auth|private)[-_]?key|authorization|credential|cookie"
    r"|signature",
    re.I,
)
_KEPT: Final[dict[str, frozenset[str]]] = {
    "env": frozenset(),
    "headers": frozenset(
        {"accept", "accept-encoding", "accept-language", "content-encoding", "content-type", "user-agent"}
    ),
}
"""Fields that often have secrets under any name, and the names in them whose values are no secrets."""
_SECRET_FLAG: Final = re.compile(r"--?[\w-]*(?:password|passwd|passphrase|secret|token|api[-_]?key)", re.I)
"""An argument whose next argument is a secret, such as `--password`."""
_SECRET_TEXT: Final = re.compile(
    r"""(?xi)
    (\b(?:bearer|basic)\s+)[\w.~+/=-]{8,}                   # Authorization: Bearer ...
    | (://[^\s/:@]*:)[^\s/@]+(?=@)                            # https://user:password@host
    | ((?:password|passwd|passphrase|secret|token|(?:api|access)[-_]?key)["']?\s*[=:]\s*["']?)[^\s&"']+  # ?token=...
    | ((?<![\w-])--?[\w-]{0,40}(?:password|passwd|passphrase|secret|token|api[-_]?key)\s+["']?)[^\s&"']+  # --token ...
    """
)
_IN_SECRETS: Final = ("bearer", "basic", "://", "passw", "passphrase", "secret", "token", "key")
"""A text in which `_SECRET_TEXT` finds something has one of these. It takes 0.4 us per character."""
_encode = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.decode


def shown(fields: Values) -> Values:
    """Return the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def canonical(value: object) -> str:
    """Return JSON that is the same for equal values. Encoding what was decoded from it gives the same text."""
    return _encode(_decode(_encode(value))).decode()


def changed(before: Values | None, after: Values | None) -> tuple[str | None, str | None]:
    """Return the values before and after a change as canonical JSON. If both are given, only the fields that differ are
    in them. Secrets are masked. Values with more than `MAX_VALUES_LENGTH` characters are replaced by their length and
    their hash."""
    if before is not None and after is not None:
        names = [name for name in {**before, **after} if _differ(name, before, after)]
        before = {name: before[name] for name in names if name in before}
        after = {name: after[name] for name in names if name in after}
    return _stored(before), _stored(after)


def _differ(name: str, before: Values, after: Values) -> bool:
    return name not in before or name not in after or before[name] != after[name]


def _stored(values: Values | None) -> str | None:
    if values is None:
        return None
    text = canonical(values)
    if len(text) <= MAX_VALUES_LENGTH:
        return canonical(without_secrets(values))
    return canonical({"omitted": len(text), "sha256": hashlib.sha256(text.encode()).hexdigest()})


def without_secrets(value: Any, name: str = "") -> Any:
    """Return the value with a mask in place of texts that are secrets by the name of their field, or by their form."""
    if isinstance(value, str):
        if value and _SECRET_NAME.search(name):
            return MASK
        lowered = value.lower()
        return _SECRET_TEXT.sub(_masked, value) if any(each in lowered for each in _IN_SECRETS) else value
    if isinstance(value, Mapping):
        kept = _KEPT.get(name.lower())
        return {
            key: MASK if each and kept is not None and f"{key}".lower() not in kept else without_secrets(each, f"{key}")
            for key, each in value.items()
        }
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        flags = [False, *(isinstance(each, str) and _SECRET_FLAG.fullmatch(each) is not None for each in value)]
        return [MASK if is_next else without_secrets(each, name) for is_next, each in zip(flags, value, strict=False)]
    return value


def _masked(found: re.Match[str]) -> str:
    return f"{next(group for group in found.groups() if group is not None)}{MASK}"
