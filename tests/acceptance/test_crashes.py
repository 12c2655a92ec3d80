"""I1, I2, I7, I8: kill -9 and SIGSTOP of every kind of process. The promises are checked with files that the jobs
write."""

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from tests.support.processes import (
    KEY,
    WAIT_SECONDS,
    Api,
    Process,
    data_dir,
    free_port,
    is_alive,
    running_server,
    running_up,
    start_worker,
    until,
)
from tests.support.thorough import THOROUGH

LEASE = 15.0
ASLEEP = 3 * LEASE if THOROUGH else LEASE
"""Seconds that a worker is stopped for, at least."""
WITNESS = 'echo "$TIMEBALL_RUN_ID $TIMEBALL_ATTEMPT $TIMEBALL_FENCING_TOKEN $$" >> {file}; '

pytestmark = pytest.mark.timeout(300)


def witness_job(file: Path, then: str, **more) -> dict:
    return {"task": {"kind": "shell", "command": WITNESS.format(file=file) + then}, **more}


def echo_job(text: str) -> dict:
    return {"task": {"kind": "python", "function": "large.echo"}, "parameters": {"text": text}}


def lines(file: Path) -> list[list[str]]:
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


def ledger_adds_up(api: Api, job_id: str) -> dict:
    ledger = api.call("GET", f"/v1/jobs/{job_id}/ledger")
    assert ledger["due"] == sum(ledger["counts"].values()), ledger
    return ledger


def test_kill_9_of_up_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    file, port = tmp_path / "witness", free_port()
    tasks = ("--tasks", "tests.acceptance.large_tasks")
    with running_up(tmp_path, port, *tasks) as (process, api):
        api.await_workers(1)
        api.create(witness_job(file, "sleep 3600", timeout="2h"))
        ticking = api.create(witness_job(tmp_path / "ticks", "true", schedule={"type": "interval", "expression": "1s"}))
        [_, _, first_token, pid] = until(lambda: lines(file), "the long job to start")[0]
        acknowledged = [
            item["jobId"]
            for _ in range(20)
            for item in api.call(
                "POST", "/v1/jobs:batch", json=[witness_job(tmp_path / "batch", "true")] * 10
            )["items"]
        ]  # fmt: skip
        large = {api.create(echo_job(text)): text for text in (f"{number}" * 50_000 for number in range(10, 30))}
        process.kill()
        until(lambda: not is_alive(int(pid)), "the job process to die with its worker")

    with running_up(tmp_path, port, *tasks) as (_, api):
        until(
            lambda: all(api.ended_run_of(job) for job in acknowledged),
            "everything acknowledged to end",
            2 * WAIT_SECONDS,
        )
        assert all(api.ended_run_of(job)["status"] == "succeeded" for job in acknowledged)
        attempts = until(lambda: len(lines(file)) == 2 and lines(file), "the interrupted job to run again")
        [run, attempt, token, _] = attempts[1]
        assert (run, attempt) == (attempts[0][0], "2")
        assert int(token) > int(first_token)
        api.call("POST", f"/v1/runs/{run}/cancel")
        for job_id in (ticking, *acknowledged[:20]):
            ledger_adds_up(api, job_id)
        assert ledger_adds_up(api, ticking)["due"] >= 3
        # Never twice but for interrupted attempts: a run that was recorded as one attempt wrote one line.
        started = [line[0] for line in lines(tmp_path / "batch")]
        for job_id in acknowledged:
            ended = api.ended_run_of(job_id)
            assert started.count(ended["runId"]) <= ended["attempt"]
        # What is large is kept in other files than the rest, and is as safe.
        for job_id, text in large.items():
            ended = until(lambda job_id=job_id: api.ended_run_of(job_id), "a large job to end")
            assert api.call("GET", f"/v1/runs/{ended['runId']}/result") == text


