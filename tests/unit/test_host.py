"""The default capacity of a worker: no more than the machine, its CPU affinity and its control groups allow."""

import os
from pathlib import Path

import pytest

from timeball import host


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The control groups of a machine with 8 CPUs and 16 GiB; this process is in `outer/inner`."""
    (tmp_path / "membership").write_text("9:name=systemd:/\n0::/outer/inner\n")
    (tmp_path / "groups/outer/inner").mkdir(parents=True)
    monkeypatch.setattr(host, "MEMBERSHIP", tmp_path / "membership")
    monkeypatch.setattr(host, "GROUPS", tmp_path / "groups")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    sizes = {"SC_PHYS_PAGES": 4 * 1024 * 1024, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(os, "sysconf", sizes.__getitem__)
    return tmp_path / "groups"


def limit(group: Path, cpu: str, memory: str) -> None:
    (group / "cpu.max").write_text(f"{cpu}\n")
    (group / "memory.max").write_text(f"{memory}\n")


def test_without_limits_it_is_the_machine(groups: Path) -> None:
    assert (host.cpus(), host.memory_mb()) == (8, 16 * 1024)
    limit(groups / "outer", "max 100000", "max")
    assert (host.cpus(), host.memory_mb()) == (8, 16 * 1024)


def test_the_tightest_control_group_counts(groups: Path) -> None:
    limit(groups / "outer/inner", "max 100000", str(2 * 1024**3))
    limit(groups / "outer", "150000 100000", str(4 * 1024**3))
    limit(groups, "400000 100000", "max")
    assert (host.cpus(), host.memory_mb()) == (1.5, 2 * 1024)


def test_what_cannot_be_read_does_not_count(groups: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "MEMBERSHIP", groups / "nowhere")
    assert (host.cpus(), host.memory_mb()) == (8, 16 * 1024)

    def unknown(_: str) -> int:
        raise ValueError("unrecognized configuration name")

    monkeypatch.setattr(os, "sysconf", unknown)
    assert host.memory_mb() is None


def test_this_machine_has_something_to_offer() -> None:
    memory = host.memory_mb()
    assert host.cpus() > 0
    assert memory is None or memory > 0
