"""Secrets in files: one line of text each, as systemd, Docker and Kubernetes hand them to a process."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

MAX_SECRET_BYTES: Final = 65_536

_warned: set[Path] = set()


def read(path: Path) -> str:
    """The secret in a file, without the line break at its end. `ValueError` says why there is none, never what the file
    holds."""
    try:
        # Unbuffered: a pipe is read until it ends, and nothing of the secret stays behind in a buffer.
        with open(path, "rb", buffering=0) as file:
            content = _at_most(file.fileno(), MAX_SECRET_BYTES + 1)
            found = os.fstat(file.fileno())
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    if len(content) > MAX_SECRET_BYTES:
        raise ValueError(f"{path} has more than {MAX_SECRET_BYTES} bytes, which is no secret of Timeball's")
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
    """The paths of a secret file; none if it is no file that could be read again.

    As it is named: the target of a link may be replaced later, as Kubernetes does. And where it is now: the name may be
    `/dev/fd/3`, which means another file in other processes.
    """
    resolved = path.resolve()
    return [path.absolute(), resolved] if resolved.is_file() else []


def _at_most(descriptor: int, size: int) -> bytes:
    content = b""
    while len(content) < size and (part := os.read(descriptor, size - len(content))):
        content += part
    return content


def _warn(path: Path) -> None:
    """Once for each file, unless a folder above it keeps other users out."""
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
