"""Notices that source files have changed since they were imported."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Final

LOOK_SECONDS: Final = 1.0
"""Seconds between two checks of the files of other modules than that of the function."""
INSTALLED: Final = ("/site-packages/", "/dist-packages/")
NOT_WATCHED: Final = tuple(f"{folder}/" for folder in (Path(os.__file__).parent, Path(__file__).parents[3]))
"""The standard library and Timeball: a worker has to be restarted to use another version of them."""

Version = tuple[int, int, int]


class SourceFiles:
    """The files of a module with functions, and of the modules that it imports, except for installed packages."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._own: dict[str, Version] = {}
        self._others: dict[str, Version] = {}
        self._modules = 0
        self._looked_at = 0.0

    def note(self) -> None:
        """Remember the files of modules that were imported since the last call."""
        if len(sys.modules) == self._modules:
            return
        self._modules = len(sys.modules)
        for name, module in list(sys.modules.items()):
            path = _path(module)
            if path is None or path in self._others or path in self._own:
                continue
            own = name == self._module
            if own or not (path.startswith(NOT_WATCHED) or any(folder in path for folder in INSTALLED)):
                version = _version(path)
                if version is not None:
                    (self._own if own else self._others)[path] = version

    def have_changed(self) -> bool:
        if _differ(self._own):
            return True
        now = time.monotonic()
        if now - self._looked_at < LOOK_SECONDS:
            return False
        self._looked_at = now
        return _differ(self._others)


def _path(module: object) -> str | None:
    attributes = getattr(module, "__dict__", None)  # a lazy module would import something if it was asked for one
    path = attributes.get("__file__") if isinstance(attributes, dict) else None
    return path if isinstance(path, str) else None


def _differ(files: dict[str, Version]) -> bool:
    return any(_version(path) != version for path, version in files.items())


def _version(path: str) -> Version | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
