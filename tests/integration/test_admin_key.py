"""The admin key of a running server: a restart changes it, and it is shown on terminals only (I31)."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.support.processes import Api, Process, free_port, worker_key
from timeball import config
from timeball.bootstrap import greeting
from timeball.bootstrap.server import StartedServer
from timeball.stores.sql.migrate import known

OLD, NEW = "old-admin-key-" * 4, "new-admin-key-" * 4
CREATED = "tables created in the store"


def restart(folder: Path, environment: dict[str, str], *keys: str) -> tuple[list[int], str]:
    """What a server that is started like this answers to each of these keys, and what it prints."""
    port = free_port()
    with (
        Process(folder, ["server", "--port", str(port), "--data-dir", str(folder / "data")], environment) as process,
        Api(f"http://127.0.0.1:{port}") as api,
    ):
        api.await_ready(process)
        headers = [{"Authorization": f"Bearer {key}"} for key in keys]
        answers = [api.http.get("/v1/jobs", headers=each).status_code for each in headers]
        process.stop()
        return answers, process.output


def test_a_changed_admin_key_is_the_only_one_after_a_restart(tmp_path: Path) -> None:
    assert restart(tmp_path, {"TIMEBALL_ADMIN_KEY": OLD}, OLD, NEW)[0] == [200, 401]
    assert restart(tmp_path, {"TIMEBALL_ADMIN_KEY": NEW}, OLD, NEW)[0] == [401, 200]
    assert restart(tmp_path, {"TIMEBALL_ADMIN_KEY": OLD}, OLD, NEW)[0] == [200, 401]


def test_a_generated_key_is_printed_on_terminals_only_and_replaced_with_its_file(tmp_path: Path) -> None:
    _, output = restart(tmp_path, {"TIMEBALL_ADMIN_KEY": ""})
    path = tmp_path / "data/admin.key"
    first = path.read_text().strip()
    assert first not in output
    assert str(path) in output
    path.unlink()
    _, output = restart(tmp_path, {"TIMEBALL_ADMIN_KEY": ""})
    second = path.read_text().strip()
    assert second != first
    assert restart(tmp_path, {"TIMEBALL_ADMIN_KEY": ""}, first, second)[0] == [401, 200]


def started(*, is_new_key: bool, address: str = "http://127.0.0.1:1300") -> StartedServer:
    site = SimpleNamespace(refusal=None)
    server = SimpleNamespace(address=address, admin_key=NEW, is_new_key=is_new_key, site=site)
    return cast(StartedServer, server)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_new_key_is_shown_to_people_only(
    terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    greeting.greet(started(is_new_key=True), config.server({"data_dir": "/data"}, {}))
    printed = capsys.readouterr().out
    assert (NEW in printed) == terminal
    assert "/data/admin.key" in printed
    assert "http://127.0.0.1:1300/v1/jobs" in printed


def test_a_server_on_a_terminal_prints_where_its_data_and_key_are_and_how_to_open_the_web_ui(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    store = "postgresql://me:hunter2@db/timeball"
    greeting.greet(started(is_new_key=False), config.server({"data_dir": "/data", "store": store}, {}))
    assert capsys.readouterr().out.splitlines() == [
        "Timeball is up: http://127.0.0.1:1300",
        "",
        "  web UI     open it with: timeball open",
        "",
        "  data       /data",
        "  store      postgresql://me@db/timeball",
        "  admin key  in /data/admin.key",
    ]


def test_the_command_that_opens_the_web_ui_names_another_address(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    address = "http://127.0.0.1:1301"
    greeting.greet(started(is_new_key=False, address=address), config.server({"data_dir": "/data"}, {}))
    assert f"timeball open --url {address}\n" in capsys.readouterr().out


def test_a_server_logs_its_address_its_places_and_the_tables_that_it_created(tmp_path: Path) -> None:
    port, data = free_port(), tmp_path / "data"
    arguments = ["server", "--port", str(port), "--data-dir", str(data), "--log-format", "json"]
    with Process(tmp_path, arguments, {}) as process, Api(f"http://127.0.0.1:{port}") as api:
        api.await_ready(process)
        process.stop()
        lines = [json.loads(line) for line in process.output.splitlines() if line.startswith("{")]
    created, up = (next(line for line in lines if line["event"] == event) for event in (CREATED, "server is up"))
    assert created["schema"] == known()[-1].version
    assert up["address"] == f"http://127.0.0.1:{port}"
    assert up["store"] == str(data / "timeball.db")
    assert up["data_dir"] == str(data)
    assert up["level"] == created["level"] == "info"


def test_a_server_does_not_start_with_a_key_of_another_role(tmp_path: Path) -> None:
    port = free_port()
    arguments = ["server", "--port", str(port), "--data-dir", str(tmp_path / "data")]
    with (
        Process(tmp_path, arguments, {"TIMEBALL_ADMIN_KEY": OLD}) as process,
        Api(f"http://127.0.0.1:{port}", OLD) as api,
    ):
        api.await_ready(process)
        token = worker_key(api)
    with Process(tmp_path, arguments, {"TIMEBALL_ADMIN_KEY": token}) as process:
        assert process.popen.wait(60) != 0
        assert "role worker" in process.output
        assert token not in process.output
    assert restart(tmp_path, {"TIMEBALL_ADMIN_KEY": OLD}, OLD)[0] == [200]
