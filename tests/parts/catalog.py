"""Every part, where its program is found, and how it is installed.

A part comes at a pinned version into `.parts/` in the checkout. To add one, add it to `PARTS`, and write two kinds of
tests in this folder: a smoke test, which `make test` runs where the part is installed, and the full suite, marked with
`parts`, which `make test-parts` runs. Both get the program from `require`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / ".parts"
INSTALLED = FOLDER / "installed"
"""Written when `make parts` has installed every part."""
NPM_FILES = ("package.json", "package-lock.json")


@dataclass(frozen=True, kw_only=True)
class Part:
    name: str
    purpose: str
    size: str
    """On disk."""
    find: Callable[[], Path | None]
    """Its program; None: it is not installed, or at another version than the pinned one."""
    install: Callable[[], None]
    """Parts with the same installer are installed together."""


def require(name: str) -> Path:
    """The program of a part. A test without it is skipped, but fails in CI once `make parts` has run."""
    found = PARTS[name].find()
    if found is not None:
        return found
    if is_ci() and INSTALLED.exists():
        pytest.fail(f"{name} is missing although make parts has run")
    pytest.skip(f"{name} is not installed: make parts")


def is_ci() -> bool:
    return os.environ.get("CI") == "true"


def _npm_program(name: str) -> Callable[[], Path | None]:
    def find() -> Path | None:
        program = FOLDER / "npm" / "node_modules" / ".bin" / name
        is_pinned = all(_text(FOLDER / "npm" / file) == _text(Path(__file__).with_name(file)) for file in NPM_FILES)
        return program if is_pinned and program.exists() and shutil.which("node") else None

    return find


def _install_npm_packages() -> None:
    """Exactly those of package-lock.json, which names no registry: npm asks the one that the machine is set up for."""
    folder = FOLDER / "npm"
    folder.mkdir(parents=True, exist_ok=True)
    for file in NPM_FILES:
        shutil.copy(Path(__file__).with_name(file), folder)
    subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], cwd=folder, check=True)


def _text(path: Path) -> str | None:
    return path.read_text("utf-8") if path.exists() else None


_PARTS = (
    Part(
        name="openapi-typescript",
        purpose="generates TypeScript from /openapi.json (npm, needs Node 20)",
        size="45 MB",
        find=_npm_program("openapi-typescript"),
        install=_install_npm_packages,
    ),
)
PARTS = {part.name: part for part in _PARTS}
