"""`timeball doctor` finds planted problems, and names what to do about each."""

import json
import os
import sqlite3
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import timeball
from tests.support.migrated import sqlite_store
from tests.support.ordinary_user import NEEDS_ROOT
from tests.support.postgres import PostgresServer, run_apart
from tests.support.processes import KEY, Api, Process, free_port, running_server, start_worker, until, worker_key
from timeball import system
from timeball.cli.root import timeball as command
from timeball.domain.instant import DAY
from timeball.domain.schedule import zone
from timeball.stores.postgres.store import PostgresStore
from timeball.stores.sql.migrate import known

Findings = dict[str, dict[str, str]]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder without a problem."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    sqlite_store(folder / "timeball.db")
    (folder / "timeball.db").chmod(0o600)
    return folder


def examine(*arguments: object) -> Findings:
    """The findings that are not fine, by check."""
    done = CliRunner().invoke(command, ["doctor", "-o", "json", *map(str, arguments)], prog_name="timeball")
    return findings(done.stdout, done.exit_code)


def findings(printed: str, code: int) -> Findings:
    told = json.loads(printed)
    assert code == (1 if told["problems"] else 0)
    found = [each for each in told["findings"] if each["status"] in ("problem", "warning")]
    assert all(each["remedy"] for each in found)
    return {each["check"]: each for each in found}


def here(data: Path, *more: object) -> Findings:
    """The findings about this machine and its store, without those about servers."""
    found = examine("--data-dir", data, "--url", f"http://127.0.0.1:{free_port()}", "--port", free_port(), *more)
    assert found.pop("server")["message"].endswith("does not answer: Connection refused")
    return found


def execute(data: Path, *statements: str) -> None:
    connection = sqlite3.connect(data / "timeball.db", isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


# --- this machine ---------------------------------------------------------------------------------------------------


def test_a_sound_folder_has_no_findings(data: Path) -> None:
    assert here(data) == {}


def test_an_unreachable_server(data: Path) -> None:
    found = examine("--data-dir", data, "--url", f"http://127.0.0.1:{free_port()}", "--port", free_port())
    assert "start it (timeball up" in found["server"]["remedy"]


def test_a_data_folder_that_others_can_open(data: Path) -> None:
    data.chmod(0o755)
    assert here(data)["data-folder-mode"]["remedy"] == f"chmod 700 {data}"


def test_a_key_that_others_can_read(data: Path) -> None:
    (data / "admin.key").write_text("key")
    (data / "admin.key").chmod(0o644)
    assert here(data)["key-file-mode"]["remedy"].startswith(f"chmod 600 {data}/admin.key")
    (data / "admin.key").chmod(0o600)
    token = data.parent / "worker.key"
    token.write_text("key")
    token.chmod(0o644)
    assert f"chmod 600 {token}" in here(data, "--token-file", token)["key-file-mode"]["remedy"]


@NEEDS_ROOT
def test_a_file_of_another_user(data: Path) -> None:
    os.chown(data / "timeball.db", 65_534, 65_534)
    found = here(data)["file-owner"]
    assert found["remedy"] == f"chown -R root {data}"
    assert "timeball.db" in found["message"]


def mounted(data: Path, script: str) -> Findings:
    """The findings in a mount namespace, after a script that changes the mounts."""
    doctor = f"{sys.executable} -m timeball doctor -o json --data-dir {data} --url http://127.0.0.1:{free_port()}"
    done = subprocess.run(["unshare", "-m", "sh", "-c", f"({script}) >/dev/null 2>&1 || exit 99; {doctor}"],
        capture_output=True, text=True, timeout=60)  # fmt: skip
    if done.returncode == 99 or "unshare failed" in done.stderr:
        pytest.skip("this machine allows no mounts")
    return findings(done.stdout, done.returncode)


@NEEDS_ROOT
def test_a_data_folder_that_this_user_cannot_open(data: Path) -> None:
    os.chown(data, 65_534, 65_534)
    arguments = ["doctor", "-o", "json", "--data-dir", str(data), "--url", f"http://127.0.0.1:{free_port()}"]
    powerless = ["setpriv", "--inh-caps=-all", "--bounding-set=-all", sys.executable, "-m", "timeball"]
    done = subprocess.run([*powerless, *arguments], capture_output=True, text=True, timeout=60)
    if "setpriv" in done.stderr:
        pytest.skip("this machine has no setpriv that drops capabilities")
    found = findings(done.stdout, done.returncode)
    assert "run Timeball as nobody" in found["data-folder"]["remedy"]
    assert "as the user of the server" in found["store"]["remedy"]
    for command_of_owner in (["schema", "status"], ["backup", str(data.parent / "b.zip")]):
        done = subprocess.run(
            [*powerless, *command_of_owner, "--data-dir", str(data)], capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, "run this command as the user of the server" in done.stderr) == (3, True), done.stderr


@NEEDS_ROOT
def test_a_data_folder_that_cannot_be_written(data: Path) -> None:
    found = mounted(data, f"mount --bind {data} {data} && mount -o remount,ro,bind {data}")
    assert "mounted read-only has to be mounted read-write" in found["data-folder"]["remedy"]


@NEEDS_ROOT
def test_a_disk_that_is_almost_full(data: Path) -> None:
    found = mounted(data, f"mount -t tmpfs -o size=1m,mode=700 tmpfs {data} && head -c 1020000 /dev/zero > {data}/x")
    assert "enlarge the disk" in found["disk"]["remedy"]


def test_a_port_that_another_program_uses(data: Path) -> None:
    with stub({}) as url:
        found = examine("--data-dir", data, "--url", url, "--port", url.rpartition(":")[2])
    assert "start the server with another --port" in found["port"]["remedy"]
    assert "is not a Timeball server" in found["server"]["message"]


def test_a_limit_of_open_files_that_is_too_low(data: Path) -> None:
    script = (
        f"ulimit -n 256; exec {sys.executable} -m timeball doctor -o json --data-dir {data} --url http://127.0.0.1:1"
    )
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=60)
    assert "LimitNOFILE=" in findings(done.stdout, done.returncode)["descriptors"]["remedy"]


