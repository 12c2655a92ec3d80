"""Every command of the tutorial and of the README is executed in order: real processes, a new home, new ports."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.processes import free_port, private_folder, until

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "tutorial"
STAYING = re.compile(r"timeball (up|server|worker)\b")
"""Commands that run until they are stopped: each has a terminal of its own."""
DSN = "postgresql://timeball@localhost/timeball"


class Step(NamedTuple):
    kind: str
    """`sh`, `text` (what the commands before print) or `kill` (the first process that was started)."""
    text: str


def steps(page: str) -> Iterator[Step]:
    for found in re.finditer(r"^```(\w+)\n(.*?)^```|^<!-- kill the first server -->", page, re.MULTILINE | re.DOTALL):
        yield Step(found[1] or "kill", found[2] or "")


PAGES = [ROOT / "README.md", *(FOLDER / f"{name}.md" for name in ("first-job", "failing-job", "schedule", "fleet"))]


def test_every_page_of_the_tutorial_is_executed() -> None:
    assert set(FOLDER.iterdir()) <= set(PAGES)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_commands_of_a_page_do_what_it_says(path: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    page = path.read_text().replace("make up", "timeball up")
    ports = {port: str(free_port()) for port in ("1300", "1301", "1302")}
    if DSN in page:
        page = page.replace(DSN, request.getfixturevalue("postgres_dsn"))
    page = re.sub(r"\b130[012]\b", lambda found: ports[found[0]], page)
    reader = _Reader(tmp_path, ports["1300"])
    try:
        for step in steps(page):
            reader.follow(step)
            if step.text == "timeball up\n" and path.stem != "README":
                reader.follow(Step("sh", _jobs_of_the_readme()))
    finally:
        reader.leave()


def _jobs_of_the_readme() -> str:
    """The jobs that a reader who comes from the README already has: the names on other pages must not collide."""
    jobs = re.findall(r"^timeball jobs create .*$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert len(jobs) == 2
    return "\n".join([*jobs, "timeball jobs create tick --shell date --cron '*/10 * * * * *'"])


class _Reader:
    def __init__(self, folder: Path, port: str) -> None:
        home = private_folder(folder) / "home"
        home.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._port = port
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("TIMEBALL_", "XDG_"))},
            "HOME": str(home),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "TIMEBALL_URL": f"http://127.0.0.1:{port}",
            "TIMEBALL_PORT": port,
        }
        self._staying: list[subprocess.Popen[bytes]] = []
        self._printed = ""

    def follow(self, step: Step) -> None:
        if step.kind == "kill":
            self._staying[0].kill()
        elif step.kind == "text":
            for line in step.text.splitlines():
                assert re.search(re.escape(line).replace("…", ".*"), self._printed), (line, self._printed)
        elif STAYING.match(step.text):
            self._start(step.text)
        else:
            self._printed = self._run(step.text)

    def _start(self, command: str) -> None:
        log = self._folder / f"{len(self._staying)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=self._folder,
                env=self._environment,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
            )
        self._staying.append(process)
        port = re.search(r"--port (\d+)", command)
        if " worker " not in command:
            url = f"http://127.0.0.1:{port[1] if port else self._port}/readyz"
            until(lambda: _succeeds(["curl", "-sf", url], process, log), "the server to be ready")
        else:
            until(lambda: "worker" in log.read_text() or None, "the worker to start")

    def _run(self, commands: str) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, (commands, done.stdout, done.stderr)
        return done.stdout

    def leave(self) -> None:
        for process in reversed(self._staying):
            process.terminate()
        for process in self._staying:
            process.wait(30)


def _succeeds(command: list[str], process: subprocess.Popen[bytes], log: Path) -> bool | None:
    assert process.poll() is None, log.read_text()
    return subprocess.run(command, capture_output=True).returncode == 0 or None
