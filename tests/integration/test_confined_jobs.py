"""I31: what a job can reach in its Landlock domain and as its own user, through a real guard."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.guard_programs import Guarded
from tests.support.ordinary_user import NEEDS_LANDLOCK, NEEDS_ROOT, ORDINARY, shared_folder
from tests.unit.executing import RecordedAttempt
from timeball import job_user
from timeball.domain.run.lifecycle import Failed, Succeeded
from timeball.domain.task.task import Script, Shell
from timeball.executors.guard.confiner import Confiner
from timeball.executors.guard.guard import PASSED_ON, ProcessGuard
from timeball.executors.process.process import Processes
from timeball.executors.sandbox import job_domain, landlock
from timeball.executors.sandbox.confinement import Confinement
from timeball.executors.script import ScriptExecutor
from timeball.executors.shell import ShellExecutor

pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("guard_program")]


@pytest.fixture
def folder() -> Iterator[Path]:
    with shared_folder("/var/tmp") as folder:
        yield folder.resolve()


async def run(guard: ProcessGuard, command: str | list[str]) -> tuple[bool, str]:
    """Whether it succeeded, and what it said."""
    attempt = RecordedAttempt(Shell(command=command))
    outcome = await ShellExecutor(Processes(guard)).execute(attempt)
    said = "".join(text for _, text in attempt.chunks)
    return outcome == Succeeded(), said if isinstance(outcome, Succeeded) else f"{said} {outcome}"


def domain(*protected: Path, readable: Path | None = None) -> Confinement:
    return Confinement(
        landlock=True, protected=[str(path) for path in protected], readable=[str(readable)] if readable else []
    )


@NEEDS_LANDLOCK
async def test_no_way_leads_to_a_protected_file(guarded: Guarded, folder: Path) -> None:
    data, linked = folder / "real" / "data", folder / "linked"
    data.mkdir(parents=True)
    (data / "key").write_text("secret")
    (folder / "other").mkdir()
    linked.symlink_to("real/data")
    os.link(data / "key", data / "hard")
    guard = guarded(domain(linked))
    for way in (data / "key", linked / "key", folder / "other" / ".." / "real" / "data" / "hard"):
        fine, said = await run(guard, f"cat {way}")
        assert (fine, "Permission denied" in said) == (False, True), said
        assert not (await run(guard, f"cat /proc/self/root{way}"))[0]
    assert not (await run(guard, f"cd {data} && cat key"))[0]
    for change in (
        f"ln {data}/key {folder}/other/key",
        f"mv {folder}/real {folder}/other/real",
        f"mv {linked} {folder}/other/linked",
        f"rm {linked}",
        f"echo forged > {data}/key",
        f"touch {data}/new",
        f"mknod {folder}/other/disk b 7 0",
    ):
        assert not (await run(guard, change))[0], change
    assert (data / "key").read_text() == "secret"
    assert (await run(guard, f"echo x > {folder}/other/file; mv {folder}/other/file {folder}/other/moved"))[0]


@NEEDS_LANDLOCK
async def test_what_is_made_later_is_protected_or_granted_as_if_it_had_been_there(
    guarded: Guarded, folder: Path
) -> None:
    database = folder / "store" / "timeball.db"
    database.parent.mkdir()
    wal = Path(f"{database}-wal")
    guard = guarded(domain(folder / "missing" / "data", database, wal))
    assert (await run(guard, "true"))[0]
    assert not (await run(guard, f"echo planted > {wal}"))[0]
    (folder / "store" / "timeball.db-wal").write_text("pages")
    (folder / "missing" / "data").mkdir(parents=True)
    (folder / "missing" / "data" / "key").write_text("secret")
    for path in (wal, folder / "missing" / "data" / "key"):
        assert not (await run(guard, f"cat {path}"))[0], path
    for later in (folder / "later", folder / "store" / "later", folder / "missing" / "later"):
        later.mkdir()
        assert (await run(guard, f"echo x > {later}/file && cat {later}/file"))[0], later


@NEEDS_LANDLOCK
async def test_a_protected_folder_stays_so_when_it_is_moved_or_replaced(guarded: Guarded, folder: Path) -> None:
    data = folder / "above" / "data"
    data.mkdir(parents=True)
    (data / "key").write_text("secret")
    guard = guarded(domain(data))
    assert (await run(guard, "true"))[0]
    (folder / "above").rename(folder / "moved")
    assert not (await run(guard, f"cat {folder}/moved/data/key"))[0]
    shutil.copytree(folder / "moved", folder / "above")
    assert not (await run(guard, f"cat {folder}/above/data/key"))[0]
    assert not (await run(guard, f"cat {folder}/moved/data/key"))[0]


@NEEDS_LANDLOCK
async def test_scripts_inside_a_protected_folder_can_be_run_and_not_changed(guarded: Guarded, folder: Path) -> None:
    scripts = folder / "data" / "scripts"
    scripts.mkdir(parents=True)
    (scripts / "hello").write_text('#!/bin/sh\n. "$(dirname "$0")/words"; echo "$word"')
    (scripts / "hello").chmod(0o700)
    (scripts / "words").write_text("word=hello")
    guard = guarded(domain(folder / "data", readable=scripts))
    attempt = RecordedAttempt(Script(script="hello"))
    assert await ScriptExecutor(Processes(guard), scripts).execute(attempt) == Succeeded()
    assert attempt.text() == "hello\n"
    assert not (await run(guard, f"echo evil > {scripts}/hello"))[0]
    scripts.rename(folder / "data" / "old")
    scripts.mkdir()
    (scripts / "new.sh").write_text("echo new")
    attempt = RecordedAttempt(Script(script="new.sh"))
    assert await ScriptExecutor(Processes(guard), scripts).execute(attempt) == Succeeded()


@NEEDS_LANDLOCK
async def test_the_data_folder_as_scripts_folder_is_not_opened(guarded: Guarded, folder: Path) -> None:
    (folder / "data").mkdir()
    (folder / "data" / "key").write_text("secret")
    for readable in (folder / "data", folder):
        guard = guarded(domain(folder / "data", readable=readable))
        assert not (await run(guard, f"cat {folder}/data/key"))[0]


@NEEDS_LANDLOCK
async def test_jobs_cannot_trace_each_other(guarded: Guarded) -> None:
    guard = guarded(domain(Path("/nowhere")))
    attempt = RecordedAttempt(Shell(command="echo $$; sleep 600", env={"SECRET": "x"}), token=18)
    sleeping = asyncio.create_task(ShellExecutor(Processes(guard)).execute(attempt))
    while not attempt.text():
        await asyncio.sleep(0.01)
    pid = attempt.text().strip()
    assert not (await run(guard, f"readlink /proc/{pid}/fd/1"))[0]
    assert not (await run(guard, f"ls /proc/{pid}/cwd/"))[0]
    attempt.cancel(force=True)
    await sleeping


def test_a_job_does_not_start_where_its_domain_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    monkeypatch.setattr(landlock, "_libc", None)
    confiner = Confiner(use_landlock=True)
    with pytest.raises(OSError, match="not implemented"):
        confiner.confine()
    confiner.close()


MOUNTS = """
import asyncio, os, subprocess, sys
from pathlib import Path
from timeball.executors.sandbox.confinement import Confinement
from timeball.executors.guard.guard import PASSED_ON, ProcessGuard

