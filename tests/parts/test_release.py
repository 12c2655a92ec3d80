"""A release is built reproducibly, installs into empty environments of every Python, and its sdist runs its tests."""

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Final

import pytest

from tests.support.processes import Api, Process, data_dir, free_port, until

ROOT = Path(__file__).parents[2]
CONSTRAINTS = ROOT / "constraints.txt"
BEFORE: Final = "1bcdc148"
"""The last commit before releases were built. Its wheel stands for the previous release."""

NEEDED_BY_TESTS: Final = (
    "src",
    "tests",
    "scripts",
    "docs",
    "deploy",
    "examples",
    "bench",
    "Makefile",
    "pyproject.toml",
)

pytestmark = [pytest.mark.parts, pytest.mark.timeout(900), pytest.mark.xdist_group("release")]


def pythons() -> dict[str, str]:
    """Every CPython of this machine that Timeball supports, by its version. Nothing is executed to find them."""
    found = {}
    for minor in range(11, 20):
        installed = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python3"))
        program = shutil.which(f"python3.{minor}", path="/usr/local/bin:/usr/bin")
        if installed or program:
            found[f"3.{minor}"] = str(installed[-1]) if installed else str(program)
    found[f"3.{sys.version_info[1]}"] = sys.executable
    return dict(sorted(found.items()))


def run(*command: object, **options: object) -> str:
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return str(done.stdout)


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release") / "dist"
    printed = run(sys.executable, "-m", "scripts.release", "--dist", folder, cwd=ROOT)
    assert printed.startswith("Built twice with the same bytes: SHA256SUMS, timeball-")
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    return next(dist.glob("*.whl"))


def environment(python: str, folder: Path, *packages: object) -> Path:
    """Return the folder with the programs of a new environment."""
    run(python, "-m", "venv", folder)
    run(folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "--constraint", CONSTRAINTS, *packages)
    return folder / "bin"


def assert_runs_a_job(programs: Path, folder: Path) -> None:
    assert re.fullmatch(r"timeball \d+\.\d+\.\d+\n", run(programs / "timeball", "--version"))
    with serving(programs, folder) as api:
        answer = run(
            programs / "timeball", "jobs", "create", "hello", "--shell", "echo hello", "--wait",
            "--url", api.url, "--token-file", data_dir(folder) / "admin.key",
        )  # fmt: skip
        assert "succeeded" in answer
        assert '<div id="app"' in api.http.get("/").text or "<script" in api.http.get("/").text


class serving:
    """`timeball up` of an environment."""

    def __init__(self, programs: Path, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._port = free_port()
        arguments = ["up", "--port", str(self._port), "--data-dir", str(data_dir(folder))]
        self._process = Process(
            folder, arguments, {"TIMEBALL_ADMIN_KEY": "", "PYTHONPATH": ""}, str(programs / "python")
        )

        self._api = Api(f"http://127.0.0.1:{self._port}", "none")

    def __enter__(self) -> Api:
        self._api.await_ready(self._process)
        return self._api

    def __exit__(self, *_: object) -> None:
        self._api.http.close()
        assert self._process.stop() == 0
        self._process.end()


def test_the_checksums_and_the_bill_of_materials(dist: Path, wheel: Path) -> None:
    listed = dict(reversed(line.split("  ")) for line in (dist / "SHA256SUMS").read_text().splitlines())
    assert set(listed) == {path.name for path in dist.iterdir()} - {"SHA256SUMS"}
    for name, digest in listed.items():
        assert hashlib.sha256((dist / name).read_bytes()).hexdigest() == digest
    bill = json.loads(next(dist.glob("*.cdx.json")).read_text())
    refs = {each["bom-ref"] for each in bill["components"]}
    needed = {need for each in bill["dependencies"] for need in each["dependsOn"]}
    assert needed == refs
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)", CONSTRAINTS.read_text(), re.MULTILINE))
    for name in ("aiohttp", "uvicorn", "tzdata"):
        assert f"pkg:pypi/{name}@{pins[name]}" in refs
    assert any(ref.startswith("pkg:npm/react@") for ref in refs)
    with zipfile.ZipFile(wheel) as found:
        names = found.namelist()
    assert any(name.startswith("timeball/web/static/assets/") for name in names)
    assert any(name.endswith("/share/man/man1/timeball.1") for name in names)


