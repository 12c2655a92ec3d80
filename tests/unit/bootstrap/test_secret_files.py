"""Every secret setting can come from a file (I31), so no key has to be in an environment or a command line."""

import logging
import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.stub_server import StubServer
from timeball import AsyncClient, Client, config
from timeball.cli.root import timeball
from timeball.config import InvalidSetting

KEY = "k" * 32
SECRET = "hunter2-hunter2-hunter2-hunter2-hunter2"
VALUES = {
    "token": SECRET,
    "admin_key": SECRET,
    "store": "postgresql://me:hunter2@db/timeball",
    "store_direct": "postgresql://me:hunter2@db1/timeball",
    "read_store": "postgresql://me:hunter2@db2/timeball",
    "archive": "s3://bucket/a?secret_access_key=hunter2",
    "objects": "s3://bucket/o?secret_access_key=hunter2",
    "jwt_secret": SECRET,
    "oidc_client_secret": SECRET,
}
PROVIDER = {"jwt_issuer": "https://login.example", "jwt_audience": "timeball", "oidc_client_id": "ui"}
"""What a server needs to use the secrets of an identity provider."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


def secret_file(folder: Path, content: str = f"{SECRET}\n", mode: int = 0o600) -> Path:
    path = folder / "secret"
    path.write_text(content)
    path.chmod(mode)
    return path


def found(name: str, flags: dict[str, str], environ: dict[str, str]) -> object:
    """What a process that uses the setting is started with."""
    if name == "token":
        return config.client(flags, environ).token
    if name in ("store_direct", "read_store"):
        flags = {"store": "postgresql://db/timeball", **flags}
    if name in ("jwt_secret", "oidc_client_secret"):
        flags = {**PROVIDER, **flags}
    return getattr(config.server(flags, environ), name)


@pytest.mark.parametrize("name", VALUES)
def test_every_secret_setting_can_come_from_a_file(folder: Path, name: str) -> None:
    path = str(secret_file(folder, VALUES[name] + "\n"))
    assert found(name, {}, {f"TIMEBALL_{name.upper()}_FILE": path}) == VALUES[name]
    assert found(name, {f"{name}_file": path}, {}) == VALUES[name]
    (folder / "mine.toml").write_text(f"{name}_file = '{path}'")
    assert found(name, {}, {"TIMEBALL_CONFIG": "mine.toml"}) == VALUES[name]


def test_no_secret_setting_is_missing_here() -> None:
    assert set(VALUES) == {setting.name for setting in config.SETTINGS.values() if setting.secret}


@pytest.mark.parametrize("name", ["jwt_secret", "oidc_client_secret"])
def test_no_job_may_read_the_secret_of_an_identity_provider(folder: Path, name: str) -> None:
    path = secret_file(folder)
    environ = {f"TIMEBALL_{name.upper()}_FILE": str(path)}
    assert path in config.up(PROVIDER, environ).protected
    assert path in config.worker({"token": KEY, "url": "http://a:1"}, environ).protected, "a server may be beside it"


def test_a_flag_wins_over_the_environment_also_with_files(folder: Path) -> None:
    path = str(secret_file(folder))
    assert config.client({"token": "mine"}, {"TIMEBALL_TOKEN_FILE": path}).token == "mine"
    assert config.client({"token_file": path}, {"TIMEBALL_TOKEN": "mine"}).token == SECRET
    assert config.client({}, {"TIMEBALL_TOKEN_FILE": "", "TIMEBALL_TOKEN": "mine"}).token == "mine"


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_line_break_at_the_end_is_not_part_of_the_secret(folder: Path, end: str) -> None:
    assert config.client({"token_file": str(secret_file(folder, SECRET + end))}, {}).token == SECRET


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty"),
        ("\n", "is empty"),
        (f"{SECRET}\n{SECRET}\n", "more than one line"),
        ("hunter2" * 10_000, "more than 65536 bytes"),
        (f"{SECRET}\x00", "one line of ASCII"),
    ],
)
def test_a_file_that_holds_no_secret_is_refused_without_its_content(folder: Path, content: str, said: str) -> None:
    path = secret_file(folder, content)
    for flags, environ in (({"token_file": str(path)}, {}), ({}, {"TIMEBALL_TOKEN_FILE": str(path)})):
        with pytest.raises(InvalidSetting, match=said) as refused:
            config.client(flags, environ)
        assert "hunter2" not in str(refused.value)
        assert str(path) in str(refused.value)


def test_bytes_that_are_no_text_are_refused_without_being_shown(folder: Path) -> None:
    path = folder / "binary"
    path.write_bytes(b"hunter2\xff\xfe")
    with pytest.raises(InvalidSetting, match="is not UTF-8 text") as refused:
        config.client({"token_file": str(path)}, {})
    assert "hunter2" not in str(refused.value)


def test_a_file_that_cannot_be_read_is_named(folder: Path) -> None:
    with pytest.raises(InvalidSetting, match=r"token from --token-file .*gone: No such file"):
        config.client({"token_file": str(folder / "gone")}, {})
    with pytest.raises(InvalidSetting, match=r"TIMEBALL_STORE_FILE .*: Is a directory"):
        config.server({}, {"TIMEBALL_STORE_FILE": str(folder)})


def test_a_value_and_a_file_for_it_are_not_both_set(folder: Path) -> None:
    path = str(secret_file(folder))
    with pytest.raises(InvalidSetting, match="both TIMEBALL_TOKEN and TIMEBALL_TOKEN_FILE are set") as refused:
        config.client({}, {"TIMEBALL_TOKEN": SECRET, "TIMEBALL_TOKEN_FILE": path})
    assert SECRET not in str(refused.value)
    with pytest.raises(InvalidSetting, match="both --token and --token-file are set"):
        config.client({"token": SECRET, "token_file": path}, {})
    (folder / "timeball.toml").write_text(f"token = '{SECRET}'\ntoken_file = '{path}'")
    with pytest.raises(InvalidSetting, match="both token and token_file are set in"):
        config.client({}, {})


def test_a_file_in_the_current_folder_cannot_send_any_secret_file_to_its_server(folder: Path) -> None:
    path = secret_file(folder)
    (folder / "timeball.toml").write_text(f"url = 'https://evil.example'\ntoken_file = '{path}'")
    with pytest.raises(InvalidSetting, match="--url") as refused:
        config.client({}, {})
    assert SECRET not in str(refused.value)
    assert config.client({"url": "https://good.example"}, {}).token == SECRET


def test_a_file_that_others_can_read_is_warned_about_once(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    shown = Path("/tmp") / f"timeball-secret-{os.getpid()}"
    shown.write_text(SECRET)
    shown.chmod(0o644)
    try:
        with caplog.at_level(logging.WARNING):
            config.client({"token_file": str(shown)}, {})
            config.client({"token_file": str(shown)}, {})
        assert [record.getMessage() for record in caplog.records] == [
            f"every user of this machine can read the secret in {shown}: chmod 600 {shown}"
        ]
        caplog.clear()
        shown.chmod(0o640)
        config.client({"token_file": str(shown)}, {})
        assert caplog.records == []
    finally:
        shown.unlink()
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    (closed / "secret").write_text(SECRET)
    (closed / "secret").chmod(0o644)
    config.client({"token_file": str(closed / "secret")}, {})
    assert caplog.records == [], "its folder keeps others out"


def test_a_secret_may_come_through_a_pipe() -> None:
    reading, writing = os.pipe()
    try:
        os.write(writing, f"{SECRET}\n".encode())
        os.close(writing)
        worker = config.worker({"url": "http://a:1", "token_file": f"/dev/fd/{reading}"}, {})
    finally:
        os.close(reading)
    assert worker.token == SECRET
    assert not any("/fd/" in str(path) for path in worker.protected), "nothing is left to read there"


def test_no_job_may_read_the_files_that_secrets_came_from(folder: Path) -> None:
    path = secret_file(folder)
    assert path not in config.up({}, {}).protected
    assert path in config.up({}, {"TIMEBALL_ADMIN_KEY_FILE": str(path)}).protected
    other = folder / "store"
    other.write_text("postgresql://db/x")
    worker = config.worker({"token_file": "secret", "url": "http://a:1"}, {"TIMEBALL_STORE_FILE": str(other)})
    assert {path, other} <= set(worker.protected), "also those that a server beside it reads"
    link = folder / "link"
    link.symlink_to(path)
    assert path in config.up({}, {"TIMEBALL_ADMIN_KEY_FILE": str(link)}).protected
    (folder / "timeball.toml").write_text(f"token = '{KEY}'\nurl = 'http://a:1'")
    assert folder / "timeball.toml" in config.worker({}, {}).protected, "it holds a secret itself"


def test_a_store_is_moved_to_a_database_whose_password_is_in_a_file(folder: Path) -> None:
    path = secret_file(folder, VALUES["store"])
    assert config.migrate({"to_file": str(path)}, {}).target == VALUES["store"]
    with pytest.raises(InvalidSetting, match="both --to and --to-file are set"):
        config.migrate({"to_file": str(path), "to": VALUES["store"]}, {})


def test_both_clients_read_their_key_from_a_file(folder: Path) -> None:
    path = str(secret_file(folder))
    server = StubServer()
    server.on("GET", "/v1/jobs", {"jobs": [], "items": []})
    with Client("http://a:1", token_file=path, transport=server) as client:
        list(client.jobs())
    assert server.last.headers["Authorization"] == f"Bearer {SECRET}"
    with pytest.raises(InvalidSetting, match="both --token and --token-file are set"):
        AsyncClient("http://a:1", "t", token_file=path)


@pytest.mark.parametrize("command", ["jobs list", "keys list", "worker", "chaos --url http://a:1", "why j"])
def test_every_command_with_a_key_takes_it_from_a_file(folder: Path, command: str) -> None:
    result = CliRunner().invoke(timeball, [*command.split(), "--token-file", str(folder / "gone")])
    assert result.exit_code == 2
    assert f"token from --token-file cannot be used: {folder / 'gone'}: No such file or directory" in result.output


def test_the_documentation_puts_no_key_into_a_command_line() -> None:
    root = Path(__file__).parents[3]
    texts = [root / "README.md", *(root / "docs").rglob("*.md"), *(root / "src/timeball/cli").glob("*.py")]
    lines = [(path.name, line.strip()) for path in texts for line in path.read_text().splitlines()]
    assert [line for line in lines if "timeball " in line[1] and re.search(r"--(token|key) ", line[1])] == []


def test_a_link_to_a_secret_is_protected_by_its_own_name_and_by_its_target(folder: Path) -> None:
    path, link = secret_file(folder), folder / "link"
    link.symlink_to(path.name)
    assert {path, link} <= set(config.up({}, {"TIMEBALL_ADMIN_KEY_FILE": "link"}).protected)


def test_no_job_may_read_the_secret_files_that_values_name(folder: Path) -> None:
    environ = {
        "PGPASSFILE": "/k/pgpass",
        "PGSSLKEY": "/k/pgkey",
        "GOOGLE_APPLICATION_CREDENTIALS": "/k/google",
        "AWS_SHARED_CREDENTIALS_FILE": "relative",
        "AWS_WEB_IDENTITY_TOKEN_FILE": "/k/aws",
        "AZURE_FEDERATED_TOKEN_FILE": "/k/azure",
    }
    of_postgres, of_s3 = {Path("/k/pgpass"), Path("/k/pgkey")}, {folder / "relative", Path("/k/aws")}
    everything = {*of_postgres, *of_s3, Path("/k/google"), Path("/k/azure")}

    def protected(**flags: str) -> set[Path]:
        up, worker = config.up(flags, environ), config.worker({"token": "t", **flags}, environ)
        assert set(up.protected) == set(worker.protected)
        return set(up.protected) & {*everything, Path("/dsn/pass"), Path("/dsn/key"), Path("/dsn/replica")}

    assert protected() == set()
    assert protected(objects="s3://bucket/a") == of_s3
    assert protected(archive="gs://bucket/a") == {Path("/k/google")}
    assert protected(archive="az://bucket/a", objects="s3://bucket/a") == {*of_s3, Path("/k/azure")}
    dsn = "postgresql://db/x?passfile=%2Fdsn%2Fpass&sslkey=/dsn/key"
    assert protected(store=dsn) == {*of_postgres, Path("/dsn/pass"), Path("/dsn/key")}
    replica = "postgresql://db/x?passfile=/dsn/replica"
    assert protected(store="postgresql://db/x", read_store=replica) == {*of_postgres, Path("/dsn/replica")}