async def status(guard, command):
    null = [os.open(os.devnull, os.O_RDWR) for _ in range(3)]
    return await guard.spawn(["sh", "-c", command], env={"PATH": os.environ["PATH"]}, cwd="/", mark="A=b",
                             descriptors=null).exited

async def main(folder):
    for name in ("data", "alias", "later", "below"):
        (folder / name).mkdir()
    (folder / "data/key").write_text("secret")
    (folder / "data/deep").mkdir()
    (folder / "data/deep/key").write_text("secret")
    def mount(*words):
        subprocess.run(["mount", *words], check=True)
    mount("--bind", str(folder), str(folder / "alias"))
    mount("--bind", str(folder / "data/deep"), str(folder / "below"))
    guard = ProcessGuard(Confinement(landlock=True, protected=[str(folder / "data")]))
    found = [await status(guard, f"cat {folder}/{way}") != 0 for way in ("data/key", "alias/data/key", "below/key")]
    await asyncio.sleep(0.1)
    await status(guard, "true")
    mount("-t", "tmpfs", "none", str(folder / "later"))
    found.append(await status(guard, f"echo x > {folder}/later/file") == 0)
    found.append(await status(guard, f"mount -t tmpfs none {folder}/later") != 0)
    await guard.close()
    print(found)

asyncio.run(main(Path(sys.argv[1])))
"""


@NEEDS_LANDLOCK
@NEEDS_ROOT
@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare")
def test_other_mounts_of_a_protected_folder_are_protected_and_new_mounts_are_granted(folder: Path) -> None:
    try:
        subprocess.run(["unshare", "-m", "true"], check=True, capture_output=True)
    except subprocess.CalledProcessError:
        pytest.skip("may not make a mount namespace")
    program = [sys.executable, "-c", MOUNTS, str(folder)]
    done = subprocess.run(["unshare", "-m", *program], capture_output=True, text=True, timeout=50, check=False)
    assert done.stdout == "[True, True, True, True, True]\n", done


@NEEDS_ROOT  # nobody else can read it
async def test_the_guard_knows_nothing_of_the_workers_environment(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    guard = guarded(Confinement())
    assert (await run(guard, "true"))[0]
    assert guard.pid is not None
    assert set(psutil.Process(guard.pid).environ()) <= set(PASSED_ON)


def test_swap_files_are_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    swaps = folder / "swaps"
    swaps.write_text(
        "Filename\t\t\t\tType\t\tSize\tUsed\tPriority\n"
        "/dev/sda2                               partition\t8388604\t0\t-2\n"
        "/my\\040swap                              file\t\t1048572\t0\t-3\n"
    )
    monkeypatch.setattr(job_domain, "SWAPS", str(swaps))
    assert job_domain.swap_files() == ["/my swap"]
    monkeypatch.setattr(job_domain, "SWAPS", str(folder / "missing"))
    assert job_domain.swap_files() == []


async def test_jobs_may_gain_privileges_only_where_it_is_said(guarded: Guarded) -> None:
    is_inherited = "NoNewPrivs:\t1" in await asyncio.to_thread(Path("/proc/self/status").read_text)
    for no_new_privs in (True,) if is_inherited else (True, False):
        guard = guarded(Confinement(no_new_privs=no_new_privs))
        fine, said = await run(guard, "grep NoNewPrivs /proc/self/status")
        assert (fine, said.split()) == (True, ["NoNewPrivs:", str(int(no_new_privs))])


@NEEDS_LANDLOCK
async def test_what_a_process_has_open_and_what_is_nowhere_need_no_protection(guarded: Guarded) -> None:
    guard = guarded(domain(Path("/dev/stdin"), Path("/proc/self/fd/3"), Path("/no/where"), Path("/")))
    assert (await run(guard, "cat /proc/self/status; echo x > /dev/null; ls /dev/fd/"))[0]


# --- another user -------------------------------------------------------------------------------------------------


@NEEDS_ROOT
async def test_a_job_user_has_its_own_folder_descriptors_and_environment(guarded: Guarded, folder: Path) -> None:
    user = job_user.find(ORDINARY)
    guard = guarded(Confinement(user=user))
    fine, said = await run(
        guard,
        "id -u; id -G; echo $HOME $USER $LOGNAME; touch mine; ls -ln mine | cut -d' ' -f3;"
        " echo out > /dev/stdout; cat < /dev/stdin; grep NoNewPrivs /proc/self/status",
    )
    assert (fine, said.split()) == (
        True,
        [
            *(str(user.uid), *sorted(map(str, {user.gid, *user.groups})), user.home, user.name, user.name),
            *(str(user.uid), "out", "NoNewPrivs:", "1"),
        ],
    )
    (folder / "closed").mkdir(mode=0o700)
    assert not (await run(guard, f"ls {folder}/closed"))[0]
    refused = await ShellExecutor(Processes(guard)).execute(
        RecordedAttempt(Shell(command="true", cwd=str(folder / "closed")))
    )
    assert isinstance(refused, Failed)
    assert "permission denied for the job user nobody" in refused.failure.message


@NEEDS_ROOT
@pytest.mark.parametrize("in_domain", [False, pytest.param(True, marks=NEEDS_LANDLOCK)])
async def test_scripts_in_a_closed_data_folder_run_as_the_job_user(
    guarded: Guarded, folder: Path, in_domain: bool
) -> None:
    user = job_user.find(ORDINARY)
    scripts = folder / "data" / "scripts"
    scripts.mkdir(parents=True)
    (folder / "data").chmod(0o700)
    os.chown(scripts, 0, user.gid)
    scripts.chmod(0o750)
    (scripts / "words").write_text("word=hello")
    (scripts / "child.sh").write_text('#!/bin/sh\necho child of "$(id -un)"')
    (scripts / "parent.sh").write_text(
        '. "$(dirname "$0")/words"; echo "$word" "$1"; cat; (exec "$(dirname "$0")"/child.sh)'
    )
    (scripts / "direct").write_text("#!/bin/sh\necho direct")
    for name in ("words", "child.sh", "parent.sh", "direct"):
        (scripts / name).chmod(0o755)
    confinement = Confinement(landlock=in_domain, protected=[str(folder / "data")], readable=[str(scripts)], user=user)
    guard = guarded(confinement)
    executor = ScriptExecutor(Processes(guard), scripts)
    attempt = RecordedAttempt(Script(script="parent.sh", args=["world"]))
    assert await executor.execute(attempt) == Succeeded(), attempt.chunks
    assert attempt.text() == f"hello world\n{{}}child of {ORDINARY}\n"
    attempt = RecordedAttempt(Script(script="direct"))
    assert await executor.execute(attempt) == Succeeded(), attempt.chunks
    (scripts / "direct").chmod(0o700)
    refused = await executor.execute(RecordedAttempt(Script(script="direct")))
    assert isinstance(refused, Failed)
    assert "the job user nobody cannot read the script" in refused.failure.message
    assert "chmod g+r" in refused.failure.message


@NEEDS_ROOT
async def test_strays_of_a_job_user_die_with_their_job_and_not_before(guarded: Guarded, folder: Path) -> None:
    os.chmod(folder, 0o777)
    guard = guarded(Confinement(user=job_user.find(ORDINARY)))
    detach = f"(setsid sh -c 'echo $$ > {folder}/pid; exec sleep 600' &) ; sleep 0.1; exec sleep 600"
    attempt = RecordedAttempt(Shell(command=detach), token=18)
    running = asyncio.create_task(ShellExecutor(Processes(guard)).execute(attempt))
    while not (folder / "pid").exists() or not (folder / "pid").read_text().endswith("\n"):
        await asyncio.sleep(0.01)
    stray = psutil.Process(int((folder / "pid").read_text()))
    assert (await run(guard, "true"))[0]
    assert stray.is_running()
    attempt.cancel(force=True)
    await running
    while stray.is_running() and stray.status() != psutil.STATUS_ZOMBIE:
        await asyncio.sleep(0.01)
