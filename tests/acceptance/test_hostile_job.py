"""I31: a job learns nothing of its worker's credentials. A hostile job looks for them wherever it can, then tries to
use them.

Under `up` and under `worker`; as root and as an ordinary user; in a Landlock domain, as another user, and with neither.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.ordinary_user import (
    IS_ROOT,
    NEEDS_LANDLOCK,
    NEEDS_ROOT,
    ORDINARY,
    give,
    module_path,
    open_python,
    shared_folder,
    user_group,
)
from tests.support.processes import Api, Process, data_dir, free_port, until, worker_key

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("hostile-job"),  # some of these jobs have the user of the others, and may trace processes
    pytest.mark.skipif(not os.path.exists("/proc/self/environ"), reason="needs Linux's /proc"),
]

HOSTILE = Path(__file__).with_name("hostile.py")
WAYS = [
    pytest.param(None, "domain", marks=NEEDS_LANDLOCK, id="own user in a domain"),
    pytest.param(ORDINARY, "domain", marks=[NEEDS_LANDLOCK, NEEDS_ROOT], id="ordinary user in a domain"),
    pytest.param(None, "user", marks=NEEDS_ROOT, id="root with a job user"),
    pytest.param(ORDINARY if IS_ROOT else None, "neither", id="ordinary user with neither"),
]
"""The worker's user (None: that of the tests), and what protects its keys."""


class Place:
    """Keys, a data folder and a program: what one case needs."""

    def __init__(self, folder: Path, user: str | None) -> None:
        self.above = folder
        self.folder = folder / "jobs"
        self.folder.mkdir()
        self.folder.chmod(0o777)
        self.user = user
        self.data = data_dir(self.folder)
        self.admin_key = f"admin-{secrets.token_hex(24)}"
        self.cloud_key = f"cloud-{secrets.token_hex(24)}"
        self.password = f"password-{secrets.token_hex(24)}"
        for private in (self.data.parent, self.data, self.data.parent / "home"):
            private.mkdir(mode=0o700)
            give(private, user)

    def start(self, arguments: list[str], protection: str, **more: str) -> Process:
        as_user: dict[str, Any] = {}
        if self.user is not None:
            as_user = {"user": self.user, "group": user_group(self.user), "extra_groups": []}
        environment = {
            "PYTHONPATH": module_path(),
            "TIMEBALL_ADMIN_KEY": self.admin_key,
            "AWS_SECRET_ACCESS_KEY": self.cloud_key,
            "TIMEBALL_JOB_LANDLOCK": "on" if protection == "domain" else "off",
            **({"TIMEBALL_JOB_USER": ORDINARY} if protection == "user" else {}),
            **more,
        }
        python = open_python()
        return Process(self.folder, arguments, environment, python=python, **as_user)

    def hunt(self, api: Api, protection: str, *, keys: list[str], files: list[Path], pids: list[int]) -> dict[str, Any]:
        """Run the hostile job, and return what it prints."""
        secret = secrets.token_hex(16)
        task = {"kind": "shell", "command": "true", "env": {"SECRET": secret}}
        victim = api.create({"task": task, "runsOn": ["elsewhere"]})
        run = api.call("GET", f"/v1/jobs/{victim}/runs")["items"][0]
        case = {
            "url": api.url,
            "keys": [key[::-1] for key in keys],
            "files": [] if protection == "neither" else [str(path) for path in files],
            "pids": pids,
            "victim": {"job": victim, "run": run["runId"]},
        }
        (self.folder / "case.json").write_text(json.dumps(case))
        (self.folder / "hostile.py").write_bytes(HOSTILE.read_bytes())
        command = [open_python(), str(self.folder / "hostile.py"), str(self.folder / "case.json")]
        job = api.create({"task": {"kind": "shell", "command": command}, "timeout": "2m"})
        ended = until(lambda: api.ended_run_of(job), "the hostile job to end", 150)  # also after two retries
        log = api.call("GET", f"/v1/runs/{ended['runId']}/logs")
        assert ended["status"] == "succeeded", log
        assert secret not in log
        assert api.call("GET", f"/v1/jobs/{victim}/runs")["items"][0]["status"] == run["status"]
        found: dict[str, Any] = json.loads(log.split("HUNT ", 1)[1].splitlines()[0])
        return found


@contextlib.contextmanager
def place(user: str | None) -> Iterator[Place]:
    with shared_folder("/var/tmp") as folder:
        yield Place(folder, user)


def warnings(process: Process) -> int:
    return process.output.count("jobs can read")


def found_nothing(hunt: dict[str, Any]) -> None:
    assert hunt["found"] == []
    assert {step: set(answers) for step, answers in hunt["chain"].items()} == {
        step: {401} for step in ("hello", "poll", "read", "forge")
    }


@pytest.mark.parametrize(("user", "protection"), WAYS)
def test_a_job_under_up_finds_no_key_and_can_forge_nothing(user: str | None, protection: str) -> None:
    port = free_port()
    with place(user) as where:
        arguments = ["up", "--port", str(port), "--data-dir", str(where.data), "--archive=local"]
        with where.start(arguments, protection) as up, Api(f"http://127.0.0.1:{port}", where.admin_key) as api:
            api.await_ready(up)
            api.await_workers(1)
            keys = [where.admin_key, where.cloud_key]
            (where.data / "admin.key").write_text(where.admin_key)
            give(where.data / "admin.key", user)
            hunt = where.hunt(api, protection, keys=keys, files=[where.data], pids=[up.pid])
            assert warnings(up) == (protection == "neither")
            script = where.data / "scripts" / "hello.sh"
            script.write_text("echo hello from $0")
            script.chmod(0o644)
            give(script, user)
            status, log = end(api, {"kind": "script", "script": "hello.sh"})
            assert (status, "hello from" in log) == ("succeeded", True), log
    found_nothing(hunt)


