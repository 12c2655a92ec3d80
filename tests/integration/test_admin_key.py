"""The admin key of a running server: changed by a restart, and shown on terminals only (I31)."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.support.processes import Api, Process, free_port, worker_key
from timeball.bootstrap import greeting
from timeball.bootstrap.server import StartedServer

OLD, NEW = "old-admin-key-" * 4, "new-admin-key-" * 4


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


@pytest.mark.parametrize("terminal", [True, False])
def test_a_new_key_is_shown_to_people_only(
    terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    started = SimpleNamespace(address="http://127.0.0.1:1300", admin_key=NEW, is_new_key=True)
    greeting.greet(cast(StartedServer, started), Path("/data/admin.key"))
    printed = capsys.readouterr().out
    assert (NEW in printed) == terminal
    assert "/data/admin.key" in printed
    assert "http://127.0.0.1:1300/v1/jobs" in printed


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
