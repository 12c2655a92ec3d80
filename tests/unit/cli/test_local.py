"""The command line without a server: help, `next`, times, and a quick start."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner

from timeball import __version__, config
from timeball.cli.output import times
from timeball.cli.root import timeball
from timeball.cli.serve import processes
from timeball.domain.errors import Conflict, Invalid
from timeball.domain.instant import DAY, HOUR, MINUTE, SECOND, of

NOW = of(datetime(2026, 3, 1, 12, tzinfo=UTC))


def run(*arguments: str) -> click.testing.Result:
    return CliRunner().invoke(timeball, arguments, prog_name="timeball")


def every_command(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from every_command(found, (*path, name))


@pytest.mark.parametrize("path", list(every_command(timeball)), ids=" ".join)
def test_every_command_has_help_for_itself_and_its_options(path: tuple[str, ...]) -> None:
    result = run(*path, "--help")
    assert result.exit_code == 0
    command: click.Command = timeball
    for name in path:
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), name) or command
    assert command.help
    for parameter in command.params:
        assert not isinstance(parameter, click.Option) or parameter.help, parameter


def test_exit_codes_are_documented() -> None:
    assert "Exit codes:" in run("--help").stdout


def test_a_misspelt_command_gets_a_suggestion() -> None:
    result = run("jbos")
    assert result.exit_code == 2
    assert "there is no command 'jbos'; did you mean 'jobs'?" in result.stderr
    assert "did you mean 'create'?" in run("jobs", "craete").stderr


def test_version() -> None:
    assert run("version").stdout == run("--version").stdout == f"timeball {__version__}\n"
    assert json.loads(run("version", "-o", "json").stdout) == {"version": __version__}


def test_next_says_what_it_means_and_marks_clock_changes() -> None:
    result = run("next", "30 2 * * *", "--tz", "Europe/Berlin", "--after", "2026-03-28", "--count", "3")
    assert result.stdout.splitlines() == [
        "At 02:30 every day (Europe/Berlin)",
        "UTC\tLOCAL TIME\tNOTE",
        "2026-03-28T01:30:00Z\t2026-03-28T02:30:00+01:00\t-",
        "2026-03-29T01:00:00Z\t2026-03-29T03:00:00+02:00\t02:30 does not exist: clocks go from 02:00 to 03:00",
        "2026-03-30T00:30:00Z\t2026-03-30T02:30:00+02:00\t-",
    ]
    assert result.stderr.splitlines()[0] == (
        "Warning: on 2026-03-29 clocks in Europe/Berlin go from 02:00 to 03:00:"
        " 02:30 does not exist and fires at 03:00 instead"
    )
    table = run("next", "@daily", "-o", "table")
    assert table.exit_code == 0
    assert table.stdout.startswith("At 00:00 every day\n")


def test_next_as_json() -> None:
    arguments = ("--tz", "Europe/Berlin", "--after", "2026-10-24T12:00:00Z", "-n", "2", "-o", "json")
    result = run("next", "30", "2", "*", "*", "*", *arguments)
    found = json.loads(result.stdout)
    assert result.stderr == ""
    assert found["description"] == "At 02:30 every day (Europe/Berlin)"
    assert len(found["warnings"]) == 2
    assert found["items"] == [
        {
            "fireTime": "2026-10-25T00:30:00Z",
            "local": "2026-10-25T02:30:00+02:00",
            "mark": "dst_overlap",
            "note": "02:30 comes twice: this is the first time, and the only fire",
        },
        {
            "fireTime": "2026-10-26T01:30:00Z",
            "local": "2026-10-26T02:30:00+01:00",
            "mark": None,
            "note": "clocks went back by 1 hour",
        },
    ]


def test_next_needs_a_name_to_know_the_slot_of_h() -> None:
    named = run("next", "H 3 * * *", "--name", "etl")
    assert named.stdout.splitlines()[0].endswith("(the slot that H gives this job)")
    assert named.stderr == ""
    assert "without a name the slot shown here is only an example" in run("next", "H 3 * * *").stderr


def test_next_refuses_with_the_reason() -> None:
    result = run("next", "0 0 30 2 *")
    assert result.exit_code == 2
    assert "never fires: month '2' has no day '30'" in result.stderr
    assert "did you mean 'Europe/Berlin'?" in run("next", "@daily", "--tz", "Berlin").stderr


@pytest.mark.parametrize(
    ("text", "past", "moment"),
    [
        ("now", False, "2026-03-01T12:00:00Z"),
        ("2026-02-01", False, "2026-02-01T00:00:00Z"),
        ("2026-02-01T10:00:00+02:00", False, "2026-02-01T08:00:00Z"),
        ("10m", False, "2026-03-01T12:10:00Z"),
        ("24h", True, "2026-02-28T12:00:00Z"),
        ("-1h", False, "2026-03-01T11:00:00Z"),
        ("+1h", True, "2026-03-01T13:00:00Z"),
    ],
)
def test_moments_as_people_say_them(text: str, past: bool, moment: str) -> None:
    assert times.when(text, NOW, past=past) == moment


def test_a_moment_that_means_nothing_is_refused() -> None:
    with pytest.raises(Invalid, match="'noon' is not a time"):
        times.when("noon", NOW)


@pytest.mark.parametrize(
    ("distance", "words"),
    [
        (0, "now"),
        (12 * SECOND, "in 12 s"),
        (-12 * SECOND, "12 s ago"),
        (-3 * MINUTE, "3 min ago"),
        (-(3 * MINUTE + 5 * SECOND), "3 min 5 s ago"),
        (26 * HOUR, "in 1 d 2 h"),
        (40 * DAY, "in 40 d"),
        (800 * DAY, "in 2 y 70 d"),
    ],
)
def test_moments_as_people_read_them(distance: int, words: str) -> None:
    from timeball.domain.instant import to_datetime

    assert times.relative(to_datetime(NOW + distance), NOW) == words


@pytest.fixture
def bootstrap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimpleNamespace:
    """A stand-in for the module that starts everything."""
    stand_in = SimpleNamespace()
    monkeypatch.setitem(sys.modules, "timeball.bootstrap", stand_in)
    monkeypatch.setattr("timeball.bootstrap", stand_in, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return stand_in


def test_up_hands_its_settings_to_bootstrap(bootstrap: SimpleNamespace, tmp_path: Path) -> None:
    seen: list[config.UpConfig] = []

    def run_up(settings: config.UpConfig) -> int:
        seen.append(settings)
        return 3

    bootstrap.run_up = run_up
    result = run("up", "--port", "0", "--data-dir", "d", "--slots", "2", "--tasks", "a", "--tasks", "b", "--label", "x")
    assert result.exit_code == 3
    assert (seen[0].port, seen[0].data_dir, seen[0].slots) == (0, tmp_path / "d", 2)
    assert (seen[0].tasks, seen[0].labels) == (("a", "b"), ("x",))


def test_a_server_that_cannot_start_says_why_in_one_sentence(bootstrap: SimpleNamespace) -> None:
    def run_server(settings: config.ServerConfig) -> int:
        raise Conflict("another server uses this folder; stop it or choose another with --data-dir")

    bootstrap.run_server = run_server
    result = run("server")
    assert result.exit_code == 6
    assert result.stderr == "Error: another server uses this folder; stop it or choose another with --data-dir\n"


def test_a_wrong_setting_is_told_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    result = run("worker", "--server", "http://a:1")
    assert result.exit_code == 2
    assert "a worker needs a key" in result.stderr


def test_flags_carry_no_secret_that_every_process_could_read() -> None:
    for command in (processes.up, processes.server):
        assert "admin_key" not in {parameter.name for parameter in command.params}


TELL_MODULES = """
import sys
from timeball.cli import main
try:
    main()