@pytest.mark.parametrize("version", pythons())
@pytest.mark.parametrize("kind", ["whl", "tar.gz"])
def test_it_installs_into_an_empty_environment_of_every_python(
    kind: str, version: str, dist: Path, tmp_path: Path
) -> None:
    (package,) = dist.glob(f"*.{kind}")
    assert_runs_a_job(environment(pythons()[version], tmp_path / "env", package), tmp_path / "data")


def test_the_sdist_runs_its_own_tests(dist: Path, tmp_path: Path) -> None:
    """All files that tests need are there, and some fast tests of several folders pass."""
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    committed = run("git", "ls-tree", "-r", "--name-only", "HEAD", *NEEDED_BY_TESTS, cwd=ROOT).splitlines()
    assert [name for name in committed if not (source / name).exists()] == []
    tests = [
        "tests/unit/domain/schedule",
        "tests/architecture/test_deploy.py",
        "tests/architecture/test_settings_documented.py",
        "tests/integration/test_cli_backup.py",
    ]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    printed = run(*command, cwd=source, env={**os.environ, "PYTHONPATH": str(source / "src"), "CI": ""})
    assert " passed" in printed
    assert "failed" not in printed


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tools")
    run(sys.executable, "-m", "venv", folder)
    run(folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "pipx", "uv")
    return folder / "bin"


def test_pipx_and_uvx_run_it(tools: Path, wheel: Path, tmp_path: Path) -> None:
    places = {"PIPX_HOME": str(tmp_path / "pipx"), "PIPX_BIN_DIR": str(tmp_path / "bin")}
    run(tools / "pipx", "install", wheel, env={**os.environ, **places})
    assert run(tmp_path / "bin/timeball", "--version").startswith("timeball ")
    uv = {
        **os.environ,
        "UV_CACHE_DIR": str(tmp_path / "uv"),
        "UV_PYTHON": sys.executable,
        "UV_PYTHON_DOWNLOADS": "never",
    }
    assert run(tools / "uvx", "--from", wheel, "timeball", "--version", env=uv).startswith("timeball ")


def test_an_upgrade_from_the_previous_wheel_keeps_live_jobs(wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(fileobj=_archive(BEFORE)) as archive:
        archive.extractall(tmp_path / "before", filter="data")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "old", cwd=tmp_path / "before")
    programs = environment(sys.executable, tmp_path / "env", next((tmp_path / "old").iterdir()))
    every_second = {"type": "cron", "expression": "* * * * * *"}
    with serving(programs, tmp_path / "data") as api:
        key = (data_dir(tmp_path / "data") / "admin.key").read_text().strip()
        api.http.headers["Authorization"] = f"Bearer {key}"
        ticking = api.create({"task": {"kind": "shell", "command": "true"}, "schedule": every_second})
        later = api.create({"task": {"kind": "shell", "command": "sleep 2"}})
        api.await_workers(1)
    run(programs / "pip", "install", "--quiet", "--force-reinstall", "--no-deps", wheel)
    with serving(programs, tmp_path / "data") as api:
        api.http.headers["Authorization"] = f"Bearer {key}"
        assert until(lambda: api.ended_run_of(later), "the run that was alive")["status"] == "succeeded"
        api.call("POST", f"/v1/jobs/{ticking}/pause", json={})
        until(lambda: "open" not in api.call("GET", f"/v1/jobs/{ticking}/ledger")["counts"], "all fires to end")
        ledger = api.call("GET", f"/v1/jobs/{ticking}/ledger")
        assert ledger["due"] == sum(ledger["counts"].values()) > 0


def _archive(commit: str) -> io.BytesIO:
    done = subprocess.run(["git", "archive", "--format=tar", commit], cwd=ROOT, capture_output=True)
    if done.returncode != 0:
        pytest.skip(f"there is no commit {commit} here")
    return io.BytesIO(done.stdout)
