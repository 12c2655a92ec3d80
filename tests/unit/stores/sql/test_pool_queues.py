"""New runs join the queues of slot pools that the last claim found in use."""

from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.builders import one_shot
from timeball.domain.dispatch.placement import Resources
from timeball.domain.instant import DAY
from timeball.domain.task.task import Http, Python, Shell
from timeball.stores.sql.pool_queues import PoolQueues

SHELL_QUEUE, THREAD_QUEUE = "2|1|0|0|@shell @shell/processes", "2|1|0|0|@python @python/threads"


@dataclass
class Scene:
    queues: PoolQueues
    level: int

    def profile(self, **fields: Any) -> str | None:
        submission = one_shot(DAY, **fields)
        return self.queues.join(submission.runs[0], submission.job.spec).profile


@pytest.fixture
def scene() -> Scene:
    level = one_shot(DAY, task=Shell(command="true")).runs[0].priority
    queues = PoolQueues()
    queues.claimed({(("shell", None), level): SHELL_QUEUE, (("python", "t"), level): THREAD_QUEUE}, True)
    return Scene(queues, level)


def test_a_run_joins_the_queue_of_its_sort_and_priority(scene: Scene) -> None:
    assert scene.profile(task=Shell(command="false")) == SHELL_QUEUE
    assert scene.profile(task=Python(function="t")) == THREAD_QUEUE
    assert scene.profile(task=Python(function="other")) is None
    assert scene.profile(task=Http(url="http://a")) is None
    assert scene.profile(task=Shell(command="false"), priority="high") is None


def test_a_run_with_requirements_keeps_its_profile(scene: Scene) -> None:
    needs_two = {"task": Shell(command="true"), "resources": Resources(slots=2)}
    assert scene.profile(**needs_two) == one_shot(DAY, **needs_two).runs[0].profile is not None


def test_a_claim_adds_queues_until_no_run_waits_for_a_pool(scene: Scene) -> None:
    scene.queues.claimed({}, True)
    assert scene.profile(task=Shell(command="true")) == SHELL_QUEUE
    scene.queues.claimed({(("python", "u"), scene.level): THREAD_QUEUE}, True)
    assert scene.profile(task=Shell(command="true")) == SHELL_QUEUE
    assert scene.profile(task=Python(function="u")) == THREAD_QUEUE
    scene.queues.claimed({}, False)
    assert not scene.queues
    assert scene.profile(task=Shell(command="true")) is None
