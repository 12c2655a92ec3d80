"""A key is sent only where its owner meant it (I31): to real loopback addresses, and to no server that a file in the
current folder names."""

import os
from pathlib import Path

import pytest

from timeball import config
from timeball.config import InvalidSetting

KEY = "k" * 32
FOLDER_URL = "http://127.0.0.1:6666"
"""What a hostile `timeball.toml` names: another user of this machine may listen there."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, an empty home, and this machine's data folder with its admin key."""
    here = tmp_path / "project"
    here.mkdir()
    data = tmp_path / "data"
    data.mkdir()
    (data / "admin.key").write_text(f"{KEY}\n")
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return here


def data_dir(folder: Path) -> dict[str, str]:
    return {"TIMEBALL_DATA_DIR": str(folder.parent / "data")}


def home_file(folder: Path, text: str) -> None:
    home = folder.parent / "home/.config/timeball"
    home.mkdir(parents=True)
    (home / "timeball.toml").write_text(text)


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST", "LocalHost", "127.0.0.1", "127.0.0.2", "127.255.255.254", "[::1]", "[0:0:0:0:0:0:0:1]"],
)
def test_this_machines_key_goes_to_loopback_addresses(folder: Path, host: str) -> None:
    assert config.client({"url": f"http://{host}:1300"}, data_dir(folder)).token == KEY


@pytest.mark.parametrize("host", ["127.evil.example", "127.0.0.1.evil.example", "127.0.0.1.", "127.0.0.256"])
def test_this_machines_key_never_goes_to_a_name_that_looks_like_loopback(folder: Path, host: str) -> None:
    assert config.client({"url": f"http://{host}:1300"}, data_dir(folder)).token is None
    assert config.client({"url": f"http://127.0.0.1:1,http://{host}:1300"}, data_dir(folder)).token is None
    assert config.client({"url": f"http://{host}:1300"}, {"TIMEBALL_ADMIN_KEY": KEY}).token is None


@pytest.mark.parametrize(
    "host",
    [
        *("localhost.evil.example", "localhost.", "evil.localhost", "localhost6", "1270.0.0.1", "0.0.0.0", "10.0.0.1"),
        *(
            "2130706433",
            "0x7f.1",
            "0x7f000001",
            "0177.0.0.1",
            "0127.0.0.1",
            "１２７.0.0.1",
            "ⓛocalhost",
            "127。0。0。1",
        ),
        *("[::ffff:10.0.0.1]", "[::2]", "[fe80::1%25eth0]", "[::1%25evil]", "[::]"),
    ],
)
def test_this_machines_key_goes_to_no_other_spelling(folder: Path, host: str) -> None:
    """Resolvers disagree about short, octal and hexadecimal addresses, so these count as strangers."""
    assert config.client({"url": f"http://{host}:1300"}, data_dir(folder)).token is None


@pytest.mark.parametrize("host", ["127.1", "127.0.1", "127.0x1.0.1", "127.00.0.1", "127.0.0.1%25eth0"])
def test_this_machines_key_goes_to_no_short_form_of_its_address(folder: Path, host: str) -> None:
    assert config.client({"url": f"http://{host}:1300"}, data_dir(folder)).token is None


@pytest.mark.parametrize(
    "url",
    [
        *("http://127.0.0.1@evil.example", "http://127.0.0.1:1300@evil.example:1300", "http://u:p@127.0.0.1:1300"),
        *("http://127.0.0.1\\@evil.example", "http://127.0.0.1\\evil.example", "http://evil.example\t@127.0.0.1"),
        *("http://127.0.0.1:1300\t.evil.example", "http://127.0.0.1 evil", "http://127.0.0.1:99999", "http://a:b"),
    ],
)
def test_an_address_that_two_readers_could_read_differently_is_refused(url: str) -> None:
    with pytest.raises(InvalidSetting, match="url") as refused:
        config.client({"url": url, "token": "t"}, {})
    assert "u:p@" not in str(refused.value), "it may hold a password"


