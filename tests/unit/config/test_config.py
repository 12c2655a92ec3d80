"""Settings: a flag overrides the environment, which overrides the file, which overrides the default. Errors say what to
do."""

import contextlib
from pathlib import Path

import pytest

from timeball import config, host
from timeball.config import InvalidSetting
from timeball.domain.dispatch.priority import CREDIT
from timeball.domain.instant import DAY, MINUTE, SECOND
from timeball.ports.worker_protocol import MAX_WORKER_NAME_LENGTH

KEY = "k" * 32


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in, and an empty home."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


def test_everything_has_a_default(elsewhere: Path) -> None:
    up = config.up({}, {})
    assert (up.host, up.port, up.slots, up.drain_seconds) == ("127.0.0.1", 1300, None, 30.0)
    assert up.data_dir == elsewhere / "home/.local/share/timeball"
    assert up.scripts_dir == up.data_dir / "scripts"
    assert (up.admin_key, up.labels, up.tasks) == (None, (), ())
    assert up.name
    server = config.server({}, {})
    assert server.store == f"sqlite:///{server.data_dir}/timeball.db"
    assert server.sqlite_path == server.data_dir / "timeball.db"
    assert config.client({}, {}) == config.ClientConfig(servers=("http://127.0.0.1:1300",), token=None)


def test_a_flag_wins_over_the_environment_and_that_over_the_file(elsewhere: Path) -> None:
    (elsewhere / "timeball.toml").write_text("port = 1\nslots = 1\nhost = '10.0.0.1'\n")
    environ = {"TIMEBALL_PORT": "2", "TIMEBALL_SLOTS": "2"}
    up = config.up({"port": "3", "slots": None, "tasks": ()}, environ)
    assert (up.port, up.slots, up.host) == (3, 2, "10.0.0.1")


def test_an_archive_is_a_folder_or_a_bucket(elsewhere: Path) -> None:
    assert config.server({}, {}).archive is None
    assert config.server({"archive": "old"}, {}).archive == str(elsewhere / "old")
    assert (
        config.up({}, {"TIMEBALL_ARCHIVE": "s3://bucket/a?endpoint=http://x"}).archive
        == "s3://bucket/a?endpoint=http://x"
    )
    local = config.server({"archive": "local", "data_dir": "/srv/timeball"}, {})
    assert local.archive == local.objects == "/srv/timeball/objects"
    with pytest.raises(InvalidSetting, match="need the same archive"):
        config.server({"archive": "local", "store": "postgresql://db/x"}, {})
    for wrong in ("ftp://host/a", "s3:///?secret_access_key=x"):
        with pytest.raises(InvalidSetting, match="--archive") as refused:
            config.server({"archive": wrong}, {})
        assert wrong not in str(refused.value), "it may hold a secret"


def test_an_empty_variable_is_unset_and_zero_is_not(elsewhere: Path) -> None:
    assert config.up({}, {"TIMEBALL_PORT": ""}).port == 1300
    assert config.up({"port": 0}, {"TIMEBALL_PORT": "5"}).port == 0
    assert config.up({"drain": "0s"}, {}).drain_seconds == 0


def test_the_file_is_named_or_found_at_home(elsewhere: Path) -> None:
    home = elsewhere / "config/timeball"
    home.mkdir(parents=True)
    (home / "timeball.toml").write_text("port = 7")
    environ = {"XDG_CONFIG_HOME": str(elsewhere / "config")}
    assert config.up({}, environ).port == 7
    (elsewhere / "mine.toml").write_text("port = 8")
    assert config.up({}, {**environ, "TIMEBALL_CONFIG": "mine.toml"}).port == 8
    with pytest.raises(InvalidSetting, match=r"TIMEBALL_CONFIG names 'gone\.toml', which is not a file"):
        config.up({}, {"TIMEBALL_CONFIG": "gone.toml"})