def test_a_folder_with_scripts_that_is_missing(data: Path) -> None:
    assert f"mkdir -p {data}/gone" in here(data, "--scripts-dir", data / "gone")["scripts"]["remedy"]


# --- the store ------------------------------------------------------------------------------------------------------


def test_a_schema_that_is_newer(data: Path) -> None:
    execute(
        data,
        "INSERT INTO migrations VALUES (9999, 'x', 1)",
        "UPDATE meta SET value = 9999 WHERE name = 'oldest_schema'",
    )
    assert here(data)["schema"]["remedy"].startswith("upgrade Timeball on this machine")


def test_a_schema_that_is_older(data: Path) -> None:
    execute(data, f"DELETE FROM migrations WHERE version = {known()[-1].version}")
    assert "timeball schema upgrade" in here(data)["schema"]["remedy"]


def test_a_database_that_is_damaged(data: Path) -> None:
    content = bytearray((data / "timeball.db").read_bytes())
    content[4096:12288] = bytes(8192)
    (data / "timeball.db").write_bytes(content)
    assert "restore a backup" in here(data)["store"]["remedy"]


def test_a_store_that_was_moved(data: Path) -> None:
    execute(data, "CREATE TABLE moved (move, target, at, arrived)", "INSERT INTO moved VALUES ('m', 'there', 0, 1)")
    assert here(data)["store"]["remedy"] == "start with --store there"


def test_a_clock_that_is_far_behind_the_store(data: Path) -> None:
    execute(data, f"INSERT OR REPLACE INTO meta VALUES ('clock', {system.wall() + DAY})")
    assert "--accept-clock" in here(data)["store-clock"]["remedy"]


def test_a_store_that_does_not_exist(data: Path) -> None:
    assert "correct --store" in here(data, "--store", "sqlite:////nowhere/timeball.db")["store"]["remedy"]