SOURCES = ("flag", "environment", "home", "named file", "folder")


def given(
    folder: Path, url_from: str | None, key_from: str, url: str = FOLDER_URL
) -> tuple[dict[str, str], dict[str, str]]:
    """Flags and environment, and files in place, so that URL and key come from these sources."""
    flags: dict[str, str] = {}
    environ: dict[str, str] = {}
    files: dict[str, list[str]] = {"home": [], "folder": [], "named file": []}
    for name, value, source in (("url", url, url_from), ("token", KEY, key_from), ("admin_key", KEY, key_from)):
        if source == "flag" and name != "admin_key":
            flags[name] = value
        elif source == "environment" and name != "admin_key":
            environ[f"TIMEBALL_{name.upper()}"] = value
        elif source == "admin key in environment" and name == "admin_key":
            environ["TIMEBALL_ADMIN_KEY"] = value
        elif source in files and name != "admin_key":
            files[source].append(f"{name} = '{value}'")
    if key_from == "data folder":
        environ |= data_dir(folder)
    if files["home"]:
        home_file(folder, "\n".join(files["home"]))
    if files["folder"]:
        (folder / "timeball.toml").write_text("\n".join(files["folder"]))
    if files["named file"]:
        (folder / "named.toml").write_text("\n".join(files["named file"]))
        environ["TIMEBALL_CONFIG"] = str(folder / "named.toml")
    return flags, environ


# Only one file is read at a time, so that two sources that are different files cannot be combined.
TABLE = [
    (url_from, key_from, "sent")
    for url_from in (*SOURCES, None)
    for key_from in (*SOURCES, "admin key in environment", "data folder")
    if url_from != "folder" and not ({url_from, key_from} <= {"home", "named file", "folder"} and url_from != key_from)
]
REFUSED = [("folder", key_from) for key_from in ("flag", "environment", "admin key in environment", "data folder")]


@pytest.mark.parametrize(("url_from", "key_from", "fate"), [*TABLE, ("folder", "folder", "sent")])
def test_a_key_goes_to_a_server_of_the_same_or_a_more_trusted_source(
    folder: Path, url_from: str | None, key_from: str, fate: str
) -> None:
    flags, environ = given(folder, url_from, key_from)
    assert config.client(flags, environ).token == KEY


@pytest.mark.parametrize(("url_from", "key_from"), REFUSED)
def test_no_key_of_the_user_goes_to_a_server_that_a_file_in_the_current_folder_names(
    folder: Path, url_from: str, key_from: str
) -> None:
    flags, environ = given(folder, url_from, key_from)
    with pytest.raises(InvalidSetting, match=r"(?s)timeball\.toml.*--url.*TIMEBALL_CONFIG") as refused:
        config.client(flags, environ)
    assert KEY not in str(refused.value)
    assert FOLDER_URL in str(refused.value)


def test_no_workers_key_goes_to_a_server_that_a_file_in_the_current_folder_names(folder: Path) -> None:
    (folder / "timeball.toml").write_text("url = 'https://evil.example'")
    with pytest.raises(InvalidSetting, match="--url"):
        config.worker({"token": KEY}, {})
    with pytest.raises(InvalidSetting, match="--url"):
        config.worker({}, {"TIMEBALL_TOKEN": KEY})
    assert config.worker({"token": KEY, "url": "http://a:1"}, {}).token == KEY


def test_a_remote_server_of_a_file_in_the_current_folder_is_asked_without_the_key_of_this_machine(folder: Path) -> None:
    (folder / "timeball.toml").write_text("url = 'https://evil.example'")
    assert config.client({}, data_dir(folder)).token is None
    assert config.client({}, {"TIMEBALL_ADMIN_KEY": KEY}).token is None


