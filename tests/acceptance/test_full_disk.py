"""A full disk: the server refuses requests before it accepts them, says so, and recovers by itself (I1, I25, I29)."""

import resource
from pathlib import Path

from tests.support.processes import running_up, until

JOB = {"task": {"kind": "shell", "command": "true"}, "schedule": {"type": "immediate"}}
LATER = {
    "task": {"kind": "shell", "command": "true"},
    "schedule": {"type": "date", "expression": "2099-01-01T00:00:00Z"},
}


def test_a_server_without_disk_space_is_not_ready_and_recovers_by_itself(tmp_path: Path) -> None:
    """Every write of the process fails, those of its log too, as on a full disk: the limit of the size of files is 1
    byte. Reads succeed all the time, which is why a ping is no proof."""
    with running_up(tmp_path) as (process, api):
        accepted = [api.create(LATER) for _ in range(5)]
        usual = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1, usual[1]))
        refused = until(lambda: _refusal(api.http.get("/readyz")), "the server to notice")
        assert refused["checks"]["writes"] is False
        assert refused["checks"]["store"] is True
        assert "SQLITE_" in refused["detail"]
        answer = api.http.post("/v1/jobs", json=JOB)
        assert answer.status_code == 503, answer.text
        assert api.http.get("/livez").status_code == 200
        assert len(api.call("GET", "/v1/jobs?limit=100")["items"]) == len(accepted)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, usual)
        until(api.is_ready, "the server to recover")
        accepted.append(api.create(JOB))
        run = until(lambda: api.ended_run_of(accepted[-1]), "the run of a job that was accepted after it")
        assert run["status"] == "succeeded"
        assert run["attempt"] == 1
        assert {job["jobId"] for job in api.call("GET", "/v1/jobs?limit=100")["items"]} == set(accepted)


def _refusal(answer: object) -> dict[str, object] | None:
    return answer.json() if answer.status_code == 503 else None  # type: ignore[attr-defined]
