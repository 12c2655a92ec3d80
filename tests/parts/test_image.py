"""The image of deploy/container is built and runs: without root, without capabilities, on a read-only file system."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.parts.catalog import require
from tests.support.processes import until

ROOT = Path(__file__).parents[2]
IMAGE = "localhost/timeball:test"
BASE = "localhost/timeball-base:test"
LIMITS = ("--ulimit", "nofile=20000:20000", "--ulimit", "nproc=4096:4096")

pytestmark = [pytest.mark.parts, pytest.mark.timeout(900)]


class Podman:
    """podman with a storage of its own."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._command = [
            str(program), "--root", str(folder / "store"), "--runroot", str(folder / "run"),
            "--storage-driver", "overlay", "--cgroup-manager", "cgroupfs", "--runtime", "runc",
        ]  # fmt: skip

    def __call__(self, *arguments: object, ok: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([*self._command, *map(str, arguments)], capture_output=True, text=True, timeout=600)
        assert done.returncode == 0 or not ok, f"{arguments}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    """podman with the image, which is built on the smallest Debian with Python."""
    program, base = require("podman"), require("container-base")
    found = Podman(program, tmp_path_factory.mktemp("podman"))
    packed = subprocess.run(["tar", "-C", base, "-cf", "-", "."], capture_output=True, check=True).stdout
    archive = tmp_path_factory.mktemp("base") / "base.tar"
    archive.write_bytes(packed)
    found("import", "-q", archive, BASE)
    archive.unlink()
    found(
        "build", "--format", "docker", "--network", "host", *LIMITS[:2], "--build-arg", f"BASE={BASE}",
        "-f", "deploy/container/Containerfile", "-t", IMAGE, ROOT,
    )  # fmt: skip
    yield found
    found("rmi", "--all", "--force", ok=False)


@pytest.fixture
def container(podman: Podman) -> Iterator[str]:
    arguments = ("--read-only", "--tmpfs", "/tmp", "--cap-drop", "all", "--security-opt", "no-new-privileges")
    started = podman("run", "--detach", "--network", "none", *LIMITS, *arguments, IMAGE)
    name = started.stdout.strip()
    yield name
    podman("rm", "--force", name, ok=False)


def test_the_image_runs_a_job_without_privileges(podman: Podman, container: str) -> None:
    until(lambda: podman("healthcheck", "run", container, ok=False).returncode == 0, "the container to be healthy")
    create = ("exec", container, "timeball", "jobs", "create")
    done = podman(*create, "hello", "--shell", "id -u; touch /x", "--wait", ok=False)
    assert done.returncode == 1
    assert "Read-only file system" in podman("exec", container, "timeball", "runs", "logs", "hello").stdout
    done = podman(*create, "again", "--shell", "id -u", "--wait")
    assert "succeeded" in done.stdout
    assert podman("exec", container, "timeball", "runs", "logs", "again").stdout.strip().endswith("10001")
    found = json.loads(podman("exec", container, "timeball", "doctor", "-o", "json").stdout)
    assert found["problems"] == 0
    capabilities = podman("exec", container, "grep", "CapEff", "/proc/1/status").stdout
    assert capabilities.split() == ["CapEff:", "0" * 16]
    podman("stop", "--time", "45", container)
    assert podman("inspect", "--format", "{{.State.ExitCode}}", container).stdout.strip() == "0"


def test_the_image_has_the_commands_and_no_installer(podman: Podman) -> None:
    done = podman("run", "--rm", "--network", "none", *LIMITS, IMAGE, "--version")
    assert done.stdout.startswith("timeball ")
    there = podman("run", "--rm", "--network", "none", *LIMITS, "--entrypoint", "ls", IMAGE, "/opt/timeball/bin")
    assert "pip" not in there.stdout.split()
