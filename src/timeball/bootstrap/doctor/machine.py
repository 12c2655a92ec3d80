"""Checks of this machine: folders, files with keys, the disk, the port and limits."""

from __future__ import annotations

import errno
import http.client
import os
import pwd
import resource
import shlex
import socket
import ssl
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from timeball.bootstrap.doctor.finding import Finding, ok, problem, skipped
from timeball.client.http_sync import reason
from timeball.config import DoctorConfig, places
from timeball.stores.sqlite.disk_space import has_little_space

MIN_DESCRIPTORS: Final = 1_024
TIMEOUT: Final = 2.0
"""Seconds to find out which program listens on the port."""


def check_machine(config: DoctorConfig) -> Iterator[Finding]:
    folder = config.data_dir
    if not places.may_exist(folder):
        yield skipped("data-folder", f"{folder} does not exist; a server creates it")
    else:
        try:
            yield from _data_folder(folder)
            yield from _disk(folder)
        except OSError as error:
            yield problem(
                "data-folder",
                f"{user_name(os.geteuid())} cannot open {folder}: {error.strerror}",
                "run the command as the user of the server (sudo -u), or correct --data-dir",
            )
    yield from _key_files(config)
    yield from _scripts(config)
    if config.has_store:
        yield from _port(config.host, config.port)
    yield from _descriptors()


def _data_folder(folder: Path) -> Iterator[Finding]:
    if not folder.is_dir():
        yield problem("data-folder", f"{folder} is not a folder", "name another one with --data-dir")
        return
    found = folder.stat()
    quoted, owner = shlex.quote(str(folder)), user_name(found.st_uid)
    before = True
    if os.statvfs(folder).f_flag & os.ST_RDONLY or not os.access(folder, os.W_OK | os.X_OK):
        before = False
        yield problem(
            "data-folder",
            f"{user_name(os.geteuid())} cannot write to {folder}, which belongs to {owner}"
            f" ({stat.filemode(found.st_mode)})",
            f"run Timeball as {owner}, or give the folder to the user of the server: chown -R USER {quoted}; a file"
            " system that is mounted read-only has to be mounted read-write",
        )
    if found.st_mode & 0o027:
        before = False
        yield problem(
            "data-folder-mode",
            f"{folder} is open to other users of this machine ({stat.filemode(found.st_mode)})",
            f"chmod 700 {quoted}",
        )
    others = [path for path in _entries(folder) if path.lstat().st_uid != found.st_uid]
    if others:
        before = False
        shown = ", ".join(f"{path.name} ({user_name(path.lstat().st_uid)})" for path in others[:3])
        yield problem(
            "file-owner",
            f"{folder} belongs to {owner}, but {shown} to another user: a server cannot use these files",
            f"chown -R {owner} {quoted}",
        )
    if before:
        yield ok("data-folder", f"{folder} belongs to {owner}, and only {owner} can open it")


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if os.access(folder, os.R_OK | os.X_OK) else []


def _disk(folder: Path) -> Iterator[Finding]:
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize // 1024**2
    if has_little_space(found):
        yield problem(
            "disk",
            f"the disk of {folder} is almost full: {free} MiB are free, and servers accept nothing new",
            "delete files, enlarge the disk, or keep history for a shorter time with --retention",
        )
    elif found.f_files and found.f_favail < MIN_DESCRIPTORS:
        yield problem("disk", f"the disk of {folder} has only {found.f_favail} free inodes", "delete small files there")
    else:
        yield ok("disk", f"{free:,} MiB are free for {folder}")


def _key_files(config: DoctorConfig) -> Iterator[Finding]:
    own = {config.data_dir / name for name in ("admin.key", "admin.last", "timeball.db")}
    files = [path for path in (*sorted(own), *config.secret_files) if _exists(path)]
    wrong = False
    for path in files:
        found, quoted = path.stat(), shlex.quote(str(path))
        if found.st_mode & (0o077 if path in own else 0o007):
            wrong = True
            yield problem(
                "key-file-mode",
                f"other users of this machine can open {path} ({stat.filemode(found.st_mode)})",
                f"chmod 600 {quoted}; if others may have read a key in it, replace that key (timeball keys rotate)",
            )
        if not os.access(path, os.R_OK):
            wrong = True
            yield problem(
                "key-file-owner",
                f"{user_name(os.geteuid())} cannot read {path}, which belongs to {user_name(found.st_uid)}",
                f"chown {user_name(os.geteuid())} {quoted}, or run the command as {user_name(found.st_uid)}",
            )
    if files and not wrong:
        yield ok("key-files", f"{len(files)} files with keys and data are private")


def _exists(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _scripts(config: DoctorConfig) -> Iterator[Finding]:
    folder = config.scripts_dir
    if os.access(folder, os.R_OK | os.X_OK) and folder.is_dir():
        yield ok("scripts", f"script jobs use {folder}")
    elif config.has_scripts_dir or places.may_exist(folder):
        yield problem(
            "scripts",
            f"the folder with scripts {folder} does not exist or cannot be read: script jobs fail on this machine",
            f"create it (mkdir -p {shlex.quote(str(folder))}) and put the scripts there, or correct --scripts-dir",
        )
    else:
        yield skipped("scripts", f"there is no {folder}; script jobs need it on machines with workers")


def _port(host: str, port: int) -> Iterator[Finding]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except (OSError, UnicodeError) as error:
        in_use = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
        if in_use and _is_timeball(host, port):
            yield ok("port", f"a Timeball server listens on {host} port {port}")
        elif in_use:
            yield problem(
                "port",
                f"another program listens on {host} port {port}: no server can start there",
                f"stop it (ss -ltnp 'sport = :{port}' names it), or start the server with another --port",
            )
        else:
            yield problem(
                "port",
                f"no server can listen on {host} port {port}: {reason(error)}",
                "use another --host or --port",
            )
    else:
        yield ok("port", f"{host} port {port} is free; no server runs there")


def _is_timeball(host: str, port: int) -> bool:
    address = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    for connection in (
        http.client.HTTPConnection(address, port, timeout=TIMEOUT),
        http.client.HTTPSConnection(address, port, timeout=TIMEOUT, context=unverified),
    ):
        try:
            connection.request("GET", "/livez")
            if b'"alive"' in connection.getresponse().read(1_024):
                return True
        except (OSError, http.client.HTTPException):
            continue
        finally:
            connection.close()
    return False


def _descriptors() -> Iterator[Finding]:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < MIN_DESCRIPTORS:
        yield problem(
            "descriptors",
            f"a process may open only {hard} files: servers accept few connections, and workers have few slots",
            "raise the limit: ulimit -Hn, or LimitNOFILE= in the unit of systemd",
        )
    else:
        yield ok("descriptors", "the limit of open files is high enough")


def user_name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
