"""I1: a server refuses to start if its log has lost acknowledged jobs. With real files and kill -9."""

import shutil
from pathlib import Path

from tests.support.processes import Process, data_dir, free_port, running_up

LATER = {
    "task": {"kind": "shell", "command": "true"},
    "schedule": {"type": "date", "expression": "2099-01-01T00:00:00Z"},
}
FRAME = 24 + 4096


def test_a_server_refuses_to_start_on_a_log_that_lost_acknowledged_jobs(tmp_path: Path) -> None:
    """SQLite stops reading its log at the first frame that is damaged, without a word."""
    with running_up(tmp_path) as (process, api):
        accepted = {api.create(LATER) for _ in range(20)}
        process.kill()
    data = data_dir(tmp_path)
    kept = tmp_path / "as-it-was"
    shutil.copytree(data, kept)
    log = data / "timeball.db-wal"
    content = bytearray(log.read_bytes())
    content[32 + (len(content) // FRAME // 2) * FRAME + 1_000] ^= 1
    log.write_bytes(content)
    arguments = ["up", "--port", str(free_port()), "--data-dir", str(data)]
    with Process(tmp_path, arguments) as refused:
        assert refused.popen.wait(60) == 6
        assert str(log) in refused.output
        assert "--accept-damaged-log" in refused.output
    with running_up(tmp_path, None, "--accept-damaged-log") as (_, api):
        left = {job["jobId"] for job in api.call("GET", "/v1/jobs?limit=100")["items"]}
        assert left < accepted
    [copied] = data.glob("timeball.db.damaged-*")
    assert (copied / "timeball.db-wal").read_bytes() == content
    shutil.rmtree(data)
    shutil.copytree(kept, data)
    with running_up(tmp_path) as (_, api):
        assert {job["jobId"] for job in api.call("GET", "/v1/jobs?limit=100")["items"]} == accepted