def test_postgresql_that_does_not_answer(data: Path) -> None:
    found = here(data, "--store", f"postgresql://timeball@127.0.0.1:{free_port()}/timeball")
    assert "correct the host and port of --store" in found["store"]["remedy"]


def test_postgresql_that_refuses_the_password_or_the_database(data: Path, private_postgres: PostgresServer) -> None:
    dsn = private_postgres.create_database()
    private_postgres.execute("CREATE ROLE locked LOGIN PASSWORD 'right'")
    rules = private_postgres.data / "pg_hba.conf"
    rules.write_text(f"local all locked scram-sha-256\n{rules.read_text()}")
    private_postgres.execute("SELECT pg_reload_conf()")
    wrong = dsn.replace("timeball@", "locked:wrong-password@", 1)

    def refusal() -> dict[str, str] | None:
        found = here(data, "--store", wrong).get("store")
        return found if found and "password" in found["message"] else None

    found = until(refusal, "the rule to be read")
    assert found["remedy"].startswith("correct the user and the password")
    assert "wrong-password" not in str(found)
    other = private_postgres.dsn("no_such_database")
    assert here(data, "--store", other)["store"]["remedy"].startswith("create the database")
    empty = here(data, "--store", dsn)
    assert set(empty) == {"schema"}, "the database is empty"

    async def migrated() -> None:
        store = PostgresStore(dsn, monotonic=system.monotonic)
        await store.open()
        await store.close()

    run_apart(migrated())
    assert here(data, "--store", dsn) == {}


def test_objects_that_cannot_be_stored(data: Path) -> None:
    place = f"s3://bucket/x?endpoint=http://127.0.0.1:{free_port()}&region=eu&access_key_id=a&secret_access_key=hidden"
    found = here(data, "--objects", place)["objects"]
    assert "credentials in the environment" in found["remedy"]
    assert "hidden" not in str(found)
    (data.parent / "file").touch()
    assert "mount it if it is a shared folder" in here(data, "--objects", data.parent / "file")["objects"]["remedy"]


# --- a real server --------------------------------------------------------------------------------------------------


