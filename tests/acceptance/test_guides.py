"""The commands of each guide are executed in order, against a real `timeball up` of the guide's own."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import KEY, running_up

FOLDER = Path(__file__).parents[2] / "docs" / "howto"
BEFORE = {
    "bulk": [
        "timeball jobs create report --shell true --cron '0 * * * *' --tag etl",
        "timeball jobs create load --shell true --cron '0 * * * *' --tag etl",
    ],
    "calendars": [],
    "follow": [],
    "backfill": ["timeball jobs create etl --shell true --cron '0 * * * *'"],
    "declared": [],
    "workflows": [],
    "tenants": [],
    "usage": ["timeball jobs create etl --shell true --wait"],
    "audit-log": [],
    "web": [
        (
            'curl -sSf -H "Origin: $TIMEBALL_URL" -H \'Content-Type: application/json\' "$TIMEBALL_URL/v1/sign-in"'
            ' -d "{\\"apiKey\\": \\"$TIMEBALL_TOKEN\\"}"'
        )
    ],
}
"""What a guide takes for granted."""
NOT_HERE = re.compile(r"timeball (up|server|worker|import kubernetes|import crontab)|crontab -l|kubectl")
"""Commands that serve, wait for other machines, or read what this machine may not have."""
ENDS_WITH = {"timeball plan": (0, 2), "timeball apply jobs/": (0, 1), "timeball audit report --from": (0, 2)}
"""Exit codes: of a plan that has something to do, of files with mistakes in them, and of a time to come."""


@pytest.mark.parametrize("name", BEFORE)
def test_the_commands_of_a_guide_are_accepted(name: str, tmp_path: Path) -> None:
    page = (FOLDER / f"{name}.md").read_text()
    work = tmp_path / "work"
    (work / "jobs").mkdir(parents=True)
    for block in re.findall(r"^```(?:yaml|json)\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        if block.startswith("# jobs/"):
            (work / block.split()[1]).write_text(block)
        elif name == "workflows" and '"tasks"' in block:
            (work / "nightly.json").write_text(json.dumps(json.loads(block)))
    blocks = re.findall(r"^```(sh|console)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    commands = [line.removeprefix("$ ") for kind, block in blocks for line in _commands(kind, block)]
    wanted = [*BEFORE[name], *(command for command in commands if not NOT_HERE.match(command))]
    assert any(command.startswith("timeball ") for command in wanted)
    with running_up(tmp_path) as (_, api):
        environment = {
            **os.environ,
            "TIMEBALL_URL": api.url,
            "TIMEBALL_TOKEN": KEY,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        printed = ""
        for command in wanted:
            if (found := re.search(r"\b[jrbsk]_[0-9a-f]{28}\b", printed)) is not None:
                command = re.sub(r"\b[jrbs]_01a1…|\bRUN\b|\bKEY_ID\b", found[0], command)
            if command.startswith("timeball workflows run"):
                command = command.replace(
                    " --wait", ""
                )  # its programs are not on this machine: it would wait for retries
            done = subprocess.run(
                [shutil.which("bash") or "bash", "-c", command],
                cwd=work,
                env=environment,
                capture_output=True,
                text=True,
            )
            codes = next((codes for start, codes in ENDS_WITH.items() if command.startswith(start)), (0,))
            assert done.returncode in codes, (command, done.stdout, done.stderr)
            printed = done.stdout or printed


def _commands(kind: str, block: str) -> list[str]:
    lines = [line for line in block.splitlines() if kind == "sh" or line.startswith("$ ")]
    return [line for line in lines if line.strip()]
