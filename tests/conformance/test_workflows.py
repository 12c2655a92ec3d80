"""Workflow runs: each task gets one run, after the tasks that it needs, however many servers advance the workflow
(I19)."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from tests.conformance.conftest import Tamper
from tests.conformance.test_retention import prune
from tests.support.builders import LEASE, one_shot, recurring, settlement, worker
from tests.support.thorough import THOROUGH
from timeball.domain.instant import DAY, SECOND
from timeball.domain.job.job import JobState
from timeball.domain.run.ledger import Origin, Verdict
from timeball.domain.run.lifecycle import Cancelled, Failed, Failure, Outcome, Succeeded
from timeball.domain.run.run import Run, new_run
from timeball.domain.run.status import Status
from timeball.domain.task.retry import Retry
from timeball.domain.task.task import Shell
from timeball.domain.workflow.definition import Workflow, WorkflowTask
from timeball.domain.workflow.progress import TaskState
from timeball.ports.store.changes import ChangeBatch
from timeball.ports.store.jobs import Amendment, Submission
from timeball.ports.store.runs import Claim, SlotRequest
from timeball.ports.store.store import Store
from timeball.ports.store.workflows import WorkflowRun
from timeball.ports.worker_protocol import LOCAL_KEY
from timeball.stores.sql.dialect import Query
from timeball.stores.sql.driver import Row, Tx, Work
from timeball.stores.sql.schema.table import Table

TRUE = Shell(command="true")
BROKEN = Failed(Failure(kind="exit", message="exit code 3", exit_code=3))
NO_RETRY = Retry(max_retries=0)
Worker = Callable[[str, dict[str, Any]], Outcome]


def task(name: str, *needs: str, **fields: Any) -> WorkflowTask:
    return WorkflowTask(name=name, needs=list(needs), **{"task": TRUE, "retry": NO_RETRY, **fields})


def flow(store: Store, *tasks: WorkflowTask, **fields: Any) -> Submission:
    """A workflow that is due now."""
    return one_shot(store.now(), task=Workflow(list(tasks)), name="flow", **fields)


def well(name: str, parameters: dict[str, Any]) -> Outcome:
    return Succeeded(Raw(msgspec.json.encode({"by": name})))


def name_of(claim: Claim) -> str:
    return str(msgspec.json.decode(claim.spec)["name"]).partition("/")[2]


class Crew:
    """Workers that do what they are told, and remember what they did."""

    def __init__(self, *stores: Store, work: Worker = well) -> None:
        self._stores = stores
        self._work = work
        self.ran: list[str] = []
        self.parameters: dict[str, dict[str, Any]] = {}

    async def advance_workflows(self) -> bool:
        done = await asyncio.gather(*(store.advance_workflows(500) for store in self._stores))
        return any(each.anything for each in done)

    async def settle(self, limit: int = 10_000) -> int:
        store = self._stores[-1]
        claims = (await store.claim([SlotRequest("w_1", "", limit)], 0)).claims
        outcomes = []
        for claim in claims:
            name, parameters = name_of(claim), msgspec.json.decode(claim.spec).get("parameters", {})
            self.ran.append(name)
            self.parameters[name] = parameters
            outcomes.append(settlement(claim, self._work(name, parameters), at=store.now()))
        await store.settle(outcomes)
        return len(claims)

    async def drive(self, run_id: str, limit: int = 10_000) -> Run:
        """Until the workflow run has ended."""
        for rounds in itertools.count():
            if rounds % 500 == 499:  # its lease is shorter than a long workflow
                await self._stores[-1].renew([("w_1", LOCAL_KEY)], LEASE)
            is_workflow_task = await self.advance_workflows()
            settled = await self.settle(limit)
            run = (await self._stores[0].runs([run_id]))[run_id]
            if run.is_terminal:
                return run
            assert is_workflow_task or settled, f"it is stuck: {await states(self._stores[0], run_id)}"
        raise AssertionError("it never ends")


async def begin(store: Store, *tasks: WorkflowTask, **fields: Any) -> str:
    submission = flow(store, *tasks, **fields)
    await store.submit([submission])
    return submission.runs[0].id


async def states(store: Store, run_id: str) -> dict[str, str]:
    found = await store.workflow_run(run_id)
    assert found is not None
    return {each.name: each.state.value for each in found.tasks}


async def shown(store: Store, run_id: str) -> WorkflowRun:
    found = await store.workflow_run(run_id)
    assert found is not None
    return found


DIAMOND = (task("a"), task("b", "a"), task("c", "a"), task("d", "b", "c"))


async def test_tasks_run_once_each_after_what_they_need(store: Store) -> None:
    run_id = await begin(store, *DIAMOND)
    crew = Crew(store)
    run = await crew.drive(run_id)
    assert (run.status, run.verdict, run.origin) == (Status.SUCCEEDED, Verdict.ON_TIME, Origin.SCHEDULE)
    assert run.result is not None
    assert msgspec.json.decode(run.result) == {"tasks": 4, "succeeded": 4, "failed": 0, "skipped": 0}
    assert (crew.ran[0], set(crew.ran[1:3]), crew.ran[3:]) == ("a", {"b", "c"}, ["d"])
    assert await states(store, run_id) == dict.fromkeys("abcd", "succeeded")
    assert await store.next_workflow_at() is None


async def test_no_worker_gets_the_workflow_itself(store: Store) -> None:
    await begin(store, *DIAMOND)
    assert (await store.claim([SlotRequest("w_1", "", 10)], SECOND)).claims == []
    assert await store.next_eligible_at() is None


async def test_a_run_that_a_workflow_is_waiting_for_is_nobody_elses_to_rescue(store: Store) -> None:
    run_id = await begin(store, *DIAMOND)
    await store.advance_workflows(500)
    assert await store.lapsed(10) == []
    run = (await store.runs([run_id]))[run_id]
    assert (run.status, run.attempt) == (Status.RUNNING, 1)


async def test_results_of_parents_are_parameters_of_children(store: Store) -> None:
    run_id = await begin(
        store,
        task("a"),
        task("b", "a", parameters={"from": {"$result": "a", "path": "/by"}, "day": {"$parameter": "day"}}),
        parameters={"day": 3},
    )
    crew = Crew(store)
    await crew.drive(run_id)
    assert crew.parameters["b"] == {"from": "a", "day": 3}
    tasks = await shown(store, run_id)
    spec = (await store.specs([str(tasks.tasks[1].run_id)]))[str(tasks.tasks[1].run_id)]
    assert spec.spec.parameters == {"from": "a", "day": 3}


async def test_a_missing_result_fails_the_task_and_says_what_is_missing(store: Store) -> None:
    run_id = await begin(
        store,
        task("a"),
        task("b", "a", parameters={"x": {"$result": "a", "path": "/rows"}}),
        task("c", "b", run_if="always", parameters={"x": {"$result": "b"}}),
    )
    run = await Crew(store).drive(run_id)
    assert run.status is Status.FAILED
    assert run.failure is not None
    assert "there is no /rows in the result of task a" in run.failure.message
    reasons = {each.name: each.reason for each in (await shown(store, run_id)).tasks}
    assert reasons["c"] == "there is no result of task b: it failed"


async def test_a_large_result_is_asked_for_before_who_uses_it_begins(store: Store) -> None:
    key = "results/0000000000000001/2026/11/15/r_0.json"
    large = Succeeded(Raw(f"@{key}".encode()))
    run_id = await begin(
        store, task("a"), task("b", "a", parameters={"x": {"$result": "a", "path": "/0"}}), task("c", "a")
    )
    crew = Crew(store, work=lambda name, _: large if name == "a" else Succeeded())
    await crew.advance_workflows()
    await crew.settle()
    done = await store.advance_workflows(500)
    assert (done.made, done.wants) == (1, (key,))
    assert not (await store.advance_workflows(500)).anything
    assert (await store.advance_workflows(500, {key: b"[7]"})).made == 1
    await crew.drive(run_id)
    assert crew.parameters["b"] == {"x": 7}


async def test_rules_decide_who_runs_after_a_failure(store: Store) -> None:
    run_id = await begin(
        store,
        task("a"),
        task("b", "a"),
        task("after", "b"),
        task("alarm", "after", run_if="any_failed"),
        task("clean", "alarm", "after", run_if="always"),
        task("calm", "a", run_if="any_failed"),
        task("calmer", "calm"),
    )
    crew = Crew(store, work=lambda name, _: BROKEN if name == "b" else well(name, {}))
    run = await crew.drive(run_id)
    assert run.status is Status.FAILED
    assert run.failure is not None
    assert run.failure.message == "task b: exit code 3"
    assert await states(store, run_id) == {
        "a": "succeeded",
        "b": "failed",
        "after": "skipped",
        "alarm": "succeeded",
        "clean": "succeeded",
        "calm": "skipped",
        "calmer": "skipped",
    }
    reasons = {each.name: each.reason for each in (await shown(store, run_id)).tasks}
    assert reasons["after"] == "task b did not succeed"
    assert reasons["calm"] == "none of the tasks it needs failed"
    tasks = {each.name: each.run_id for each in (await shown(store, run_id)).tasks}
    dead = (await store.runs([str(tasks["b"])]))[str(tasks["b"])]
    assert (dead.status, dead.origin) == (Status.FAILED, Origin.TASK)


async def test_a_task_is_tried_as_often_as_its_policy_says_before_it_fails(store: Store) -> None:
    run_id = await begin(store, task("a", retry=Retry(max_retries=2, backoff=["0s"])), task("b", "a"))
    tries = Counter[str]()

    def twice(name: str, _: dict[str, Any]) -> Outcome:
        tries[name] += 1
        return BROKEN if name == "a" and tries[name] <= 2 else Succeeded()

    run = await Crew(store, work=twice).drive(run_id)
    assert run.status is Status.SUCCEEDED
    assert tries == {"a": 3, "b": 1}


async def test_a_fan_out_runs_once_for_each_item_and_joins_in_order(store: Store) -> None:
    run_id = await begin(
        store,
        task("list"),
        task("each", "list", for_each={"$result": "list", "path": "/rows"}, parameters={"x": {"$item": "/id"}}),
        task("sum", "each", parameters={"all": {"$result": "each"}}),
        task("none", for_each=[]),
        task("of-none", "none", parameters={"all": {"$result": "none"}}),
    )
    seen: list[Any] = []

    def work(name: str, parameters: dict[str, Any]) -> Outcome:
        if name == "list":
            return Succeeded(Raw(msgspec.json.encode({"rows": [{"id": at} for at in range(7)]})))
        seen.append(parameters)
        return Succeeded(Raw(msgspec.json.encode(parameters.get("x", -1) * 10)))

    crew = Crew(store, work=work)
    run = await crew.drive(run_id, limit=3)
    assert run.status is Status.SUCCEEDED
    assert crew.parameters["sum"] == {"all": [0, 10, 20, 30, 40, 50, 60]}
    assert crew.parameters["of-none"] == {"all": []}
    assert sorted(each["x"] for each in seen if "x" in each) == list(range(7))
    found = await shown(store, run_id)
    assert [(each.name, each.index) for each in found.instances] == [("each", at) for at in range(7)]
    assert len({each.run_id for each in found.instances}) == 7


async def test_a_fan_out_fails_when_all_have_ended_and_one_failed(store: Store) -> None:
    run_id = await begin(
        store, task("each", for_each=[0, 1, 2], parameters={"x": {"$item": ""}}), task("after", "each")
    )
    crew = Crew(store, work=lambda _, parameters: BROKEN if parameters["x"] == 1 else Succeeded())
    run = await crew.drive(run_id)
    assert run.status is Status.FAILED
    (each, after) = (await shown(store, run_id)).tasks
    assert each.reason == "1 of 3 instances did not succeed; the first: exit code 3"
    assert after.state is TaskState.SKIPPED
    assert crew.ran == ["each"] * 3


async def test_two_servers_that_look_at_once_make_each_run_once(stores: tuple[Store, Store]) -> None:
    one, other = stores
    await one.register(worker("w_1"), LEASE)
    tasks = [task("a"), *(task(f"m{at}", "a") for at in range(8)), task("z", *(f"m{at}" for at in range(8)))]
    run_id = await begin(one, *tasks)
    crew = Crew(one, other, one, other)
    run = await crew.drive(run_id, limit=3)
    assert run.status is Status.SUCCEEDED
    assert Counter(crew.ran) == Counter(each.name for each in tasks)


async def test_a_report_that_is_repeated_tells_nobody_twice(store: Store) -> None:
    run_id = await begin(store, task("a"), task("b", "a"), task("c", "a", "b"))
    await store.advance_workflows(500)
    (claim,) = (await store.claim([SlotRequest("w_1", "", 1)], 0)).claims
    report = settlement(claim, Succeeded(), at=store.now())
    first, second = await asyncio.gather(store.settle([report]), store.settle([report]))
    assert sorted(each is None for each in (*first, *second)) == [False, True]
    await store.advance_workflows(500)
    assert await store.settle([report]) == [None]
    await store.advance_workflows(500)
    waits = {each.name: each.waits for each in (await shown(store, run_id)).tasks}
    assert waits == {"a": 0, "b": 0, "c": 1}


async def test_a_cancel_ends_what_waits_asks_what_runs_and_makes_no_more(store: Store) -> None:
    run_id = await begin(store, task("a"), task("b"), task("c", "a"))
    await store.advance_workflows(500)
    (claim,) = (await store.claim([SlotRequest("w_1", "", 1)], 0)).claims
    (cancelling,) = await store.request_cancel([run_id])
    assert cancelling is not None
    assert cancelling.status is Status.RUNNING
    assert (await store.claim([SlotRequest("w_1", "", 5)], 0)).claims == []
    assert [token for _, token, _ in (await store.worker_orders()).cancels] == [claim.token]
    await store.advance_workflows(500)
    assert (await store.runs([run_id]))[run_id].status is Status.RUNNING
    await store.settle([settlement(claim, Cancelled(), at=store.now())])
    await store.advance_workflows(500)
    run = (await store.runs([run_id]))[run_id]
    assert (run.status, run.verdict) == (Status.CANCELLED, Verdict.CANCELLED)
    assert await states(store, run_id) == dict.fromkeys("abc", "cancelled")
    assert await store.next_workflow_at() is None


async def test_a_cancel_wins_over_the_success_of_the_last_task(store: Store) -> None:
    run_id = await begin(store, task("a"))
    await store.advance_workflows(500)
    await Crew(store).settle()
    await store.request_cancel([run_id])
    while (await store.advance_workflows(500)).anything:
        pass
    assert (await store.runs([run_id]))[run_id].status is Status.CANCELLED


async def test_deleting_the_job_cancels_its_workflow_run_with_all_tasks(store: Store) -> None:
    submission = flow(store, task("a"), task("b"), task("c", "a"))
    await store.submit([submission])
    run_id = submission.runs[0].id
    await store.advance_workflows(500)
    job = (await store.jobs([submission.job.id]))[submission.job.id].job
    await store.amend(
        [Amendment(job=job, spec=job.spec, state=JobState.CANCELLED, keep_schedule=False, cancel_runs=True)]
    )
    while (await store.advance_workflows(500)).anything:
        pass
    assert (await store.runs([run_id]))[run_id].status is Status.CANCELLED
    assert (await store.claim([SlotRequest("w_1", "", 5)], 0)).claims == []


async def test_a_run_goes_on_with_the_tasks_it_began_with(store: Store) -> None:
    submission = flow(store, task("a"), task("b", "a"))
    await store.submit([submission])
    await store.advance_workflows(500)
    job = (await store.jobs([submission.job.id]))[submission.job.id].job
    edited = msgspec.structs.replace(job.spec, task=Workflow([task("new")]))
    await store.amend([Amendment(job=job, spec=edited, state=JobState.ACTIVE, keep_schedule=True)])
    crew = Crew(store)
    run = await crew.drive(submission.runs[0].id)
    assert run.status is Status.SUCCEEDED
    assert crew.ran == ["a", "b"]


async def test_a_run_that_fell_due_before_an_edit_begins_with_the_old_tasks(store: Store) -> None:
    submission = flow(store, task("a"))
    await store.submit([submission])
    job = (await store.jobs([submission.job.id]))[submission.job.id].job
    edited = msgspec.structs.replace(job.spec, task=Workflow([task("new")]))
    await store.amend([Amendment(job=job, spec=edited, state=JobState.ACTIVE, keep_schedule=True)])
    crew = Crew(store)
    await crew.drive(submission.runs[0].id)
    assert crew.ran == ["a"]


async def retry(store: Store, run_id: str) -> str:
    """As `operation.runs.retry_run` does it."""
    old = (await store.runs([run_id]))[run_id]
    job = (await store.jobs([old.job_id]))[old.job_id].job
    spec = (await store.specs([run_id]))[run_id].spec
    now = store.now()
    successor = new_run(job, f"r_{now // 1000:012x}{1:016x}", Origin.RETRY, now, now, retry_of=run_id, edited=spec)
    assert await store.repeat([(run_id, successor)]) == [Status.QUEUED]
    return successor.id


async def test_a_retry_runs_what_failed_and_what_was_skipped_for_it(store: Store) -> None:
    run_id = await begin(
        store,
        task("a"),
        task("b", "a"),
        task("c", "a", "b", parameters={"a": {"$result": "a"}, "b": {"$result": "b"}}),
        task("each", for_each=[0, 1, 2], parameters={"x": {"$item": ""}}),
        task("last", "c", "each"),
    )
    healed = False

    def work(name: str, parameters: dict[str, Any]) -> Outcome:
        ill = not healed and (name == "b" or (name == "each" and parameters["x"] == 1))
        return BROKEN if ill else well(name, parameters)

    first = Crew(store, work=work)
    assert (await first.drive(run_id)).status is Status.FAILED
    assert Counter(first.ran) == {"a": 1, "b": 1, "each": 3}
    healed = True
    second = Crew(store, work=work)
    again = await retry(store, run_id)
    run = await second.drive(again)
    assert (run.status, run.retry_of) == (Status.SUCCEEDED, run_id)
    assert Counter(second.ran) == {"b": 1, "c": 1, "each": 1, "last": 1}
    assert second.parameters["c"] == {"a": {"by": "a"}, "b": {"by": "b"}}
    assert await states(store, again) == dict.fromkeys(("a", "b", "c", "each", "last"), "succeeded")
    assert (await states(store, run_id))["b"] == "failed"


async def test_a_retry_leaves_alone_what_followed_a_task_that_had_no_reason_to_run(store: Store) -> None:
    run_id = await begin(
        store,
        task("a"),
        task("alarm", "a", run_if="any_failed"),
        task("tidy", "alarm", run_if="always"),
        task("broken"),
        task("report", "alarm", "broken"),
    )
    first = Crew(store, work=lambda name, parameters: BROKEN if name == "broken" else well(name, parameters))
    assert (await first.drive(run_id)).status is Status.FAILED
    assert sorted(first.ran) == ["a", "broken", "tidy"]
    second = Crew(store)
    again = await retry(store, run_id)
    run = await second.drive(again)
    assert (run.status, second.ran) == (Status.SUCCEEDED, ["broken"])
    assert run.result is not None
    assert msgspec.json.decode(run.result) == {"tasks": 5, "succeeded": 3, "failed": 0, "skipped": 2}
    found = await states(store, again)
    assert found == {
        "a": "succeeded",
        "alarm": "skipped",
        "tidy": "succeeded",
        "broken": "succeeded",
        "report": "skipped",
    }


async def test_the_current_run_of_a_workflow_is_no_task_of_it(store: Store) -> None:
    run_id = await begin(store, task("a"))
    await store.advance_workflows(500)
    [claim] = (await store.claim([SlotRequest("w_1", "", 1)], 0)).claims
    current = await store.current_run((await store.runs([run_id]))[run_id].job_id)
    assert current is not None
    assert (claim.run_id != run_id, current.id) == (True, run_id)


async def test_a_task_cannot_be_retried_or_replayed_by_itself(store: Store) -> None:
    run_id = await begin(store, task("a"))
    await Crew(store, work=lambda *_: BROKEN).drive(run_id)
    failed = str((await shown(store, run_id)).tasks[0].run_id)
    old = (await store.runs([failed]))[failed]
    job = (await store.jobs([old.job_id]))[old.job_id].job
    now = store.now()
    successor = new_run(job, f"r_{now // 1000:012x}{2:016x}", Origin.RETRY, now, now, retry_of=failed)
    assert await store.repeat([(failed, successor)]) == [None]
    assert await store.workflow_runs_of([failed]) == {failed: run_id}
    circumstances = await store.circumstances(failed)
    assert circumstances is not None
    assert circumstances.part_of == run_id


async def test_the_next_fire_waits_until_the_workflow_run_has_ended(store: Store) -> None:
    submission = recurring(store.now(), task=Workflow([task("a"), task("b", "a")]), next_fire_at=store.now())
    await store.submit([submission])
    job = (await store.jobs([submission.job.id]))[submission.job.id].job
    now = store.now()
    runs = [new_run(job, f"r_{now // 1000:012x}{at:016x}", Origin.MANUAL, now, now) for at in (5, 6)]
    assert await store.trigger(runs) == [Status.QUEUED, Status.BLOCKED]
    crew = Crew(store)
    await crew.drive(runs[0].id)
    assert crew.ran == ["a", "b"]
    await crew.drive(runs[1].id)
    assert crew.ran == ["a", "b", "a", "b"]


async def test_one_that_cannot_be_read_keeps_no_other_from_going_on(store: Store, tamper: Tamper) -> None:
    broken = await begin(store, *DIAMOND)
    other = await begin(store, *DIAMOND)
    await store.advance_workflows(500)
    await tamper(f"UPDATE workflow_nodes SET definition = '?' WHERE flow_id = '{broken}'")
    assert (await Crew(store).drive(other)).status is Status.SUCCEEDED
    assert (await store.runs([broken]))[broken].status is Status.RUNNING
    seen = await store.advance_workflows(500)
    assert (seen.anything, seen.last) == (False, broken)
    assert (await store.advance_workflows(500, after=seen.last)).last == ""


async def test_what_a_workflow_run_may_need_is_kept_until_it_has_ended(store: Store, tamper: Tamper) -> None:
    run_id = await begin(store, task("a"), task("b", "a", parameters={"x": {"$result": "a", "path": "/by"}}))
    crew = Crew(store)
    await crew.advance_workflows()
    await crew.settle()
    made = str((await shown(store, run_id)).tasks[0].run_id)
    long_ago = store.now() - 40 * DAY
    old = f"r_{long_ago // 1000:012x}{7:016x}"
    await tamper(f"UPDATE history SET id = '{old}', finished_at = {long_ago} WHERE id = '{made}'")
    await tamper(f"UPDATE workflow_tasks SET run_id = '{old}' WHERE run_id = '{made}'")
    await prune(store)
    assert (await crew.drive(run_id)).status is Status.SUCCEEDED
    assert crew.parameters["b"] == {"x": "a"}
    await prune(store)
    assert await store.runs([old]) == {}
    older = f"r_{long_ago // 1000:012x}{8:016x}"
    await tamper(f"UPDATE history SET id = '{older}', finished_at = {long_ago} WHERE id = '{run_id}'")
    for table, column in (("workflow_runs", "id"), ("workflow_tasks", "flow_id"), ("workflow_nodes", "flow_id")):
        await tamper(f"UPDATE {table} SET {column} = '{older}' WHERE {column} = '{run_id}'")
    await prune(store)
    assert await store.workflow_run(older) is None


# --- what it costs ------------------------------------------------------------------------------------------------


class _Meter:
    """A transaction that counts statements, and rows that are read or written."""

    is_watched = False

    def __init__(self, tx: Tx, counted: Counter[str]) -> None:
        self._tx = tx
        self._counted = counted

    @property
    def changes(self) -> list[ChangeBatch]:
        return self._tx.changes

    async def fetch(self, query: Query, **parameters: Any) -> list[Row]:
        rows = await self._tx.fetch(query, **parameters)
        self._count(len(rows), parameters)
        return rows

    async def execute(self, query: Query, **parameters: Any) -> int:
        self._count(0, parameters)
        return await self._tx.execute(query, **parameters)

    async def insert(self, table: Table, rows: Sequence[Row], **same: Any) -> None:
        self._count(len(rows), {})
        await self._tx.insert(table, rows, **same)

    async def insert_missing(self, table: Table, rows: Sequence[Row]) -> None:
        self._count(len(rows), {})
        await self._tx.insert_missing(table, rows)

    async def tokens(self, count: int) -> Sequence[int]:
        return await self._tx.tokens(count)

    def _count(self, rows: int, parameters: dict[str, Any]) -> None:
        self._counted["statements"] += 1
        self._counted["rows"] += rows + len(parameters.get("b", ()))


def chain(size: int) -> list[WorkflowTask]:
    return [task(f"t{at}", *([f"t{at - 1}"] if at else [])) for at in range(size)]


def fan(size: int) -> list[WorkflowTask]:
    return [task("root"), *(task(f"t{at}", "root") for at in range(size - 1))]


def diamond(size: int) -> list[WorkflowTask]:
    names = [f"t{at}" for at in range(size - 2)]
    return [task("root"), *(task(name, "root") for name in names), task("end", *names)]


async def cost(store: Store, monkeypatch: pytest.MonkeyPatch, tasks: list[WorkflowTask]) -> Counter[str]:
    """What one task costs, of a workflow that is driven to its end."""
    run_id = await begin(store, *tasks)
    counted: Counter[str] = Counter()
    driver = store._db  # type: ignore[attr-defined]
    write, read = driver.write, driver.read

    def metered(work: Work[Any]) -> Work[Any]:
        async def counting(tx: Tx) -> Any:
            return await work(_Meter(tx, counted))

        return counting

    with monkeypatch.context() as patched:
        patched.setattr(driver, "write", lambda work, **how: write(metered(work), **how))
        patched.setattr(driver, "read", lambda work, **how: read(metered(work), **how))
        run = await Crew(store).drive(run_id, limit=50)
    assert run.status is Status.SUCCEEDED
    return Counter({what: round(100 * count / len(tasks)) for what, count in counted.items()})


@pytest.mark.timeout(400)
@pytest.mark.parametrize("shape", [chain, fan, diamond])
async def test_a_task_costs_the_same_in_a_large_workflow(
    store: Store, monkeypatch: pytest.MonkeyPatch, shape: Callable[[int], list[WorkflowTask]]
) -> None:
    """No step is quadratic: with ten times the tasks, each asks for as many rows and statements as before. Of many
    tasks that may begin at once, one look begins some, and writes down the others: a little more for each."""
    small, large = (500, 5_000) if THOROUGH else (15, 60) if shape is chain else (40, 300)
    before = await cost(store, monkeypatch, shape(small))
    after = await cost(store, monkeypatch, shape(large))
    assert after["statements"] <= before["statements"] * 1.25
    assert after["rows"] <= before["rows"] * 1.25