def test_a_file_in_the_current_folder_cannot_pick_a_key_for_its_server(folder: Path) -> None:
    text = f"url = '{FOLDER_URL}'\ndata_dir = '{folder.parent / 'data'}'"
    (folder / "timeball.toml").write_text(text)
    with pytest.raises(InvalidSetting, match="--url"):
        config.client({}, {})
    assert config.client({}, {"TIMEBALL_CONFIG": "timeball.toml"}).token == KEY, "whoever names the file trusts it"
    (folder / "timeball.toml").unlink()
    home_file(folder, text)
    assert config.client({}, {}).token == KEY


def test_the_users_own_file_stays_trusted_in_its_own_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home_file(folder, f"url = '{FOLDER_URL}'")
    monkeypatch.chdir(folder.parent / "home/.config/timeball")
    assert config.client({"token": KEY}, {}).token == KEY


def test_a_file_in_the_current_folder_that_others_can_write_is_refused(folder: Path) -> None:
    written = folder / "timeball.toml"
    written.write_text("port = 7")
    written.chmod(0o666)
    with pytest.raises(InvalidSetting, match=r"every user can write .*timeball\.toml.*TIMEBALL_CONFIG"):
        config.up({}, {})
    assert config.up({}, {"TIMEBALL_CONFIG": str(written)}).port == 7
    written.chmod(0o664)
    assert config.up({}, {}).port == 7


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file that belongs to another user")
def test_a_file_in_the_current_folder_that_belongs_to_another_user_is_refused(folder: Path) -> None:
    written = folder / "timeball.toml"
    written.write_text("port = 7")
    os.chown(written, 4711, 4711)
    with pytest.raises(InvalidSetting, match=r"timeball\.toml belongs to another user.*TIMEBALL_CONFIG"):
        config.up({}, {})
    assert config.up({}, {"TIMEBALL_CONFIG": str(written)}).port == 7


def test_a_key_with_a_line_break_is_not_a_key() -> None:
    for wrong in ("a\nb", "a\r\nX-Other: b", "a\x00b", "schlüssel☃"):
        with pytest.raises(InvalidSetting, match="token") as refused:
            config.client({"token": wrong}, {})
        assert wrong not in str(refused.value)


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("job_landlock = false", "--job-landlock or set TIMEBALL_JOB_LANDLOCK"),
        ("no_new_privs = false", "--no-new-privs or set TIMEBALL_NO_NEW_PRIVS"),
        ("job_signals = true", "--job-signals or set TIMEBALL_JOB_SIGNALS"),
        ("job_cgroups = false", "--job-cgroups or set TIMEBALL_JOB_CGROUPS"),
        ("job_user = 'nobody'", "--job-user or set TIMEBALL_JOB_USER"),
        (f"admin_key = '{KEY}'", "Set TIMEBALL_ADMIN_KEY_FILE"),
        ("admin_key_file = '../data/admin.key'", "Set TIMEBALL_ADMIN_KEY_FILE"),
    ],
)
def test_a_file_in_the_current_folder_weakens_no_protection(folder: Path, line: str, instead: str) -> None:
    (folder / "timeball.toml").write_text(line)
    name = line.partition(" ")[0]
    with pytest.raises(InvalidSetting, match=f"must not set {name}.*{instead}") as refused:
        config.up({}, {})
    assert KEY not in str(refused.value)
    assert f"TIMEBALL_CONFIG={folder / 'timeball.toml'}" in str(refused.value)
    (folder / "timeball.toml").write_text("slots = 3")
    assert config.up({}, {}).slots == 3


def test_files_that_the_user_names_and_flags_decide_about_protection(folder: Path) -> None:
    (folder / "timeball.toml").write_text("job_signals = true")
    assert config.up({}, {"TIMEBALL_CONFIG": str(folder / "timeball.toml")}).job_signals
    assert not config.up({"job_signals": False}, {}).job_signals, "what a flag overrides is not used"
    (folder / "timeball.toml").unlink()
    assert not config.up({}, {}).job_signals
    home_file(folder, "job_signals = true")
    assert config.up({}, {}).job_signals
