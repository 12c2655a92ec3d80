"""New runs join the queues of slot pools that the last claim found in use."""

from dataclasses import dataclass
from typing import Any

import pytest
from msgspec import structs

from tests.support.builders import one_shot
from timeball.domain.dispatch.placement import Resources
from timeball.domain.dispatch.slot_pools import PoolRoom, SlotPool, SlotPools
from timeball.domain.instant import DAY, Micros
from timeball.domain.task.task import Http, Python, Shell
from timeball.stores.sql import pool_queues
from timeball.stores.sql.pool_queues import PoolQueues

SHELL_QUEUE, THREAD_QUEUE = "2|1|0|0|@shell @shell/processes", "2|1|0|0|@python @python/threads"
POOLS = [SlotPool("threads", 5, [], ["t", "u"]), SlotPool("processes", 2, ["shell"])]
ROOMS = [PoolRoom(SlotPools(POOLS), {})]


@dataclass
class Scene:
    queues: PoolQueues
    level: int

    def profile(self, *, wait: Micros = 0, **fields: Any) -> str | None:
        submission = one_shot(DAY, **fields)
        run = structs.replace(submission.runs[0], created_at=DAY - wait)
        return self.queues.join(run, submission.job.spec).profile


@pytest.fixture
def scene() -> Scene:
    level = one_shot(DAY, task=Shell(command="true")).runs[0].priority
    queues = PoolQueues()
    queues.claimed({(("shell", None), level): SHELL_QUEUE, (("python", "t"), level): THREAD_QUEUE}, True, ROOMS)
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
    scene.queues.claimed({}, True, ROOMS)
    assert scene.profile(task=Shell(command="true")) == SHELL_QUEUE
    scene.queues.claimed({(("python", "u"), scene.level): THREAD_QUEUE}, True, ROOMS)
    assert scene.profile(task=Shell(command="true")) == SHELL_QUEUE
    assert scene.profile(task=Python(function="u")) == THREAD_QUEUE
    scene.queues.claimed({}, False, ROOMS)
    assert not scene.queues
    assert scene.profile(task=Shell(command="true")) is None


def test_a_run_for_later_joins_no_queue(scene: Scene) -> None:
    assert scene.profile(task=Shell(command="true"), wait=1) is None


@pytest.mark.parametrize("other", [None, PoolRoom(SlotPools([SlotPool("threads", 5, ["shell"], ["t"])]), {})])
def test_a_run_joins_no_queue_that_another_worker_would_not_use(scene: Scene, other: PoolRoom | None) -> None:
    """A worker without pools, or one of a version with other pools, may execute it at once."""
    scene.queues.claimed({}, True, [*ROOMS, other])
    assert scene.profile(task=Shell(command="true")) is None
    assert scene.profile(task=Python(function="t")) == (None if other is None else THREAD_QUEUE)


def test_no_more_runs_join_than_one_claim_may_find(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The workers of a server may be gone, so that no claim of it finds out that the queue is empty."""
    monkeypatch.setattr(pool_queues, "MAX_JOINED", 2)
    joined = [scene.profile(task=Shell(command="true")) for _ in range(3)]
    assert joined == [SHELL_QUEUE, SHELL_QUEUE, None]
    scene.queues.claimed({}, True, ROOMS)
    assert scene.profile(task=Shell(command="true")) == SHELL_QUEUE
