"""No log shows the value of a variable (I31), because it may be a key."""

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
import structlog
from click.testing import CliRunner

from timeball.cli.root import timeball
from timeball.telemetry.logging import configure

SECRET = "hunter2-hunter2"

PROGRAM = """
import asyncio, logging, sys
from timeball.telemetry.logging import configure
configure("debug", sys.argv[1])
import structlog

class Holder:
    def __init__(self, key):
        self.key = key
    def fail(self, key):
        held = {"Authorization": f"Bearer {key}"}
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise ExceptionGroup("outer", [ValueError("one"), error]) from error

def fail(log, key):
    parts = [key]
    try:
        Holder(key).fail(key)
    except Exception:
        log.exception("a turn failed")

key = "".join(chr(code) for code in map(int, sys.argv[2].split(",")))
fail(structlog.get_logger(), key)
fail(logging.getLogger("library"), key)

async def lost(key):
    held = key
    raise ValueError("nobody waits for this")

async def main(key):
    task = asyncio.create_task(lost(key))
    await asyncio.sleep(0.01)
    del task

import gc
asyncio.run(main(key))
gc.collect()
Holder(key).fail(key)
"""


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    yield
    structlog.reset_defaults()
    logging.basicConfig(force=True, handlers=[])


@pytest.mark.parametrize("style", ["json", "text"])
def test_no_traceback_shows_what_variables_held(style: str) -> None:
    codes = ",".join(str(ord(letter)) for letter in SECRET)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, style, codes], capture_output=True, text=True, timeout=60, check=False
    )
    printed = done.stdout + done.stderr
    assert printed.count("inner") >= 3, printed
    assert "nobody waits for this" in printed
    assert SECRET not in printed


def test_a_failure_in_json_still_says_where_it_happened(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", "json")
    key = SECRET
    try:
        raise ValueError("the reason")
    except ValueError:
        structlog.get_logger().exception("a turn failed", length=len(key))
    printed = capsys.readouterr().err
    assert "the reason" in printed
    assert "test_a_failure_in_json_still_says_where_it_happened" in printed
    assert SECRET not in printed


@pytest.mark.parametrize("style", ["json", "text"])
def test_lines_of_the_standard_library_have_a_time_and_a_level(style: str, capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", style)
    logging.getLogger("timeball.worker").warning("poll failed: %s", "no answer")
    logging.getLogger("timeball.worker").info("not shown")
    [line] = capsys.readouterr().err.splitlines()
    if style == "json":
        fields = json.loads(line)
        assert datetime.fromisoformat(fields.pop("timestamp")).tzinfo is not None
        assert fields == {"event": "poll failed: no answer", "level": "warning", "logger": "timeball.worker"}
    else:
        time, rest = line.split(" ", 1)
        assert datetime.fromisoformat(time).tzinfo is not None
        assert " ".join(rest.split()) == "[warning ] poll failed: no answer [timeball.worker]"


def test_a_line_of_the_standard_library_goes_to_the_stream_of_the_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a function of a job executes, standard error is replaced, so that its lines become output of its run."""
    configure("info", "text")
    output = io.StringIO()
    monkeypatch.setattr("sys.stderr", output)
    logging.getLogger("library").warning("careful")
    assert "careful" in output.getvalue()
    assert "\x1b" not in output.getvalue()


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://me:hun/ter2@db/x",
        "postgresql://me:hun#ter2@db/x",
        "postgresql://me:hun?ter2@db/x",
        "postgresql://me:hunter2@[db/x",
        "postgresql://me:ter2@db:hunter2/x",
        "postgresql://me@hunter2:ter2@db:ter2/x",
    ],
)
@pytest.mark.parametrize("command", ["server --port 0", "up --port 0", "migrate"])
def test_no_part_of_a_password_is_shown_for_an_address_that_cannot_be_read(
    command: str, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    flag = "--to" if command == "migrate" else "--store"
    result = CliRunner().invoke(timeball, [*command.split(), flag, dsn])
    assert result.exit_code == 2
    assert "cannot be used" in result.output
    assert "%2F" in result.output
    assert "hun" not in result.output
    assert "ter2" not in result.output