def test_a_worker_offers_what_the_machine_has_unless_it_is_told(elsewhere: Path) -> None:
    plain = config.up({}, {})
    assert (plain.cpu, plain.memory_mb, plain.dedicated) == (host.cpus(), host.memory_mb(), False)
    told = config.worker({"token": "k", "cpu": "0.5", "memory": "0", "labels": ("gpu",), "dedicated": True}, {})
    assert (told.cpu, told.memory_mb, told.dedicated) == (0.5, 0, True)
    (elsewhere / "timeball.toml").write_text("cpu = 4\nmemory = 8192\nlabels = ['gpu']\ndedicated = true\n")
    written = config.up({"dedicated": None}, {})
    assert (written.cpu, written.memory_mb, written.dedicated) == (4, 8192, True)
    assert config.up({"memory": "1.5G"}, {"TIMEBALL_MEMORY": "512M"}).memory_mb == 1536
    assert config.up({}, {"TIMEBALL_MEMORY": "512 MiB"}).memory_mb == 512
    assert config.up({}, {"TIMEBALL_DEDICATED": "no"}).dedicated is False


def test_what_a_level_of_priority_is_worth_is_a_minute_unless_it_is_told(elsewhere: Path) -> None:
    assert config.server({}, {}).priority_credit == CREDIT
    assert config.server({"priority_credit": "1s"}, {}).priority_credit == SECOND
    assert config.up({}, {"TIMEBALL_PRIORITY_CREDIT": "0s"}).priority_credit == 0
    (elsewhere / "timeball.toml").write_text("priority_credit = '5m'")
    assert config.up({}, {}).priority_credit == 5 * MINUTE


def test_what_ended_is_kept_for_a_month_unless_it_is_told(elsewhere: Path) -> None:
    assert config.server({}, {}).retention == 30 * DAY
    assert config.server({"retention": "90d"}, {"TIMEBALL_RETENTION": "never"}).retention == 90 * DAY
    assert config.up({}, {"TIMEBALL_RETENTION": "Never"}).retention is None
    (elsewhere / "timeball.toml").write_text("retention = '7d'")
    assert config.up({}, {}).retention == 7 * DAY


def test_a_dedicated_worker_needs_a_label() -> None:
    with pytest.raises(InvalidSetting, match="give it some with --label"):
        config.up({"dedicated": True}, {})


def test_each_process_needs_a_slot_and_workers_of_up_a_server_without_tls(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="2 slots are not enough for 3 processes"):
        config.worker({"token": "k", "slots": "2", "processes": "3"}, {})
    with pytest.raises(InvalidSetting, match="too long"):
        config.worker({"token": "k", "name": "n" * MAX_WORKER_NAME_LENGTH, "processes": "2"}, {})
    certificate = {"tls_cert": str(tmp_path / "cert"), "tls_key": str(tmp_path / "key")}
    for name in certificate.values():
        Path(name).touch()
    assert config.up(certificate, {}).processes == 1
    with pytest.raises(InvalidSetting, match="start `timeball server` with TLS"):
        config.up({**certificate, "processes": "2"}, {})


def test_lists_come_with_commas_or_one_by_one(elsewhere: Path) -> None:
    (elsewhere / "timeball.toml").write_text("labels = ['gpu', 'eu']")
    assert config.up({}, {}).labels == ("gpu", "eu")
    assert config.up({}, {"TIMEBALL_LABELS": "a, b"}).labels == ("a", "b")
    assert config.up({"labels": ("x", "y")}, {}).labels == ("x", "y")