except SystemExit:
    print(*sys.modules, file=sys.stderr)
"""
LOGS = "runs logs -f r_0000000000000000000000000000"
HEAVY = {"asyncio", "httpx2", "rich", "structlog", "uvicorn", "uvloop", "aiohttp"}


@pytest.mark.parametrize("command", ["--help", "version", "jobs list", "jobs create --help", LOGS])
def test_commands_start_without_what_they_do_not_need(command: str, tmp_path: Path) -> None:
    """The promise is a start within 150 ms; what would break it is known by name."""
    done = subprocess.run(
        [sys.executable, "-c", TELL_MODULES, *command.split()],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path), "TIMEBALL_URL": "http://127.0.0.1:9"},
    )
    loaded = {name.partition(".")[0] for name in done.stderr.splitlines()[-1].split()}
    assert "click" in loaded
    assert not loaded & HEAVY


@pytest.mark.parametrize("command", ["up --port 0", "worker --token k"])
def test_processes_that_stay_start_without_what_few_of_them_need(command: str, tmp_path: Path) -> None:
    """An HTTP client comes with the first job that calls somebody, and nobody here prints tables. The tasks are what is
    imported last."""
    (tmp_path / "told.py").write_text("import os, sys\nprint(*sys.modules, flush=True)\nos._exit(0)")
    done = subprocess.run(
        [sys.executable, "-m", "timeball", *command.split(), "--tasks", "told"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path), "TIMEBALL_URL": "http://127.0.0.1:9", "PYTHONPATH": str(tmp_path)},
    )
    loaded = {name.partition(".")[0] for name in done.stdout.splitlines()[-1].split()}
    assert {"structlog", "uvloop"} <= loaded
    assert not loaded & {"aiohttp", "obstore", "rich"}


@pytest.mark.parametrize("name", ["cancel", "stop"])
def test_a_command_that_does_not_exist_names_those_that_do_it(name: str) -> None:
    result = run("jobs", name, "etl")
    assert result.exit_code == 2
    assert f"there is no command '{name}'; `timeball jobs delete` ends a job for good" in result.stderr
    assert "`timeball runs cancel` cancels one run" in result.stderr


def test_an_option_that_does_not_exist_names_the_command_that_does_it() -> None:
    result = run("jobs", "create", "x", "--cron", "0 2 * * *", "--preview")
    assert result.exit_code == 2
    assert "there is no option --preview; `timeball next EXPR` shows the next fires" in result.stderr
    assert "there is no option" not in run("jobs", "create", "x", "--previous").stderr


@pytest.mark.parametrize(("zone", "heading"), [((), "time (UTC)"), (("--tz", "Asia/Tokyo"), "time (Asia/Tokyo)")])
def test_next_names_the_zone_of_its_times(zone: tuple[str, ...], heading: str) -> None:
    assert heading in run("next", "0 9 * * *", *zone, "-o", "table").stdout
    assert "UTC\tLOCAL TIME\t" in run("next", "0 9 * * *", *zone).stdout
