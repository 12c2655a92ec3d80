"""Every part, where its program is found, and how it is installed.

A part comes at a pinned version into `.parts/` in the checkout; only Chromium and Prometheus are those of the system.
To add one, add it to `PARTS`, and write two kinds of tests in this folder: a smoke test, which `make test` runs where
the part is installed, and the full suite, marked with `parts`, which `make test-parts` runs. Both get the program from
`require`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / ".parts"
INSTALLED = FOLDER / "installed"
"""Written when `make parts` has installed every part."""
NPM_FILES = ("package.json", "package-lock.json")
PYTHON_FILE = Path(__file__).with_name("requirements.txt")
BROWSERS = ("chromium", "google-chrome", "google-chrome-stable", "chromium-browser")
CONTAINER_BASE = FOLDER / "container-base"
APT_LOCK_SECONDS = 300
"""Another process may use apt at the same time."""


@dataclass(frozen=True, kw_only=True)
class Part:
    name: str
    purpose: str
    size: str
    """On disk."""
    find: Callable[[], Path | None]
    """Its program, file or folder; None: it is not installed, or at another version than the pinned one."""
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
    return _npm_module(f".bin/{name}")


def _npm_file(name: str) -> Callable[[], Path | None]:
    def find() -> Path | None:
        found = FOLDER / "npm" / "node_modules" / name
        is_pinned = all(_text(FOLDER / "npm" / file) == _text(Path(__file__).with_name(file)) for file in NPM_FILES)
        return found if is_pinned and found.exists() else None

    return find


def _npm_module(name: str) -> Callable[[], Path | None]:
    find = _npm_file(name)
    return lambda: find() if shutil.which("node") else None


def _install_npm_packages() -> None:
    """Exactly those of package-lock.json, which names no registry: npm asks the one that the machine is set up for."""
    folder = FOLDER / "npm"
    folder.mkdir(parents=True, exist_ok=True)
    for file in NPM_FILES:
        shutil.copy(Path(__file__).with_name(file), folder)
    subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], cwd=folder, check=True)


def _find_python_packages() -> Path | None:
    folder = FOLDER / "python"
    is_pinned = _text(folder / PYTHON_FILE.name) == _text(PYTHON_FILE)
    return folder if is_pinned and (folder / "playwright").exists() else None


def _install_python_packages() -> None:
    """Into a folder of their own: they are larger than everything else that the tests need together."""
    folder = FOLDER / "python"
    shutil.rmtree(folder, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--target", folder, "--requirement", PYTHON_FILE], check=True)
    shutil.copy(PYTHON_FILE, folder)


def _find_browser() -> Path | None:
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    return None if found is None else Path(found)


def _install_browser() -> None:
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise OSError(
            "Chromium is not installed. Install it with the package manager of the system, for example with "
            f"`sudo apt-get install chromium`. A program with one of these names is used: {', '.join(BROWSERS)}."
        )
    _apt_install("chromium")


def _find_program(name: str) -> Callable[[], Path | None]:
    def find() -> Path | None:
        found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
        return None if found is None else Path(found)

    return find


def _install_proxies() -> None:
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise OSError("nginx and haproxy are not installed. Install them with the package manager of the system.")
    _apt_install("nginx-light", "haproxy")


PODMAN_PACKAGES = ("podman", "runc", "buildah", "uidmap", "netavark", "aardvark-dns", "iptables", "debootstrap")


def _install_podman() -> None:
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise OSError("podman is not installed. Install it with runc and debootstrap, with the package manager.")
    _apt_install(*PODMAN_PACKAGES)


def _find_base() -> Path | None:
    return CONTAINER_BASE if (CONTAINER_BASE / "usr/bin/python3").exists() else None


def _install_base() -> None:
    """The smallest Debian with Python, as a base for the image. It trusts the authorities that this machine trusts."""
    if shutil.which("debootstrap") is None:
        _install_podman()
    shutil.rmtree(CONTAINER_BASE, ignore_errors=True)
    unfinished = CONTAINER_BASE.with_name("unfinished-base")
    shutil.rmtree(unfinished, ignore_errors=True)
    include = "--include=python3,python3-venv,ca-certificates"
    subprocess.run(["debootstrap", "--variant=minbase", include, "bookworm", unfinished], check=True)
    bundle = Path(os.environ.get("SSL_CERT_FILE") or "/etc/ssl/certs/ca-certificates.crt")
    shutil.copy(bundle, unfinished / "etc/ssl/certs/ca-certificates.crt")
    if (settings := Path("/etc/pip.conf")).exists():
        shutil.copy(settings, unfinished / "etc/pip.conf")
    unfinished.rename(CONTAINER_BASE)


def _install_prometheus() -> None:
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise OSError(
            "Prometheus is not installed. Install it with the package manager of the system, for example with "
            "`sudo apt-get install prometheus prometheus-alertmanager`."
        )
    _apt_install("prometheus", "prometheus-alertmanager")


def _apt_install(*packages: str) -> None:
    apt = ["apt-get", "--quiet", "--yes", "-o", f"DPkg::Lock::Timeout={APT_LOCK_SECONDS}"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run([*apt, "update"], check=True, env=environment)
    subprocess.run([*apt, "install", "--no-install-recommends", *packages], check=True, env=environment)


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
    Part(
        name="chromium",
        purpose="opens the web UI in tests (the package of the system; apt-get installs it, as root)",
        size="350 MB",
        find=_find_browser,
        install=_install_browser,
    ),
    Part(
        name="playwright",
        purpose="controls Chromium in tests (PyPI)",
        size="165 MB",
        find=_find_python_packages,
        install=_install_python_packages,
    ),
    Part(
        name="axe-core",
        purpose="checks that the web UI is accessible (npm)",
        size="3 MB",
        find=_npm_file("axe-core/axe.min.js"),
        install=_install_npm_packages,
    ),
    Part(
        name="oidc-provider",
        purpose="signs users in with OpenID Connect (npm, needs Node 20)",
        size="13 MB",
        find=_npm_module("oidc-provider/lib/index.js"),
        install=_install_npm_packages,
    ),
    Part(
        name="nginx",
        purpose="passes requests to two servers, with deploy/nginx (the package of the system)",
        size="2 MB",
        find=_find_program("nginx"),
        install=_install_proxies,
    ),
    Part(
        name="haproxy",
        purpose="passes requests to two servers, with deploy/haproxy (the package of the system)",
        size="6 MB",
        find=_find_program("haproxy"),
        install=_install_proxies,
    ),
    Part(
        name="podman",
        purpose="builds and runs the image of deploy/container (packages of the system, with runc)",
        size="150 MB",
        find=_find_program("podman"),
        install=_install_podman,
    ),
    Part(
        name="container-base",
        purpose="the base of that image: a small Debian with Python (debootstrap, as root)",
        size="300 MB",
        find=_find_base,
        install=_install_base,
    ),
    Part(
        name="prometheus",
        purpose="scrapes servers and workers, and evaluates the alert rules (the package of the system)",
        size="90 MB",
        find=_find_program("prometheus"),
        install=_install_prometheus,
    ),
    Part(
        name="promtool",
        purpose="checks and tests the alert rules (comes with Prometheus)",
        size="1 MB",
        find=_find_program("promtool"),
        install=_install_prometheus,
    ),
    Part(
        name="prometheus-alertmanager",
        purpose="sends alerts to a receiver (the package of the system)",
        size="45 MB",
        find=_find_program("prometheus-alertmanager"),
        install=_install_prometheus,
    ),
)
PARTS = {part.name: part for part in _PARTS}
