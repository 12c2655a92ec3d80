"""I7: each job's descendants are its own. None outlives its job, and none ends with another job."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import ordinary_user
from tests.support.guard_programs import ALWAYS_FORK, variant
from tests.support.ordinary_user import NEEDS_ROOT, ORDINARY, shared_folder

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's subreaper"),
    pytest.mark.timeout(300),
]
SCENE = Path(__file__).with_name("descendants_scene.py")
Play = Callable[[str], Any]


@pytest.fixture(params=[None, pytest.param(ORDINARY, marks=NEEDS_ROOT)], ids=["own user", "ordinary user"])
def user(request: pytest.FixtureRequest) -> str | None:
    found: str | None = request.param
    return found


@pytest.fixture(params=["", ALWAYS_FORK], ids=["vfork", "fork"])
def play(request: pytest.FixtureRequest, user: str | None) -> Iterator[Play]:
    """Plays a scene as a user, with both ways to start a job."""
    with shared_folder("/var/tmp") as folder:
        ordinary_user.give(folder, user)
        scene = folder / "scene.py"
        scene.write_text(SCENE.read_text())
        scene.chmod(0o644)  # whatever the umask of this process is
        program = variant(folder / "guard_program.py", request.param)
        python = sys.executable if user is None else ordinary_user.open_python()
        as_user: dict[str, Any] = {}
        if user is not None:
            as_user = {"user": user, "group": ordinary_user.user_group(user), "extra_groups": []}

        def play(name: str) -> Any:
            done = subprocess.run(
                [python, str(scene), name, str(folder), str(program)],
                env={"PYTHONPATH": ordinary_user.module_path()},
                capture_output=True,
                text=True,
                timeout=50,
                check=False,
                **as_user,
            )
            assert done.returncode == 0, done
            return json.loads(done.stdout)

        yield play


def test_an_agent_outlives_other_jobs_and_not_its_own(play: Play) -> None:
    """I7: an `ssh-agent` of a living job stays, and is gone before the end of its job is reported."""
    assert play("another_ends") == [[True, True], [False, True], [False, True], [False, False]]


def test_an_agent_ends_with_a_job_that_ends_by_itself(play: Play) -> None:
    """I7: a job that ends leaves no process beside its second attempt."""
    assert play("main_ends") == [True, 0, False]


def test_a_job_that_kills_the_guard_does_not_escape(play: Play) -> None:
    """I7: when the worker reports a job that lost its guard, no process of the job runs."""
    assert play("guard_killed") == [[True, True], [False, False], 0]


def test_a_job_that_kills_the_keeper_of_the_guard_does_not_escape(play: Play) -> None:
    """I7: likewise."""
    assert play("keeper_killed") == [True, False, 0]
