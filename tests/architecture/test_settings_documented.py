"""Every documented setting is accepted, and every accepted one is documented: its key, flag, variable and roles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from scripts import settings_reference
from timeball import config
from timeball.cli.root import timeball
from timeball.config import InvalidSetting, files

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "settings.md"
PAGES = [ROOT / name for name in ("README.md", "SECURITY.md", "CHANGELOG.md", "CONTRIBUTING.md", "ARCHITECTURE.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))

FILE = "TIMEBALL_CONFIG"
OF_A_JOB = {
    *("TIMEBALL_FIRE_TIME", "TIMEBALL_RUN_ID", "TIMEBALL_JOB_ID", "TIMEBALL_ATTEMPT", "TIMEBALL_PARAMETERS"),
    "TIMEBALL_FENCING_TOKEN",
}
"""Variables that a job finds in its environment."""
OF_TESTS = {"TIMEBALL_THOROUGH", "TIMEBALL_TEST_POSTGRES", "TIMEBALL_TEST_POSTGRES_FROM", "TIMEBALL_CRON_CASES"}

ROLES = ("client", "server", "worker", "up", "migrate", "backup", "restore", "schema", "doctor")
NO_SETTINGS = {"--dry-run", "--take-back", "--yes", "-y", "-o", "--output"}
"""Flags of commands that are no settings."""
NOT_CLIENTS = {"timeball worker", "timeball chaos"}
"""Commands with `--url` that are another role, or have flags of their own."""
UNREADABLE = [1]
"""A value that no setting accepts."""


class Documented(NamedTuple):
    keys: list[str]
    flags: dict[str, str]
    """The role of a flag that one role alone has, else the empty text."""
    variables: list[str]
    roles: dict[str, bool]
    """By role: whether it has a flag."""


def _documented() -> list[Documented]:
    """The rows of the reference page, as they are committed."""
    found = []
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) == 7 and not cells[0].startswith(("key", "-")):
            keys, flags, variables = (re.findall(r"`([^`]+)`", cell) for cell in cells[:3])
            only = dict(re.findall(r"`([^`]+)` \((\w+)\)", cells[1]))
            roles = {role.strip("()"): "(" not in role for role in cells[6].strip("| ").split(", ")}
            found.append(Documented(keys, {flag: only.get(flag, "") for flag in flags}, variables, roles))
    return found


DOCUMENTED = _documented()
IN_FILES = [row for row in DOCUMENTED if row.keys]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


def test_the_reference_page_is_the_one_that_the_table_yields() -> None:
    assert PAGE.read_text() == settings_reference.page(), "run `make reference`"


def test_the_reference_page_has_every_key_and_variable() -> None:
    keys = [key for row in DOCUMENTED for key in row.keys]
    secret_files = [setting.file_name for setting in config.SETTINGS.values() if setting.secret]
    assert sorted(keys) == sorted([*config.SETTINGS, *secret_files])
    assert [variable for row in DOCUMENTED for variable in row.variables] == [f"TIMEBALL_{key.upper()}" for key in keys]


@pytest.mark.parametrize("row", IN_FILES, ids=lambda row: row.keys[0])
@pytest.mark.parametrize("role", ROLES)
def test_a_role_reads_a_documented_key_and_variable_if_the_page_says_so(
    folder: Path, row: Documented, role: str
) -> None:
    """A value that no setting accepts is refused by each role that reads the setting, and by no other."""
    key, variable = row.keys[0], row.variables[0]
    (folder / "mine.toml").write_text(f"{key} = {UNREADABLE}\n")
    assert _refuses(role, key, {FILE: "mine.toml"}) == (role in row.roles)
    if key != "tasks":  # any text names some modules
        unreadable = (
            " " if key in ("data_dir", "scripts_dir", "host", "name", "token", "oidc_name") else "no such: thing://@@"
        )
        assert _refuses(role, key, {variable: unreadable}) == (role in row.roles)


@pytest.mark.parametrize("row", [row for row in IN_FILES if len(row.keys) > 1], ids=lambda row: row.keys[0])
@pytest.mark.parametrize("role", ROLES)
def test_a_role_reads_a_documented_file_with_a_secret_if_the_page_says_so(
    folder: Path, row: Documented, role: str
) -> None:
    (folder / "mine.toml").write_text(f"{row.keys[1]} = 'gone'\n")
    assert _refuses(role, row.keys[0], {FILE: "mine.toml"}) == (role in row.roles)
    assert _refuses(role, row.keys[0], {row.variables[1]: "gone"}) == (role in row.roles)


def _refuses(role: str, key: str, environ: dict[str, str]) -> bool:
    """Whether the value of this setting, and not another one, keeps the role from starting."""
    flags = {} if key in ("token", "admin_key", "data_dir") else {"token": "key"}  # else a client reads none of these
    try:
        getattr(config, role)(flags, environ)
    except InvalidSetting as refused:
        return re.match(rf"{key}\b.* from ", str(refused)) is not None
    return False


@pytest.mark.parametrize("role", ROLES)
def test_a_command_has_the_documented_flags_and_no_others(role: str) -> None:
    documented = {
        flag for row in DOCUMENTED if row.roles.get(role) for flag, only in row.flags.items() if only in ("", role)
    }
    if role == "client":
        commands = [command for path, command in COMMANDS.items() if path not in NOT_CLIENTS]
        for command in commands:
            if "--url" in _flags(command):
                assert documented <= _flags(command), command.name
    else:
        path = "timeball schema status" if role == "schema" else f"timeball {role}"
        assert _flags(COMMANDS[path]) - NO_SETTINGS == documented


def _flags(command: click.Command) -> set[str]:
    return {flag for found in command.params for flag in (*found.opts, *found.secondary_opts) if flag.startswith("-")}


def _walk(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from _walk(found, f"{path} {name}")


COMMANDS = dict(_walk(timeball, "timeball"))


# --- what the other pages say -------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_variable_of_the_documentation_is_accepted(page: Path) -> None:
    accepted = {variable for row in DOCUMENTED for variable in row.variables} | {FILE} | OF_A_JOB | OF_TESTS
    assert set(re.findall(r"TIMEBALL_[A-Z_]*[A-Z]", page.read_text())) <= accepted


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_line_of_the_documentation_has_flags_that_exist(page: Path) -> None:
    for line in re.findall(r"(?<![\w/.-])timeball [a-z][^`\n|]*", page.read_text()):
        words = re.sub(r"'[^']*'|\"[^\"]*\"| #.*", " ", line).split()
        path = words.pop(0)
        while words and f"{path} {words[0]}" in COMMANDS:
            path = f"{path} {words.pop(0)}"
        given = {word.partition("=")[0] for word in words if re.fullmatch(r"--?[a-z][\w-]*(=.*)?", word)}
        assert path == "timeball" or given <= _flags(COMMANDS[path]) | {"--help"}, line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_key_of_the_documentation_is_accepted_in_the_file(folder: Path, page: Path) -> None:
    text = page.read_text()
    lines = [line for line in re.findall(r"`([a-z_]+ = [^`]+)`", text) if line.partition(" ")[0] in config.SETTINGS]
    said = re.findall(r"`([a-z_]+)`(?: and `([a-z_]+)`)?\s+in\s+`timeball\.toml`", text)
    lines += [f"{key} = ''" for keys in said for key in keys if key]
    blocks = [block for block in re.findall(r"```toml\n(.*?)```", text, re.DOTALL) if "timeball.toml" in block]
    for content in [*lines, *blocks]:
        (folder / "mine.toml").write_text(content)
        assert files.load(folder / "mine.toml", config.TABLE.values()), "it is refused if it is not a setting"


def test_objects_can_be_set_in_the_file(folder: Path) -> None:
    (folder / "timeball.toml").write_text("objects = 's3://bucket/o'\n")
    assert config.server({}, {}).objects == config.up({}, {}).objects == "s3://bucket/o"
