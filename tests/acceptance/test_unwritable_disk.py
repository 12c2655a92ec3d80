"""A disk that accepts no writes for some time: nothing is lost and no attempt is spent (I1, I25, I29, I30).

`RLIMIT_FSIZE` of 0 makes every write to a file fail, of the database, the objects and the log alike, in a process that
runs, and can be lifted again: a file system cannot be mounted read-only while a process writes to it.
"""

import resource
import time
from pathlib import Path

import psutil
import pytest

from tests.support.processes import Api, Process, running_up, until
from tests.support.thorough import THOROUGH

SECONDS_WITHOUT_WRITES = 40.0 if THOROUGH else 2.0
"""With TIMEBALL_THOROUGH, more than a lease."""
REFUSED_REQUESTS = 20


def let_write(process: Process, allowed: bool) -> None:
    limit = resource.RLIM_INFINITY if allowed else 0
    psutil.Process(process.pid).rlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))


def shell(command: str) -> dict[str, object]:
    return {"task": {"kind": "shell", "command": command}, "retry": {"maxRetries": 0}}


def refused(api: Api, job: dict[str, object]) -> None:
    answer = api.http.post("/v1/jobs", json=job)
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable"), answer.text
    assert int(answer.headers["retry-after"]) >= 1


@pytest.mark.timeout(300)
def test_nothing_is_lost_and_no_attempt_is_spent_while_the_disk_takes_no_writes(tmp_path: Path) -> None:
    gate, end, witness = tmp_path / "gate", tmp_path / "end", tmp_path / "witness"
    waiting = f"echo begun >> {witness}; while [ ! -e {gate} ]; do sleep 0.05; done; echo ended >> {witness}"
    job, quick = shell(waiting), shell("true")
    with running_up(tmp_path) as (process, api):
        ticking = api.create({**quick, "schedule": {"type": "interval", "expression": "1s"}, "catchUp": "none"})
        lasting = api.create(shell(f"while [ ! -e {end} ]; do sleep 0.05; done"))
        running = api.create(job)
        until(lambda: witness.exists() or None, "the job to begin")
        let_write(process, False)
        for _ in range(REFUSED_REQUESTS):
            refused(api, quick)
        gate.touch()
        until(lambda: "ended" in witness.read_text() or None, "the job to end")
        back_at = time.monotonic() + SECONDS_WITHOUT_WRITES
        while time.monotonic() < back_at:
            refused(api, quick)
            time.sleep(0.2)
        assert api.call("GET", f"/v1/jobs/{running}")["jobId"] == running, "reads are answered"
        let_write(process, True)
        run = until(lambda: api.ended_run_of(running), "the end that could not be written")
        assert (run["status"], run["attempt"]) == ("succeeded", 1)
        end.touch()
        run = until(lambda: api.ended_run_of(lasting), "the job that ran all the time")
        assert (run["status"], run["attempt"]) == ("succeeded", 1)
        assert witness.read_text() == "begun\nended\n", "it was executed once"
        later = until(lambda: accepted(api, quick), "a job to be accepted")
        assert until(lambda: api.ended_run_of(later), "a run after the disk was back")["status"] == "succeeded"
        assert {each["jobId"] for each in api.call("GET", "/v1/jobs")["items"]} == {ticking, lasting, running, later}
        before = newest(api, ticking)
        until(lambda: newest(api, ticking) > before or None, "the schedule to go on")


def newest(api: Api, job_id: str) -> str:
    run = api.ended_run_of(job_id)
    return "" if run is None else str(run["fireTime"])


def accepted(api: Api, job: dict[str, object]) -> str | None:
    answer = api.http.post("/v1/jobs", json=job)
    return str(answer.json()["jobId"]) if answer.status_code == 201 else None
