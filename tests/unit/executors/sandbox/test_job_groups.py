"""Where the control groups of jobs are created, also on systems other than that of the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from timeball.executors.sandbox import cgroups, job_groups

WORKER, KEEPER, GUARD = 10, 11, 12
V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate"
DOCKER_V1 = "41 31 0:33 /docker/abc /sys/fs/cgroup/{0} ro - cgroup cgroup rw,{0}"


@pytest.mark.parametrize(
    ("mounts", "membership", "found"),
    [
        ([V2], "0::/system.slice/timeball.service", {"unified": "/sys/fs/cgroup/system.slice/timeball.service"}),
        ([V2], "0::/", {"unified": "/sys/fs/cgroup"}),
        ([V2], "0::/../neighbour", {}),
        (
            [DOCKER_V1.format("pids"), DOCKER_V1.format("cpu,cpuacct"), DOCKER_V1.format("memory")],
            "9:pids:/docker/abc\n8:cpu,cpuacct:/docker/abc\n7:memory:/docker/abc/inner\n1:name=systemd:/x\n0::/x",
            {"pids": "/sys/fs/cgroup/pids", "memory": "/sys/fs/cgroup/memory/inner"},
        ),
        (["22 1 0:20 / / rw", "a - b"], "0::/", {}),
        ([], "", {}),
    ],
)
def test_the_groups_of_a_process(
    mounts: list[str], membership: str, found: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (("MOUNTS", "\n".join(mounts)), ("MEMBERSHIP", membership)):
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(cgroups, name, str(tmp_path / name))
    assert cgroups.own_groups() == found


class Hierarchy:
    """Version 2, as far as these tests need it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.delegated: set[str] = set()
        self.available = "memory pids"
        monkeypatch.setattr(cgroups, "make", lambda folder, limits=(): self.make(Path(folder)))
        monkeypatch.setattr(cgroups, "write", self.write)
        monkeypatch.setattr(os, "getxattr", self.getxattr)

    def make(self, folder: Path, *members: int) -> str:
        folder.mkdir()
        (folder / "cgroup.type").touch()
        (folder / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in members))
        (folder / "cgroup.subtree_control").touch()
        return str(folder)

    def getxattr(self, folder: str, name: str) -> bytes:
        if folder in self.delegated and name == "user.delegate":
            return b"1"
        raise OSError

    def write(self, path: str, text: str) -> None:
        file = Path(path)
        if file.name == "cgroup.procs":
            for other in self.folder.rglob("cgroup.procs"):
                other.write_text("".join(f"{pid}\n" for pid in cgroups.members(str(other.parent)) if str(pid) != text))
            file.write_text(file.read_text() + f"{text}\n")
        elif cgroups.members(str(file.parent)):
            raise OSError(16, "busy")
        else:
            file.write_text(self.available)


@pytest.fixture
def hierarchy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hierarchy:
    return Hierarchy(tmp_path, monkeypatch)


def test_a_group_that_is_not_delegated_is_left_as_it_is(hierarchy: Hierarchy, tmp_path: Path) -> None:
    own = hierarchy.make(tmp_path / "service", WORKER, KEEPER, GUARD)
    assert job_groups._base(own, WORKER, [KEEPER, GUARD]) == (own, False)
    assert cgroups.members(own) == [WORKER, KEEPER, GUARD]


def test_a_delegated_group_becomes_empty_and_gives_controllers(hierarchy: Hierarchy, tmp_path: Path) -> None:
    own = hierarchy.make(tmp_path / "service", WORKER, KEEPER, GUARD)
    hierarchy.delegated.add(own)
    assert job_groups._base(own, WORKER, [KEEPER, GUARD]) == (own, True)
    assert cgroups.members(own) == []
    moved = f"{own}/worker-{WORKER}"
    assert cgroups.members(moved) == [WORKER, KEEPER, GUARD]
    assert job_groups._base(moved, WORKER, [KEEPER, GUARD]) == (own, True), "for the next guard of that worker"


def test_a_delegated_group_with_other_processes_is_left_as_it_is(hierarchy: Hierarchy, tmp_path: Path) -> None:
    own = hierarchy.make(tmp_path / "service", WORKER, 99)
    hierarchy.delegated.add(own)
    assert job_groups._base(own, WORKER, [KEEPER, GUARD]) == (own, False)
    assert cgroups.members(own) == [WORKER, 99]


def test_a_controller_that_is_missing_is_not_used(hierarchy: Hierarchy, tmp_path: Path) -> None:
    hierarchy.available = "pids"
    around = hierarchy.make(tmp_path / "service")
    own = hierarchy.make(tmp_path / "service" / "main", WORKER)
    hierarchy.delegated.add(around)
    assert job_groups._base(own, WORKER, []) == (around, False)


def test_groups_of_living_and_of_foreign_workers_are_not_swept(tmp_path: Path) -> None:
    alive = f"{job_groups._prefix()}{os.getpid()}-{job_groups._started(os.getpid())}-1"
    reused = f"{job_groups._prefix()}{os.getpid()}-1-1"
    gone = f"{job_groups._prefix()}{2**22 + 1}-1-1"
    foreign = f"timeball-1-{2**22 + 1}-1-1"
    for name in (alive, reused, gone, foreign, "timeball-notes", "other"):
        (tmp_path / name).mkdir()
    job_groups.sweep(str(tmp_path))
    assert {each.name for each in tmp_path.iterdir()} == {alive, foreign, "timeball-notes", "other"}


def test_a_system_without_control_groups_is_left_without(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MOUNTS", "MEMBERSHIP"):
        monkeypatch.setattr(cgroups, name, "/no/where")
    monkeypatch.setattr(job_groups, "_prefix", None)
    found = job_groups.JobGroups(os.getpid(), [os.getpid()])
    assert (found.folders, found.make_limited(1, 64)) == ([], [])
    assert found.problem == "no hierarchy of control groups is mounted"


def test_a_system_that_refuses_groups_is_left_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"unified": str(tmp_path), "pids": str(tmp_path / "missing")}
    monkeypatch.setattr(cgroups, "own_groups", lambda: own)
    found = job_groups.JobGroups(os.getpid(), [os.getpid()])
    assert (found.folders, found.limits_memory, found.make_limited(1, 64)) == ([], False, [])
    assert "No such file" in found.problem
    assert list(tmp_path.iterdir()) == []
