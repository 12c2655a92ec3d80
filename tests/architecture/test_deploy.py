"""The files in `deploy` use settings, options and paths that exist, and are hardened."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from tests.architecture.source import ROOT
from timeball import config
from timeball.cli.root import timeball

DEPLOY = ROOT / "deploy"
KINDS = {"", ".yml", ".service", ".conf", ".cfg"}
FILES = sorted(path for path in DEPLOY.rglob("*") if path.suffix in KINDS)
UNITS = sorted(DEPLOY.glob("systemd/*.service"))
ELSEWHERE = {"TIMEBALL_IMAGE"}
"""Variables of the compose files, not of Timeball."""


def test_every_variable_is_a_setting() -> None:
    known = {name for each in config.SETTINGS.values() for name in (each.variable, each.file_variable)} | ELSEWHERE
    used = {name for path in FILES if path.is_file() for name in re.findall(r"TIMEBALL_[A-Z_]+", path.read_text())}
    assert used - known == set()
    assert len(used) > 5


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_the_command_of_a_unit_exists(unit: Path) -> None:
    found = re.search(r"/opt/timeball/bin/timeball (\w+)(.*)", unit.read_text())
    assert found is not None
    command = timeball.get_command(click.Context(timeball), found[1])
    assert command is not None
    options = {option for parameter in command.params for option in parameter.opts}
    assert set(re.findall(r"(?<= )--[\w-]+", found[2])) <= options


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_systemd_reads_the_unit(unit: Path, tmp_path: Path) -> None:
    copy = tmp_path / unit.name
    text = unit.read_text().replace("/opt/timeball/bin/timeball", "/bin/true")
    copy.write_text("\n".join(line for line in text.splitlines() if not line.startswith("Documentation=")))
    done = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True)
    complaints = [line for line in done.stderr.splitlines() if unit.name in line]
    assert complaints == []


def test_secrets_of_units_are_credentials() -> None:
    for name, secrets in (("server", ("store", "admin.key")), ("worker", ("worker.key",))):
        text = (DEPLOY / f"systemd/timeball-{name}.service").read_text()
        for secret in secrets:
            assert f"LoadCredential={secret}:/etc/timeball/{secret}" in text
            assert f"=%d/{secret}" in text
        assert "NoNewPrivileges=yes" in text


def _services(name: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load((DEPLOY / f"compose/{name}.yml").read_text())["services"]
    return found


@pytest.mark.parametrize("name", ["single", "fleet"])
def test_containers_of_timeball_have_no_privileges(name: str) -> None:
    ours = [each for each in _services(name).values() if "timeball" in each["image"]]
    assert len(ours) == (1 if name == "single" else 3)
    for each in ours:
        assert each["read_only"] is True
        assert each["cap_drop"] == ["ALL"]
        assert each["security_opt"] == ["no-new-privileges:true"]
        assert timeball.get_command(click.Context(timeball), each["command"][0]) is not None


def test_the_compose_files_mount_what_is_in_deploy() -> None:
    mounts = [mount for each in _services("fleet").values() for mount in each.get("volumes", [])]
    names = [mount.split(":")[0].removeprefix("../") for mount in mounts if mount.startswith("../")]
    assert sorted(names) == ["grafana", "nginx/timeball.conf", "prometheus"]


def test_the_image_runs_without_root() -> None:
    lines = (DEPLOY / "container/Containerfile").read_text().splitlines()
    stages = [index for index, line in enumerate(lines) if line.startswith("FROM ")]
    assert len(stages) == 2
    assert "USER 10001:10001" in lines[stages[1] :]
    assert any(line.startswith("HEALTHCHECK ") for line in lines)


@pytest.mark.parametrize("file", sorted(DEPLOY.glob("compose/*.yml")), ids=lambda path: path.stem)
def test_what_a_compose_file_mounts_exists(file: Path) -> None:
    services = yaml.safe_load(file.read_text())["services"].values()
    mounted = [volume.partition(":")[0] for service in services for volume in service.get("volumes", ())]
    assert [place for place in mounted if place.startswith(".") and not (file.parent / place).exists()] == []