@pytest.mark.parametrize(
    ("flags", "environ", "said"),
    [
        ({"port": "70000"}, {}, "port '70000' from --port cannot be used: write a whole number from 0 to 65535"),
        ({}, {"TIMEBALL_SLOTS": "0"}, "slots '0' from the environment variable TIMEBALL_SLOTS .* from 1 to 10000"),
        (
            {"url": "localhost:1300"},
            {},
            "url .* from --url cannot be used: write an address like http://127.0.0.1:1300",
        ),
        ({"cpu": "nan"}, {}, "cpu 'nan' from --cpu cannot be used: write a number from 0 to 100000, like 4 or 0.5"),
        ({"memory": "8 bits"}, {}, "memory '8 bits' from --memory cannot be used: write a number of MiB, or a size"),
        ({"dedicated": "maybe"}, {}, "dedicated 'maybe' from --dedicated cannot be used: write true or false"),
        ({"labels": ("gpu", "a b")}, {}, "'a b' is not a label; use letters, digits and . _ : / = -"),
        ({"drain": "soon"}, {}, "drain 'soon' from --drain cannot be used: 'soon' is not a duration"),
        ({"retention": "3h"}, {}, "retention '3h' from --retention cannot be used: write at least 1d, or never"),
        ({"retention": "long"}, {}, "or never, to prune nothing"),
        ({"priority_credit": "2d"}, {}, "priority_credit '2d' from --priority-credit cannot be used: write at most 1d"),
        ({"log_level": "loud"}, {}, "write debug, info, warning or error"),
        ({"store": "mysql://x"}, {}, "write sqlite:///path/to/file.db or postgresql://"),
        ({"store": "sqlite:///"}, {}, "write sqlite:///path/to/file.db"),
        ({}, {"TIMEBALL_ADMIN_KEY": "short"}, "admin_key from .*TIMEBALL_ADMIN_KEY .* 5 characters; use 32 or more"),
    ],
)
def test_an_error_names_the_setting_its_value_its_source_and_the_cure(
    flags: dict[str, str], environ: dict[str, str], said: str
) -> None:
    with pytest.raises(InvalidSetting, match=said):
        _all_of(flags, environ)


def _all_of(flags: dict[str, str], environ: dict[str, str]) -> None:
    config.client(flags, environ)
    config.up(flags, environ)
    config.server(flags, environ)


@pytest.mark.parametrize("name", config.SETTINGS)
def test_a_value_of_any_type_in_the_file_is_read_or_refused(elsewhere: Path, name: str) -> None:
    for value in ("[]", "[1]", "{a = 1}", "true", "-1", "1.5", "nan", "2026-01-01", "''", '"\\u0000"'):
        (elsewhere / "mine.toml").write_text(f"{name} = {value}")
        for role in (config.client, config.up, config.worker, config.migrate):
            with contextlib.suppress(InvalidSetting):
                role({}, {"TIMEBALL_CONFIG": "mine.toml"})


def test_every_default_is_one_that_a_user_could_write() -> None:
    for setting in config.TABLE.values():
        if setting.default is not None and not callable(setting.default):
            setting.value.read(setting.default)
    assert (config.SETTINGS["priority_credit"].default, config.SETTINGS["retention"].default) == ("1m", "30d")


def test_secrets_are_not_repeated_in_errors() -> None:
    for flags, environ in (({"store": "mysql://me:hunter2@db"}, {}), ({}, {"TIMEBALL_ADMIN_KEY": "hunter2"})):
        with pytest.raises(InvalidSetting) as failure:
            config.server(flags, environ)
        assert "hunter2" not in failure.value.detail


def test_a_misspelt_setting_in_the_file_is_refused_with_a_suggestion(elsewhere: Path) -> None:
    (elsewhere / "timeball.toml").write_text("prot = 1")
    with pytest.raises(InvalidSetting, match=r"timeball.toml sets prot, which is not a setting; did you mean port\?"):
        config.up({}, {})
    (elsewhere / "timeball.toml").write_text("port 1")
    with pytest.raises(InvalidSetting, match=r"cannot read timeball.toml"):
        config.up({}, {})


def test_the_admin_key_on_this_machine_is_found(elsewhere: Path) -> None:
    (elsewhere / "admin.key").write_text(f"{KEY}\n")
    environ = {"TIMEBALL_DATA_DIR": str(elsewhere)}
    assert config.client({}, environ).token == KEY
    assert config.client({"token": "mine"}, environ).token == "mine"
    assert config.client({}, {**environ, "TIMEBALL_TOKEN": "theirs"}).token == "theirs"
    assert config.client({}, {**environ, "TIMEBALL_ADMIN_KEY": "a" * 32}).token == "a" * 32