def test_kill_9_of_a_worker_gives_its_run_to_another(tmp_path: Path, postgres_dsn: str) -> None:
    tmp_path.chmod(0o755)
    file = tmp_path / "witness"
    with running_server(tmp_path, postgres_dsn) as (_, api), start_worker(tmp_path, api, name="first") as first:
        api.await_workers(1)
        job_id = api.create(witness_job(file, "sleep 3600"))
        [run, _, _, pid] = until(lambda: lines(file), "the job to start")[0]
        with start_worker(tmp_path, api, name="second"):
            api.await_workers(2)
            killed_at = time.monotonic()
            first.kill()
            until(lambda: not is_alive(int(pid)), "the job process to die with its worker")
            until(lambda: len(lines(file)) == 2, "another worker to run it")
            print(f"taken over {time.monotonic() - killed_at:.1f} s after the kill, with a lease of {LEASE:.0f} s")
            assert lines(file)[1][:2] == [run, "2"]
            shown = until(
                lambda: (found := api.call("GET", f"/v1/runs/{run}"))["executorId"] == "second" and found, "the run"
            )
            assert shown["status"] == "running"
            api.call("DELETE", f"/v1/jobs/{job_id}")


def test_a_worker_stopped_past_its_lease_has_killed_its_jobs_and_is_refused(tmp_path: Path, postgres_dsn: str) -> None:
    """The job ends while its worker cannot look; when the worker wakes, its word no longer counts."""
    tmp_path.chmod(0o755)
    file = tmp_path / "witness"
    with running_server(tmp_path, postgres_dsn) as (_, api), start_worker(tmp_path, api, name="sleeper") as sleeper:
        api.await_workers(1)
        job_id = api.create(witness_job(file, "sleep 3600"))
        [run, _, _, pid] = until(lambda: lines(file), "the job to start")[0]
        sleeper.signal(signal.SIGSTOP)
        stopped_at = time.monotonic()
        until(lambda: not is_alive(int(pid)), "the guard to kill the job at the lease's end")
        assert time.monotonic() - stopped_at < LEASE + 2, "before anybody else may have it"
        with start_worker(tmp_path, api, name="second"):
            until(lambda: len(lines(file)) == 2, "another worker to run it")
            time.sleep(max(0.0, stopped_at + ASLEEP - time.monotonic()))
            sleeper.signal(signal.SIGCONT)
            until(lambda: "session" in sleeper.output and "lost" in sleeper.output, "the sleeper to learn it")
            time.sleep(2)
            shown = api.call("GET", f"/v1/runs/{run}")
            assert (shown["status"], shown["attempt"], shown["executorId"]) == ("running", 2, "second")
            assert is_alive(int(lines(file)[1][3])), "the second attempt goes on undisturbed"
            api.call("DELETE", f"/v1/jobs/{job_id}")


def test_kill_9_of_a_server_costs_no_fire(tmp_path: Path, postgres_dsn: str) -> None:
    """Its worker goes on with the other server; what fell due meanwhile is caught up or late, never lost."""
    tmp_path.chmod(0o755)
    file = tmp_path / "witness"
    with (
        running_server(tmp_path, postgres_dsn) as (first, api),
        running_server(tmp_path, postgres_dsn) as (_, other),
        start_worker(tmp_path, api, other, name="alice"),
    ):
        other.await_workers(1)
        job_id = api.create(witness_job(file, "true", schedule={"type": "interval", "expression": "1s"}))
        until(lambda: len(lines(file)) >= 2, "some fires")
        first.kill()
        before = len(lines(file))
        until(lambda: len(lines(file)) >= before + 5, "fires through the other server")
        other.call("POST", f"/v1/jobs/{job_id}/pause", json={})
        until(lambda: "open" not in other.call("GET", f"/v1/jobs/{job_id}/ledger")["counts"], "all runs to end")
        ledger = ledger_adds_up(other, job_id)
        assert set(ledger["counts"]) <= {"on_time", "late", "caught_up"}
        assert len({line[0] for line in lines(file)}) == ledger["due"], "each fire is one run"


