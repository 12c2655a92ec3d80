"""The Landlock domain of a job: all files of the machine except those of Timeball.

Landlock can grant but not deny, and a grant on a folder holds for everything below it. So each folder above a protected
path is *carved*: on the folder itself only listing is granted, and each of its entries is granted separately, except
the entry that contains the protected path, which is carved in turn. As a consequence, a job cannot create, remove or
rename entries directly in a carved folder; existing entries and everything below them are not affected.

`/dev` is carved as well: no job gets access to block devices and to the memory of the machine.

No third-party package is imported here, because the guard process uses this module.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable
from typing import Final

from timeball.executors.sandbox import landlock

MOUNTS: Final = "/proc/self/mountinfo"
SWAPS: Final = "/proc/swaps"
PROCESSES: Final = "/proc"
DEVICES: Final = "/dev"
SHARED_FOLDERS_OF_DEVICES: Final = ("/dev/pts", "/dev/shm", "/dev/mqueue", "/dev/hugepages")
"""Folders below `/dev` in which jobs create entries. They are separate file systems."""
CLOSED_DEVICES: Final = (
    *("mem", "kmem", "port", "oldmem", "crash", "snapshot", "dax"),
    *("sg", "bsg", "nvme", "ng", "raw", "mtd"),
    *("vcs", "vcsa", "vcsu"),
)
"""Character devices that give access to memory, disks or screens, with any number after the name."""
MAX_LINKS: Final = 40
MTIME_RESOLUTION: Final = 50_000_000
"""Nanoseconds for which the modification time of a folder may stay the same although its entries change; a generous
bound."""

Seen = tuple[str, int, int, int]
"""A carved folder as it was listed: path, device, inode, and modification time of its entries."""


class Domain:
    """A Landlock rule set, and the folders from which it was made."""

    def __init__(self, protected: Iterable[str], readable: Iterable[str], *, signals: bool = False) -> None:
        """Jobs may read and execute files in `readable` folders, although these are inside a protected one. `signals`:
        see `Ruleset`.
        """
        self.hidden = hidden_entries(protected)
        self.carved = {folder for entry in self.hidden for folder in ancestors(entry)} | {"/"}
        self.carved = {folder for folder in self.carved if not any(is_within(folder, entry) for entry in self.hidden)}
        self.seen: list[Seen] = []
        self._began = _time_of_files()
        self._rules = landlock.Ruleset(signals=signals)
        self.ruleset = self._rules.descriptor
        try:
            self._grant("/", landlock.READ_DIR)
            folders = [*self.carved - {DEVICES}, DEVICES]
            while folders:
                folders.extend(self._carve(folders.pop()))
            for folder in readable:
                self._open_for_reading(os.path.realpath(folder))
        except BaseException:
            os.close(self.ruleset)
            raise

    @property
    def is_settled(self) -> bool:
        """False if a carved folder was changed so recently that its modification time might not show another change."""
        return all(self._began - seen[3] > MTIME_RESOLUTION for seen in self.seen)

    def _carve(self, folder: str) -> Iterable[str]:
        """Grant access to the entries of a folder. Yield the entries that have to be carved as well."""
        try:
            found = os.stat(folder)
        except OSError:
            return
        self.seen.append((folder, found.st_dev, found.st_ino, found.st_mtime_ns))
        has_devices = is_within(folder, DEVICES)
        for entry in _entries(folder):
            if entry.path in self.hidden or entry.path in self.carved or entry.is_symlink() or entry.path == DEVICES:
                continue
            if has_devices and is_closed_device(entry):
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            if has_devices and is_folder and entry.path not in SHARED_FOLDERS_OF_DEVICES:
                yield entry.path
            else:
                self._grant(entry.path, self._rules.on_folders if is_folder else self._rules.on_files)

    def _open_for_reading(self, folder: str) -> None:
        """Grant the right to read and execute the files of a folder inside a protected one, unless it contains a
        protected path itself: a grant on a folder cannot be revoked below it."""
        inside = any(is_within(folder, entry) and folder != entry for entry in self.hidden)
        if inside and not any(is_within(entry, folder) for entry in self.hidden):
            self.seen.append((folder, *_identity(folder)))
            self._grant(folder, landlock.READ_FILE | landlock.READ_DIR | landlock.EXECUTE)

    def _grant(self, path: str, rights: int) -> None:
        """Add a rule for a path. A path that does not exist, or that this user cannot open, needs no rule."""
        with contextlib.suppress(FileNotFoundError, PermissionError, NotADirectoryError):
            descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                self._rules.grant(descriptor, rights)
            finally:
                os.close(descriptor)


def is_current(seen: Iterable[Seen]) -> bool:
    """True if the carved folders are the same and have the same entries."""
    return all(_identity(path) == (device, inode, changed) for path, device, inode, changed in seen)


def _identity(path: str) -> tuple[int, int, int]:
    """Return the device, the inode and the modification time of a folder; zeros if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0, 0
    return found.st_dev, found.st_ino, found.st_mtime_ns