def test_a_server_that_noted_its_folder_is_found_by_its_port(elsewhere: Path) -> None:
    (elsewhere / "data").mkdir()
    (elsewhere / "data/admin.key").write_text(KEY)
    config.remember(elsewhere / "data", 4711, {})
    assert config.client({"url": "http://127.0.0.1:4711"}, {}).token == KEY
    assert config.client({"url": "http://127.0.0.1:4712"}, {}).token is None
    other = {"TIMEBALL_DATA_DIR": str(elsewhere)}
    assert config.client({"url": "http://127.0.0.1:4711"}, other).token is None
    config.remember(elsewhere, 1, {"XDG_STATE_HOME": "/proc/nowhere"})


def test_the_admin_key_never_goes_to_another_machine(elsewhere: Path) -> None:
    (elsewhere / "admin.key").write_text(KEY)
    environ = {"TIMEBALL_DATA_DIR": str(elsewhere)}
    for url in ("http://10.0.0.5:1300", "http://127.0.0.1:1300,https://evil.example", "http://localhost.evil.example"):
        assert config.client({"url": url}, environ).token is None
        assert config.client({"url": url}, {"TIMEBALL_ADMIN_KEY": KEY}).token is None
    for url in ("http://localhost:1", "http://[::1]:1300", "http://127.0.0.2:1"):
        assert config.client({"url": url}, environ).token == KEY


def test_a_worker_needs_a_key_and_may_know_several_servers() -> None:
    with pytest.raises(InvalidSetting, match="timeball keys create --role worker"):
        config.worker({"url": "http://a:1"}, {})
    worker = config.worker({"url": "http://a:1/,http://b:2", "token": "key", "slots": "4"}, {})
    assert worker.servers == ("http://a:1", "http://b:2")
    assert (worker.token, worker.slots) == ("key", 4)


def test_the_store_is_one_of_two_and_its_path_absolute(elsewhere: Path) -> None:
    assert config.server({"store": "postgres://u@h/d"}, {}).store == "postgresql://u@h/d"
    assert config.server({"store": "postgresql://u@h/d"}, {}).sqlite_path is None
    assert config.server({"store": "sqlite:///my.db"}, {}).sqlite_path == elsewhere / "my.db"
    assert config.server({"store": "sqlite:////var/my.db"}, {}).sqlite_path == Path("/var/my.db")


def test_every_setting_says_what_it_means() -> None:
    for setting in config.SETTINGS.values():
        assert setting.meaning
        assert setting.variable.startswith("TIMEBALL_")


def test_large_values_are_kept_beside_the_embedded_store_or_where_all_servers_find_them(elsewhere: Path) -> None:
    assert config.server({"data_dir": "/srv/t"}, {}).objects == "/srv/t/objects"
    assert config.server({"data_dir": "/srv/t", "archive": "s3://bucket/a"}, {}).objects == "/srv/t/objects"
    assert config.up({}, {"TIMEBALL_OBJECTS": "s3://bucket/a"}).objects == "s3://bucket/a"
    fleet = {"store": "postgresql://db/x"}
    assert config.server(fleet, {}).objects is None
    assert config.server({**fleet, "archive": "s3://bucket/a"}, {}).objects == "s3://bucket/a"
    assert config.server({**fleet, "objects": "/mnt/shared"}, {}).objects == "/mnt/shared"
    with pytest.raises(InvalidSetting, match="need the same place for objects"):
        config.server({**fleet, "objects": "local"}, {})


def test_a_store_that_moves_says_where_its_large_values_go() -> None:
    moving = {"to": "postgresql://db/x", "data_dir": "/srv/t"}
    here = config.migrate(moving, {})
    assert (here.objects, here.target_objects) == ("/srv/t/objects", None)
    there = config.migrate({**moving, "to_objects": "s3://bucket/a"}, {"TIMEBALL_OBJECTS": "local"})
    assert (there.objects, there.target_objects) == ("/srv/t/objects", "s3://bucket/a")
    same = config.migrate(moving, {"TIMEBALL_OBJECTS": "/mnt/shared"})
    assert (same.objects, same.target_objects) == ("/mnt/shared", "/mnt/shared")


def test_only_secrets_come_from_files(elsewhere: Path) -> None:
    (elsewhere / "timeball.toml").write_text("port_file = 'x'")
    with pytest.raises(InvalidSetting, match="sets port_file, which is not a setting"):
        config.up({}, {})


