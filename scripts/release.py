"""Builds a release from a commit, twice, and compares the bytes: `make release`.

The result in `dist/` is the sdist, the wheel, which is built from the sdist, a bill of materials (CycloneDX) and the
SHA-256 checksums. Nothing that is not committed gets into a release.
"""

from __future__ import annotations

import argparse
import filecmp
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from scripts import sbom

ROOT: Final = Path(__file__).parents[1]
CHECKSUMS: Final = "SHA256SUMS"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--revision", default="HEAD", help="the commit to build (default: HEAD)")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="where the files are written (default: dist)")
    given = parser.parse_args()
    if given.dist.exists() and any(given.dist.iterdir()) and not (given.dist / CHECKSUMS).exists():
        parser.error(f"{given.dist} has files, but no release: its content would be deleted")
    with tempfile.TemporaryDirectory(prefix="timeball-release-") as folder:
        first, second = (_build(given.revision, Path(folder) / name) for name in ("first", "second"))
        names = sorted(path.name for path in first.iterdir())
        same, different, missing = filecmp.cmpfiles(first, second, names, shallow=False)
        if different or missing:
            _say(f"The two builds differ: {', '.join(different + missing)}")
            return 1
        shutil.rmtree(given.dist, ignore_errors=True)
        shutil.copytree(first, given.dist)
    _say(f"Built twice with the same bytes: {', '.join(same)}")
    return 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _build(revision: str, folder: Path) -> Path:
    """Build a release in a folder of its own, and return the folder with its files."""
    source, dist = folder / "source", folder / "dist"
    _export(revision, source)
    epoch = _git("log", "-1", "--format=%ct", revision).decode().strip()
    _hatch(source, "sdist", dist, epoch)
    (packed,) = dist.glob("*.tar.gz")
    unpacked = folder / "unpacked"
    with tarfile.open(packed) as archive:
        archive.extractall(unpacked, filter="data")
    _hatch(next(unpacked.iterdir()), "wheel", dist, epoch)
    version = _version(source)
    (dist / f"timeball-{version}.cdx.json").write_bytes(sbom.document(source, version, int(epoch)))
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(dist.iterdir())]
    (dist / CHECKSUMS).write_text("".join(sums))
    return dist


def _export(revision: str, folder: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(_git("archive", "--format=tar", revision))) as archive:
        archive.extractall(folder, filter="data")


def _hatch(source: Path, target: str, dist: Path, epoch: str) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(dist)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": epoch}
    subprocess.run(command, cwd=source, env=environment, check=True, stdout=subprocess.DEVNULL)


def _version(source: Path) -> str:
    found = re.search(r'^__version__ = "(.+)"$', (source / "src/timeball/__init__.py").read_text(), re.MULTILINE)
    if found is None:
        raise SystemExit("src/timeball/__init__.py has no __version__")
    return found[1]


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout


if __name__ == "__main__":
    sys.exit(main())