def test_a_second_up_on_the_same_folder_exits_and_says_so(tmp_path: Path) -> None:
    again = ["up", "--port", str(free_port()), "--data-dir", str(data_dir(tmp_path))]
    with running_up(tmp_path), Process(tmp_path, again) as second:
        assert second.popen.wait(WAIT_SECONDS) != 0
        assert str(data_dir(tmp_path)) in second.output
        assert "Traceback" not in second.output


def test_sigterm_stops_cleanly_and_hands_back_what_was_running(tmp_path: Path) -> None:
    file, port = tmp_path / "witness", free_port()
    tmp_path.chmod(0o755)
    with running_up(tmp_path, port, "--drain", "1s") as (process, api):
        api.await_workers(1)
        api.create(witness_job(file, "sleep 3600"))
        [_, _, _, pid] = until(lambda: lines(file), "the job to start")[0]
        assert process.stop() == 0, process.output
        assert not is_alive(int(pid))
        assert "Traceback" not in process.output
    with running_up(tmp_path, port) as (_, api):
        attempts = until(lambda: len(lines(file)) == 2 and lines(file), "it to run again, at once")
        assert attempts[1][:2] == [attempts[0][0], "1"], "a drain costs no attempt"
        api.call("POST", f"/v1/runs/{attempts[1][0]}/cancel")


def test_sigterm_ends_a_server_that_somebody_follows(tmp_path: Path) -> None:
    with running_up(tmp_path) as (process, api):
        api.await_workers(1)
        job_id = api.create({"task": {"kind": "shell", "command": "false"}, "retry": {"backoff": ["1h"]}})
        run = until(lambda: (found := api.run_of(job_id)) and found["status"] == "retrying" and found, "it to fail")
        with api.http.stream("GET", f"/v1/runs/{run['runId']}/logs?follow=1") as answer:
            assert answer.status_code == 200
            assert process.stop() == 0, process.output
            assert answer.read() == b"", "the stream came to its end"
        assert "Traceback" not in process.output


def test_the_second_signal_does_not_wait_for_answers(tmp_path: Path) -> None:
    with running_up(tmp_path) as (process, api), socket.socket() as stalled:
        stalled.connect(("127.0.0.1", api.http.base_url.port))
        head = f"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nContent-Length: 100\r\n\r\n"
        stalled.sendall(head.encode())
        time.sleep(0.5)
        process.signal(signal.SIGTERM)
        time.sleep(1.5)
        assert process.popen.poll() is None, "it gives the answer a chance"
        began = time.monotonic()
        process.signal(signal.SIGTERM)
        assert process.popen.wait(WAIT_SECONDS) == 0, process.output
        assert time.monotonic() - began < 3


def test_a_worker_alone_ends_with_its_lease_what_only_runs_in_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "witness"
    (tmp_path / "endless.py").write_text(
        "import os, time, timeball\n"
        "@timeball.task\n"
        "def endless():\n"
        f"    witness = os.open({str(file)!r}, os.O_CREAT | os.O_WRONLY | os.O_APPEND)\n"
        "    while True:\n"
        "        os.write(witness, f'{time.monotonic()}\\n'.encode())\n"
        "        time.sleep(0.05)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    store = f"sqlite:///{tmp_path}/store.db"
    with (
        running_server(tmp_path, store) as (server, api),
        start_worker(tmp_path, api, name="alone", tasks="endless") as worker,
    ):
        api.await_workers(1)
        api.create({"task": {"kind": "python", "function": "endless"}})
        until(file.exists, "the function to start")
        server.kill()
        killed_at = time.monotonic()
        assert worker.popen.wait(LEASE + 5) == os.EX_TEMPFAIL, worker.output
        *_, last = file.read_text().splitlines()
        assert float(last) < killed_at + LEASE
        assert worker.output.count("this worker exits and has to be restarted") == 1
        assert "Traceback" not in worker.output