def test_no_configuration_shows_its_secrets() -> None:
    dsn, bucket = "postgresql://me:hunter2@db/x", "s3://bucket/a?secret_access_key=hunter2"
    keys = {"TIMEBALL_TOKEN": "hunter2", "TIMEBALL_ADMIN_KEY": "hunter2" * 5, "TIMEBALL_ARCHIVE": bucket}
    environ = {**keys, "TIMEBALL_OBJECTS": bucket, "TIMEBALL_READ_STORE": dsn, "TIMEBALL_STORE_DIRECT": dsn}
    server = {**environ, "TIMEBALL_STORE": dsn}
    for settings in (
        config.client({}, server),
        config.server({}, server),
        config.up({}, server),
        config.worker({}, server),
        config.migrate({"to": dsn, "to_objects": bucket}, environ),
    ):
        assert "hunter2" not in f"{settings!r} {settings}"


def test_what_jobs_may_not_read_is_everything_that_timeball_keeps_here(elsewhere: Path) -> None:
    assert config.up({"data_dir": "/srv/t"}, {}).protected[0] == Path("/srv/t")
    (elsewhere / "timeball.toml").write_text(f"token = '{KEY}'\n")
    flags = {"store": "sqlite:////db/t.db", "archive": "/mnt/old", "objects": "s3://bucket/a"}
    assert set(config.up(flags, {}).protected) == {
        elsewhere / "home/.local/share/timeball",
        *(Path(f"/db/t.db{suffix}") for suffix in ("", "-wal", "-shm", "-journal", ".lock")),
        Path("/mnt/old"),
        elsewhere / "timeball.toml",
    }


def test_a_worker_protects_the_data_folders_of_its_servers_on_this_machine(elsewhere: Path) -> None:
    (elsewhere / "timeball.toml").write_text("slots = 3\n")
    for name, port in (("mine", 4711), ("strange", 4712)):
        (elsewhere / name).mkdir()
        (elsewhere / name / "admin.key").touch()
        config.remember(elsewhere / name, port, {})
    config.remember(Path("/usr"), 4713, {})
    flags = {"url": "http://127.0.0.1:4711,http://127.0.0.1:4713,http://other", "token": "key"}
    worker = config.worker(flags, {"TIMEBALL_DATA_DIR": "/srv/t"})
    assert {path for path in worker.protected if path.name != "timeball.db" and path.parent != Path("/srv/t")} == {
        Path("/srv/t"),
        elsewhere / "mine",
    }


def test_the_scripts_folder_is_not_the_data_folder() -> None:
    with pytest.raises(InvalidSetting, match="name another --scripts-dir"):
        config.up({"data_dir": "/srv/t", "scripts_dir": "/srv/x/../t"}, {})


def test_process_jobs_are_confined_unless_it_is_said_otherwise() -> None:
    up = config.up({}, {})
    assert (up.job_user, up.job_landlock, up.no_new_privs, up.job_cgroups) == (None, True, True, True)
    assert not config.up({}, {"TIMEBALL_JOB_CGROUPS": "off"}).job_cgroups
    assert not config.up({}, {"TIMEBALL_JOB_LANDLOCK": "off"}).job_landlock
    both = config.up({"job_landlock": False, "no_new_privs": False}, {})
    assert not both.no_new_privs
    with pytest.raises(InvalidSetting, match="set job_landlock to off as well"):
        config.up({"no_new_privs": False}, {})


def test_a_job_user_exists_and_can_be_become(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    found = config.up({"job_user": "nobody"}, {}).job_user
    assert found is not None
    assert (found.name, found.uid > 0) == ("nobody", True)
    with pytest.raises(InvalidSetting, match=r"job_user 'nobody-at-all' from --job-user .* no such user"):
        config.up({"job_user": "nobody-at-all"}, {})
    with pytest.raises(InvalidSetting, match="worker's own user"):
        config.up({"job_user": "root"}, {})
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(InvalidSetting, match="only a worker that runs as root"):
        config.up({}, {"TIMEBALL_JOB_USER": "nobody"})