def hidden_entries(protected: Iterable[str]) -> set[str]:
    """Return all locations of the protected paths: without links, the links on the way to them, and other mounts of the
    same files.
    """
    found = {entry for path in protected for entry in _without_links(path)}
    # Open files of a process, such as /dev/stdin, are left out: another process cannot open them.
    found = {entry for entry in found if not is_within(entry, PROCESSES)}
    mounts = read_mounts()
    return found | {alias for path in found for alias in _aliases(path, mounts)}


def swap_files() -> list[str]:
    """Return the swap files, which may contain the memory of any process."""
    with contextlib.suppress(OSError), open(SWAPS, encoding="utf-8", errors="surrogateescape") as file:
        lines = [line.split() for line in file]
        return [_unescaped(words[0]) for words in lines if len(words) > 1 and words[1] == "file"]
    return []


def ancestors(path: str) -> Iterable[str]:
    while path != "/":
        path = os.path.dirname(path)
        yield path


def is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def is_closed_device(entry: os.DirEntry[str]) -> bool:
    try:
        mode = entry.stat(follow_symlinks=False).st_mode
    except OSError:
        return True
    if stat.S_ISBLK(mode):
        return True
    names = CLOSED_DEVICES if stat.S_ISCHR(mode) else ("bsg",)
    return any(entry.name == name or _is_numbered(entry.name, name) for name in names)


def _is_numbered(name: str, stem: str) -> bool:
    return name.startswith(stem) and name[len(stem) : len(stem) + 1].isdigit()


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except PermissionError:
        return []


def _time_of_files() -> int:
    """Return the modification time that a file would get if it were changed now."""
    descriptors = os.pipe()
    try:
        return os.fstat(descriptors[0]).st_mtime_ns
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _without_links(path: str) -> set[str]:
    """Return the resolved location of a path, which need not exist, and the links on the way to it."""
    found = {os.path.realpath(path)}
    real, rest = "/", [part for part in os.path.abspath(path).split("/") if part]
    links = 0
    while rest:
        entry = os.path.join(real, rest.pop(0))
        try:
            target = os.readlink(entry)
        except OSError:
            real = entry
            continue
        links += 1
        if links > MAX_LINKS:
            break
        found.add(entry)
        joined = os.path.normpath(os.path.join(os.path.realpath(real), target))
        rest = [part for part in joined.split("/") if part] + rest
        real = "/"
    found.add(real)
    found.discard("/")
    return found


Mount = tuple[str, str, str]
"""The device, the folder inside its file system, and the mount point."""


def read_mounts() -> list[Mount]:
    mounts: list[Mount] = []
    with contextlib.suppress(OSError), open(MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            words = line.split(" ")
            mounts.append((words[2], _unescaped(words[3]), _unescaped(words[4])))
    return mounts


def _aliases(path: str, mounts: list[Mount]) -> set[str]:
    """Return other locations at which a path, or a part of what is below it, can be accessed."""
    home: Mount | None = None
    for mount in mounts:
        if is_within(path, mount[2]) and (home is None or len(mount[2]) >= len(home[2])):
            home = mount
    if home is None:
        return set()
    inside = _joined(home[1], os.path.relpath(path, home[2]))
    found = set()
    for device, root, place in mounts:
        if device != home[0]:
            continue
        if is_within(inside, root):
            found.add(_joined(place, os.path.relpath(inside, root)))
        elif is_within(root, inside):
            found.add(place)
    found.discard("/")
    return found


def _joined(folder: str, rest: str) -> str:
    return os.path.normpath(os.path.join(folder, rest))


def _unescaped(word: str) -> str:
    for octal, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        word = word.replace(octal, character)
    return word
