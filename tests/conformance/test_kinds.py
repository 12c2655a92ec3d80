"""Workers that accept only some task kinds: each run goes to a worker that accepts its kind, and blocks no other
run."""

from typing import Any

import pytest
import pytest_asyncio

from tests.conformance.conftest import Tamper
from tests.support.builders import LEASE, one_shot, settlement, worker
from timeball.domain.dispatch.placement import Resources
from timeball.domain.instant import DAY
from timeball.domain.run.lifecycle import Released
from timeball.domain.task.task import Http, Python, Script, Shell
from timeball.ports.store.jobs import Submission
from timeball.ports.store.registry import RegisteredTask
from timeball.ports.store.runs import Claim, SlotRequest
from timeball.ports.store.store import Store
from timeball.stores.sql.runs import claiming

SHELL, HTTP, PYTHON = Shell(command="true"), Http(url="http://a"), Python(function="f")


async def claim(store: Store, *wants: tuple[str, int]) -> dict[str, str]:
    """Which worker got which run, after as many rounds as there is something to look at again."""
    got: list[Claim] = []
    left = dict(wants)
    while True:
        claimed = await store.claim([SlotRequest(session, "", slots) for session, slots in left.items() if slots], 0)
        got += claimed.claims
        for each in claimed.claims:
            left[each.session] -= each.slots
        if not claimed.again:
            return {each.run_id: each.session for each in got}


async def submit(store: Store, count: int = 1, **fields: Any) -> list[str]:
    sent: list[Submission] = [one_shot(store.now(), **fields) for _ in range(count)]
    await store.submit(sent)
    return [each.runs[0].id for each in sent]


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def limited(store: Store) -> None:
    await store.register(worker("w_http", kinds=["http", "python"]), LEASE)


async def test_a_worker_gets_only_runs_of_the_kinds_that_it_takes(store: Store) -> None:
    shells, others = await submit(store, 3, task=SHELL), await submit(store, 2, task=HTTP)
    others += await submit(store, task=PYTHON)
    others += await submit(store, task=Http(url="http://b"), resources=Resources(cpu=1))
    constrained = await submit(store, task=Script(script="a.sh"), resources=Resources(cpu=1))
    assert await claim(store, ("w_http", 50)) == dict.fromkeys(others, "w_http")
    assert await claim(store, ("w_http", 50)) == {}
    assert await claim(store, ("w_1", 50)) == dict.fromkeys([*shells, *constrained], "w_1")


async def test_a_run_that_no_worker_takes_is_in_no_other_ones_way(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claiming, "LOOK_AT", 5)
    await submit(store, 17, task=SHELL, priority="high")
    await submit(store, 17, task=SHELL, priority="high", resources=Resources(cpu=1))
    (wanted,) = await submit(store, task=HTTP, priority="low")
    (other,) = await submit(store, task=HTTP, priority="high", resources=Resources(cpu=1))
    assert await claim(store, ("w_http", 2)) == {wanted: "w_http", other: "w_http"}


async def test_runs_that_have_waited_long_for_their_kind_reserve_no_worker(store: Store) -> None:
    """They take the next free slot. A reservation would keep the other slots of the worker empty."""
    old = [one_shot(store.now() - DAY, task=SHELL, priority=level) for level in ("high", "medium", "low", "low")]
    await store.submit(old)
    assert await claim(store, ("w_http", 5)) == {}
    shells = [each.runs[0].id for each in old]
    assert await claim(store, ("w_1", 1)) == {shells[0]: "w_1"}
    later = await submit(store, 2, task=HTTP)
    claimed = await store.claim([SlotRequest("w_1", "", 5)], 0)
    assert [each.run_id for each in claimed.claims] == [*shells[1:], *later]


async def test_workers_for_all_kinds_take_what_others_left(store: Store) -> None:
    shells, others = await submit(store, 5, task=SHELL), await submit(store, 5, task=HTTP)
    got = await claim(store, ("w_http", 5), ("w_1", 5))
    assert set(got) == {*shells, *others}
    assert {got[run] for run in shells} == {"w_1"}
    assert {got[run] for run in others} == {"w_http"}


