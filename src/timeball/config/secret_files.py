"""Reads secrets from files with one line of text, as systemd, Docker and Kubernetes provide them."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

MAX_SECRET_BYTES: Final = 65_536

_warned: set[Path] = set()


def read(path: Path) -> str:
    """Return the secret in a file, without the line break at its end. Raises `ValueError` with the reason, but never
    with the content of the file.
    """
    try:
        # Unbuffered: a pipe is read to its end, and no part of the secret stays in a buffer.
        with open(path, "rb", buffering=0) as file:
            content = _at_most(file.fileno(), MAX_SECRET_BYTES + 1)
            found = os.fstat(file.fileno())
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    if len(content) > MAX_SECRET_BYTES:
        raise ValueError(f"{path} has more than {MAX_SECRET_BYTES} bytes, which is too large for a secret")
    try:
        text = content.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text") from None
    if not text.strip():
        raise ValueError(f"{path} is empty")
    if "\n" in text or "\r" in text:
        raise ValueError(f"{path} has more than one line")
    if stat.S_ISREG(found.st_mode) and found.st_mode & 0o006:
        _warn(path.resolve())
    return text


def lasting(path: Path) -> list[Path]:
    """Return the paths of a secret file, or an empty list if it is not a regular file that could be read again.

    Two paths: the name of the file, because the target of a link may be replaced later, as Kubernetes does; and its
    resolved path, because a name such as `/dev/fd/3` means another file in other processes.
    """
    resolved = path.resolve()
    return [path.absolute(), resolved] if resolved.is_file() else []


def _at_most(descriptor: int, size: int) -> bytes:
    content = b""
    while len(content) < size and (part := os.read(descriptor, size - len(content))):
        content += part
    return content


def _warn(path: Path) -> None:
    """Warn, once for each file, that every user of the machine can read it. Do not warn if a folder above it denies
    access to other users."""
    if path in _warned or not all(_lets_others_through(parent) for parent in path.parents):
        return
    _warned.add(path)
    import logging

    log = logging.getLogger("timeball.config")
    log.warning("every user of this machine can read the secret in %s: chmod 600 %s", path, path)


def _lets_others_through(folder: Path) -> bool:
    try:
        return bool(folder.stat().st_mode & 0o001)
    except OSError:
        return False