def test_a_server_without_workers_and_with_work_that_none_can_do(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/timeball.db"
    with running_server(tmp_path, store) as (_, api):

        def look(key: str = KEY) -> Findings:
            return examine("--url", api.url, "--token", key, "--data-dir", tmp_path / "none")

        assert set(look()) == {"workers"}
        assert "timeball worker --server" in look()["workers"]["remedy"]
        assert "timeball keys create" in look("an-unknown-key-an-unknown-key-an-unknown")["key"]["remedy"]
        with start_worker(tmp_path, api, name="w1") as worker:
            api.await_workers(1)
            assert look() == {}
            wrong = look(worker_key(api))
            assert wrong["key"]["remedy"].startswith("use a key with the role viewer")
            api.create({"task": {"kind": "shell", "command": "true"}, "runsOn": ["gpu"]})
            found = until(lambda: look().get("work"), "the run to be due")
            assert "no worker" in found["message"].lower() or "gpu" in found["message"]
            assert "start a worker that meets the requirements" in found["remedy"]
            _drain_while_it_works(api, worker)
            assert "start workers anew" in until(lambda: look().get("workers"), "the order")["remedy"]


def _drain_while_it_works(api: Api, worker: Process) -> None:
    job = api.create({"task": {"kind": "shell", "command": "sleep 60"}})
    until(lambda: (run := api.run_of(job)) and run["status"] == "running", "the run to start")
    (found,) = api.call("GET", "/v1/workers")["items"]
    api.call("POST", f"/v1/workers/{found['workerId']}/drain", expect=(200, 202))


# --- servers with planted answers -----------------------------------------------------------------------------------

WORKER = {"workerId": "w_1", "name": "w1", "status": "live", "slots": 1, "version": timeball.__version__}
SOUND: dict[str, Any] = {
    "/livez": {"status": "alive", "version": timeball.__version__},
    "/readyz": {"status": "ready", "checks": {}},
    "/v1/me": {
        "keyId": "k_1", "name": "admin", "role": "system", "permissions": ["read", "system"],
        "server": {"version": timeball.__version__, "store": "sqlite", "tzdata": zone.version()},
    },
    "/v1/workers": {"items": [WORKER]},
    "/v1/stats": {"window": "1h", "from": "2026-01-01T00:00:00Z", "to": "2026-01-01T01:00:00Z"},
    "/v1/clock": {"storeTime": "2026-01-01T00:00:00Z"},
}  # fmt: skip


class stub:
    """A server with these answers, whose clock is off by some time."""

    def __init__(
        self, answers: dict[str, Any], off: timedelta = timedelta(), status: dict[str, int] | None = None
    ) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                body = json.dumps(answers.get(path, {})).encode()
                self.send_response((status or {}).get(path, 200))
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def date_time_string(self, timestamp: float | None = None) -> str:
                return format_datetime(datetime.now(UTC) + off, usegmt=True)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> str:
        self._thread.start()
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def stubbed(changes: dict[str, Any], **more: Any) -> Findings:
    with stub({**SOUND, **changes}, **more) as url:
        return examine("--url", url, "--token", "key", "--data-dir", "/nowhere/none")


@pytest.mark.parametrize(
    ("changes", "more", "check", "remedy"),
    [
        ({"/livez": {"status": "alive", "version": "0.0.9"}}, {}, "version", "install the same version everywhere"),
        ({}, {"off": timedelta(minutes=5)}, "clock", "NTP"),
        ({}, {"off": timedelta(minutes=-5)}, "clock", "NTP"),
        (
            {"/readyz": {"detail": "not ready: planner (no success for 20 s)"}},
            {"status": {"/readyz": 503}},
            "loops",
            "read the log of that server",
        ),
        ({"/readyz": {"degraded": {"maintenance": "OSError"}}}, {}, "loops", "read the log"),
        ({"/v1/workers": {"items": [{**WORKER, "version": "0.0.9"}]}}, {}, "worker-version", "upgrade them"),
        (
            {"/v1/me": {**SOUND["/v1/me"], "server": {"tzdata": "2019a", "version": timeball.__version__}}},
            {},
            "tzdata",
            "pip install --upgrade tzdata",
        ),
        (
            {"/v1/clock": {**SOUND["/v1/clock"], "planningHeldSince": "2026-01-01T00:00:00Z", "why": "it stepped"}},
            {},
            "planning",
            "timeball clock accept",
        ),
    ],
)
def test_a_server_with_a_problem(
    changes: dict[str, Any], more: dict[str, Any], check: str, remedy: str, data: Path
) -> None:
    found = stubbed(changes, **more)
    assert set(found) == {check}
    assert remedy in found[check]["remedy"]


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/v1/me", "/v1/workers", "/v1/stats", "/v1/clock"])
@pytest.mark.parametrize("answer", [[], {"status": 1, "version": ["alive"], "detail": {}, "items": 1}, "alive", None])
def test_an_answer_that_no_server_gives(path: str, answer: Any, data: Path) -> None:
    found = stubbed({path: answer})
    assert set(found) == {"server"}, found


def test_a_server_that_refuses_all_but_its_state(data: Path) -> None:
    found = stubbed({}, status={"/v1/me": 403})
    assert set(found) == {"server"}
    assert "cannot answer" in found["server"]["message"]


def test_a_name_that_no_host_can_have(data: Path) -> None:
    assert "does not answer" in examine("--url", "http://a..b:80", "--data-dir", "/nowhere/none")["server"]["message"]


def test_a_sound_server_has_no_findings(data: Path) -> None:
    assert stubbed({}) == {}


def test_people_get_lines_with_remedies(data: Path) -> None:
    data.chmod(0o755)
    arguments = ["doctor", "-o", "table", "--data-dir", str(data), "--url", f"http://127.0.0.1:{free_port()}"]
    done = CliRunner().invoke(command, arguments, prog_name="timeball")
    assert f"→ chmod 700 {data}\n" in done.stdout
    assert "problems found." in done.stdout