async def test_the_kind_of_a_registered_task_counts_also_when_it_changes(store: Store) -> None:
    await store.put_task(_registered("shell", command="true"))
    (run,) = await submit(store, task=None, task_id="t")
    assert await claim(store, ("w_http", 1)) == {}
    await store.put_task(_registered("http", url="http://a"))
    await store.register(worker("w_shell", kinds=["shell"]), LEASE)
    assert await claim(store, ("w_shell", 1)) == {}
    assert await claim(store, ("w_http", 1)) == {run: "w_http"}


@pytest.mark.parametrize("fields", [{}, {"resources": Resources(cpu=1)}])
async def test_a_run_whose_task_changes_its_kind_goes_to_the_worker_that_refused_it(
    store: Store, fields: dict[str, Any]
) -> None:
    """No other worker has to come by before."""
    await store.put_task(_registered("shell", command="true"))
    (run,) = await submit(store, task=None, task_id="t", **fields)
    (other,) = await submit(store, task=SHELL, **fields)
    assert await claim(store, ("w_http", 5)) == {}
    await store.put_task(_registered("shell", command="false"))
    assert await claim(store, ("w_http", 5)) == {}
    await store.put_task(_registered("http", url="http://a"))
    assert await claim(store, ("w_http", 5)) == {run: "w_http"}
    assert await claim(store, ("w_1", 5)) == {other: "w_1"}


def _registered(kind: str, **spec: str) -> RegisteredTask:
    return RegisteredTask(id="t", tenant="default", spec={"kind": kind, **spec}, version=1, updated_at=1)


async def test_what_is_due_when_it_is_submitted_is_not_born_with_such_a_worker(store: Store) -> None:
    sent = one_shot(store.now(), task=SHELL)
    _, claims = await store.submit_and_claim([sent], [SlotRequest("w_http", "", 5)])
    assert not claims
    assert await claim(store, ("w_http", 5)) == {}


async def test_a_run_that_comes_back_still_finds_a_worker_of_its_kind(store: Store) -> None:
    (run,) = await submit(store, task=SHELL)
    assert await claim(store, ("w_http", 5)) == {}
    for _ in range(2):
        (got,) = (await store.claim([SlotRequest("w_http", "", 5), SlotRequest("w_1", "", 5)], 0)).claims
        assert (got.run_id, got.session, got.attempt) == (run, "w_1", 1)
        await store.settle([settlement(got, Released())])


async def test_dedicated_workers_take_labelled_runs_of_their_kinds_only(store: Store) -> None:
    await store.register(worker("w_gpu", kinds=["python"], labels=["gpu"], dedicated=True), LEASE)
    await submit(store, task=PYTHON)
    await submit(store, task=SHELL, runs_on=["gpu"])
    (wanted,) = await submit(store, task=PYTHON, runs_on=["gpu"])
    assert await claim(store, ("w_gpu", 5)) == {wanted: "w_gpu"}


async def test_a_dedicated_worker_for_all_kinds_takes_no_run_that_waits_for_its_kind(store: Store) -> None:
    await store.register(worker("w_gpu", labels=["gpu"], dedicated=True), LEASE)
    await submit(store, task=SHELL)
    assert await claim(store, ("w_http", 5)) == {}
    assert await claim(store, ("w_gpu", 5)) == {}


async def test_workers_are_shown_with_their_kinds_and_no_label_pretends_to_be_one(store: Store) -> None:
    await store.register(worker("w_liar", labels=["@shell", "eu"], kinds=["http"]), LEASE)
    await store.register(worker("w_none", kinds=[]), LEASE)
    shown = {each.session: (each.labels, each.kinds, each.dedicated) for each in await store.workers()}
    assert shown["w_liar"] == (["eu"], ["http"], False)
    assert shown["w_none"] == ([], [], False)
    assert shown["w_1"] == ([], None, False)
    await submit(store, task=SHELL)
    assert await claim(store, ("w_liar", 5), ("w_none", 5)) == {}


async def test_runs_whose_task_cannot_be_read_are_in_no_other_ones_way(
    store: Store, tamper: Tamper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claiming, "LOOK_AT", 5)
    strange = await submit(store, 7, task=SHELL, priority="high")
    for run in strange:
        await tamper(f"UPDATE runs SET spec = '{{\"task\": {{\"kind\": 7}}}}' WHERE id = '{run}'")
    (wanted,) = await submit(store, task=HTTP, priority="low")
    assert await claim(store, ("w_http", 2)) == {wanted: "w_http"}
    assert await claim(store, ("w_1", 50)) == dict.fromkeys(strange, "w_1")
