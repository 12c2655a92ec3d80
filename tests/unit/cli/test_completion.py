"""`timeball completion`: scripts for shells, and what they ask Timeball for."""

import os
import shutil
import subprocess
import sys

import pytest
from click.testing import CliRunner

from timeball.cli.root import timeball


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_asks_timeball(shell: str) -> None:
    printed = CliRunner().invoke(timeball, ["completion", shell], prog_name="timeball")
    assert printed.exit_code == 0
    assert f"_TIMEBALL_COMPLETE={shell}_complete" in printed.stdout
    if shell == "bash" and shutil.which("bash"):
        assert subprocess.run(["bash", "-n"], input=printed.stdout, text=True).returncode == 0


def test_a_word_is_completed() -> None:
    asked = {"_TIMEBALL_COMPLETE": "bash_complete", "COMP_WORDS": "timeball sche", "COMP_CWORD": "1"}
    command = [sys.executable, "-c", "from timeball.cli import main; main()"]
    done = subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True)
    assert done.stdout == "plain,schema\n"