@pytest.mark.parametrize(("user", "protection"), WAYS)
def test_a_job_under_a_worker_finds_no_key_and_can_forge_nothing(user: str | None, protection: str) -> None:
    port = free_port()
    with place(user) as where:
        url = f"http://127.0.0.1:{port}"
        serve = ["server", "--port", str(port), "--data-dir", str(where.data)]
        with where.start(serve, protection) as server, Api(url, where.admin_key) as api:
            api.await_ready(server)
            token = worker_key(api)
            settings = where.folder / "settings"
            settings.mkdir()
            file = settings / "timeball.toml"
            file.write_text(f'token = "{token}"\n')
            file.chmod(0o600)
            give(file, user)
            work = ["worker", "--server", url, f"--token={token}", "--slots", "2"]
            dsn = f"postgresql://timeball:{where.password}@nowhere/timeball"
            with where.start(work, protection, TIMEBALL_STORE=dsn, TIMEBALL_CONFIG=str(file)) as worker:
                api.await_workers(1)
                keys = [where.admin_key, where.cloud_key, where.password, token]
                pids = [server.pid, worker.pid]
                hunt = where.hunt(api, protection, keys=keys, files=[where.data, file], pids=pids)
                assert (warnings(server), warnings(worker)) == (0, protection == "neither")
    found_nothing(hunt)


ORDINARY_WORK = """
set -e
mkdir one two; echo text > one/file; mv one/file two/file; rmdir one; grep -q text two/file
mv two/file "$JOBS/file"; mkdir "$JOBS/folder"; mv "$JOBS/file" "$JOBS/folder/file"; mv "$JOBS/folder/file" two/again
ln two/again two/hard; ln -s again two/soft; mkfifo two/fifo; : > two/hard; rm two/fifo
printf '#!/bin/sh\necho "child $1"\n' > "$JOBS/child"; chmod +x "$JOBS/child"; "$JOBS/child" runs & wait
echo more >> "$LATER/file"; mkdir -p "$LATER/deeper/still"; mv "$LATER/deeper" two/
echo written > "$EXISTING"
echo x > /dev/null; echo x > /dev/shm/$TIMEBALL_RUN_ID; rm /dev/shm/$TIMEBALL_RUN_ID
temporary=$(mktemp /tmp/timeball-test-XXXXXX); echo x > "$temporary"; rm "$temporary"
echo out > /dev/stdout; echo err > /dev/stderr
ls / /dev /proc > /dev/null; cat /proc/self/status /proc/self/environ > /dev/null
"$PYTHON" -c 'import subprocess; subprocess.run(["true"], check=True); open("by-python", "w").write("x")'
if [ -n "$GIT" ]; then
    git init -q repository; cd repository; git -c user.name=a -c user.email=a@b.c commit -q --allow-empty -m first
    git log --oneline; cd ..
fi
if [ -n "$SSH" ]; then
    printf 'Host target\n  HostName 127.0.0.1\n  Port %s\n' "$SSH" > config
    ssh -V
    ssh -F config -o BatchMode=yes -o UserKnownHostsFile=/dev/null target true || test $? = 255
fi
echo all of it works
"""


@NEEDS_LANDLOCK
@pytest.mark.parametrize("user", [None, pytest.param(ORDINARY, marks=NEEDS_ROOT)])
def test_ordinary_jobs_work_in_a_domain(user: str | None) -> None:
    port = free_port()
    arguments = ["up", "--port", str(port)]
    with place(user) as where, socket.create_server(("127.0.0.1", 0)) as sshd:
        arguments += ["--data-dir", str(where.data)]
        existing = where.above / "existing"
        existing.touch()
        give(existing, user)
        with where.start(arguments, "domain") as up, Api(f"http://127.0.0.1:{port}", where.admin_key) as api:
            api.await_ready(up)
            end(api, shell("true"))
            later = where.above / "later"
            later.mkdir()
            give(later, user)
            env = {
                "JOBS": str(where.folder),
                "LATER": str(later),
                "EXISTING": str(existing),
                "PYTHON": open_python(),
                "GIT": shutil.which("git") or "",
                "SSH": str(sshd.getsockname()[1]) if shutil.which("ssh") else "",
                "HOME": str(where.folder),
            }
            banners: list[bytes] = []
            answering = threading.Thread(target=answer_once, args=(sshd, banners), daemon=True)
            answering.start()
            status, log = end(api, shell(ORDINARY_WORK, env))
            assert (status, "all of it works" in log) == ("succeeded", True), log
            assert existing.read_text() == "written\n"
            if env["SSH"]:
                answering.join(20)
                assert banners[0].startswith(b"SSH-2.0-")
            assert f" {where.above}" in next(line for line in up.output.splitlines() if "rename entries" in line)
            status, log = end(api, shell(f"echo x > {where.above}/new"))
            assert (status, "directly in one of the folders" in log, str(where.above) in log) == ("dead", True, True), (
                log
            )
            assert not (where.above / "new").exists()


def answer_once(sshd: socket.socket, banners: list[bytes]) -> None:
    with contextlib.suppress(OSError):
        connection, _ = sshd.accept()
        with connection:
            banners.append(connection.recv(100))


def shell(command: str, env: dict[str, str] | None = None) -> dict[str, Any]:
    return {"kind": "shell", "command": command, "env": env or {}}


def end(api: Api, task: dict[str, Any]) -> tuple[str, str]:
    """Run a task; its status and its log."""
    job = api.create({"task": task, "maxRetries": 0})
    ended = until(lambda: api.ended_run_of(job), "the job to end")
    return ended["status"], api.call("GET", f"/v1/runs/{ended['runId']}/logs")
