"""Files that a server keeps can be read by its own user alone (I31), whatever its umask is."""

import stat
from pathlib import Path

from tests.support.processes import Api, Process, data_dir, free_port, running_up, until

SHELL = {"task": {"kind": "shell", "command": "echo done"}}


def open_to_others(folder: Path) -> list[str]:
    return [
        f"{stat.filemode(path.lstat().st_mode)} {path.relative_to(folder)}"
        for path in sorted(folder.rglob("*"))
        if path.lstat().st_mode & 0o077 and not path.is_socket()
    ]


def test_nobody_else_can_read_what_a_server_keeps(tmp_path: Path) -> None:
    with running_up(tmp_path) as (process, api):
        job = api.create({**SHELL, "parameters": {"large": "x" * 100_000}})
        until(lambda: api.ended_run_of(job), "the job to end")
        assert {path.name for path in data_dir(tmp_path).iterdir()} >= {"timeball.db", "timeball.db-wal", "objects"}
        assert open_to_others(data_dir(tmp_path)) == []
        assert stat.S_IMODE(data_dir(tmp_path).stat().st_mode) == 0o700
        assert "can be read by" not in process.output


def test_files_of_an_earlier_version_are_closed_and_an_open_folder_is_warned_about(tmp_path: Path) -> None:
    data = data_dir(tmp_path)
    with running_up(tmp_path) as (process, _):
        process.kill()  # so that the WAL stays
    for path in (data, *data.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    (data / "notes.txt").write_text("not Timeball's")
    (data / "notes.txt").chmod(0o644)
    port = free_port()
    with Process(tmp_path, ["server", "--port", str(port), "--data-dir", str(data)]) as process:
        with Api(f"http://127.0.0.1:{port}") as api:
            api.await_ready(process)
        assert [line for line in open_to_others(data) if "scripts" not in line] == ["-rw-r--r-- notes.txt"]
        assert process.output.count(f"chmod 700 {data}") == 1
    assert stat.S_IMODE(data.stat().st_mode) == 0o755, "whose folder it is, decides"
