"""Workflows in worlds of their own, the theme `workflows`: the requests of users, and the checks of their results.

Other worlds have no workflows, and their servers do not run the workflow advancer, so the traces of their seeds stay
the same.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from tests.simulation.records import Micros, Request, Violation
from tests.simulation.weather import S
from timeball.domain.dispatch.overlap import Overlap
from timeball.domain.errors import TimeballError, Unavailable
from timeball.domain.job.job import JobSpec, workflow_of
from timeball.domain.run.ledger import Origin
from timeball.domain.run.run import Run
from timeball.domain.run.status import Status
from timeball.domain.task.retry import Retry
from timeball.domain.task.task import Shell
from timeball.domain.workflow.definition import Workflow, WorkflowTask
from timeball.domain.workflow.progress import TaskState
from timeball.operation.context import OperationContext
from timeball.operation.jobs.submit import NewJob
from timeball.operation.runs.cancel import cancel_job, cancel_run
from timeball.operation.runs.retry_run import retry_run
from timeball.operation.runs.run_now import run_now
from timeball.ports.store.queries import RunFilter
from timeball.ports.store.workflows import TaskOfRun, WorkflowRun

if TYPE_CHECKING:
    from tests.simulation.checker import Checker
    from tests.simulation.network import Handler
    from tests.simulation.world import World

THEME = "workflows"
FIRST_UID = 1_000_000
"""Larger than the numbers of jobs."""
STORIES = 3

Action = Callable[[OperationContext, str, str], Coroutine[Any, Any, object]]
"""An operation on a job or a run: it takes the tenant and the id."""


@dataclass(slots=True)
class Asked:
    """The requests of a user about one workflow."""

    uid: int
    tenant: str
    spec: JobSpec
    requests: list[Request] = field(default_factory=list)


# --- what users do ------------------------------------------------------------------------------------------------


def specification(rng: Random, uid: int) -> JobSpec:
    tasks: list[WorkflowTask] = []
    for place in range(rng.randrange(3, 12)):
        needs = sorted(rng.sample(range(place), min(place, rng.choice((0, 1, 1, 2, 3)))))
        behave = {
            "length": rng.choice((1_000, 20_000, 200_000, S)),
            "fails": rng.choice((0, 0, 0, 0.3, 1)),
            "poison": 0,
            "stubborn": rng.random() < 0.1,
            "talks": False,
        }
        parameters: dict[str, Any] = {"uid": uid, "rev": 0, "behave": behave}
        if needs and not isinstance(tasks[needs[0]].for_each, list):
            parameters["got"] = {"$result": f"t{needs[0]}", "path": "/token", "default": None}
        more: dict[str, Any] = {"for_each": list(range(rng.choice((0, 1, 3))))} if rng.random() < 0.2 else {}
        tasks.append(
            WorkflowTask(
                name=f"t{place}",
                task=Shell(command="true"),
                needs=[f"t{need}" for need in needs],
                run_if=rng.choice(("all_succeeded", "all_succeeded", "always", "any_failed")) if needs else "always",
                parameters=parameters,
                retry=Retry(max_retries=rng.choice((0, 1, 2)), backoff="fixed", base=rng.choice((0, 1)), cap="5s"),
                **more,
            )
        )
    overlap = rng.choice((Overlap.ALLOW, Overlap.QUEUE, Overlap.SKIP, Overlap.CANCEL_PREVIOUS))
    return JobSpec(name=f"flow-{uid}", task=Workflow(tasks), parameters={"uid": uid}, overlap=overlap)


async def story(world: World, number: int) -> None:
    """One user with one workflow, which is run again, cancelled and retried."""
    rng = Random(f"{world.seed} {THEME} {number}")
    uid = FIRST_UID + number
    asked = Asked(uid, world.tenants.of(uid), specification(rng, uid))
    world.flows.append(asked)
    await world.sleep(int(rng.random() ** 2 * max(0, world.calm_at - world.now)))
    new = NewJob(asked.tenant, asked.spec)

    async def submit(server: Any) -> Any:
        [created] = await world.submit_of(server)([new])
        if isinstance(created, TimeballError):
            raise created
        return created

    await _ask(world, asked, "submit", submit)
    while world.now < world.calm_at and rng.random() < 0.9:
        await world.sleep(int(rng.random() ** 2 * 10 * S))
        job_id = _job_id(world, asked)
        if world.now >= world.calm_at or job_id is None:
            return
        runs = [run for run in _runs(world, asked, job_id) if run.origin is not Origin.TASK]
        kind = rng.choice(("run_now", "cancel_run", "cancel_task", "retry_run", "retry_run"))
        if rng.random() < 0.05:
            await _about_job(world, asked, "cancel", cancel_job, job_id)
        elif kind == "run_now":
            await _about_job(world, asked, kind, run_now, job_id)
        elif kind == "retry_run":
            unlucky = [run for run in runs if run.status in (Status.FAILED, Status.CANCELLED) and not run.retried_as]
            if unlucky:
                await _about(world, asked, kind, retry_run, rng.choice(unlucky).id)
        else:
            live = [run for run in _runs(world, asked, job_id) if not run.is_terminal]
            mine = [run for run in live if (run.origin is Origin.TASK) is (kind == "cancel_task")]
            if mine and rng.random() < 0.5:
                await _about(world, asked, kind, cancel_run, rng.choice(mine).id)


async def _about_job(world: World, asked: Asked, kind: str, action: Action, job_id: str) -> None:
    await _ask(world, asked, kind, lambda server: action(server.context, asked.tenant, job_id))


async def _about(world: World, asked: Asked, kind: str, action: Action, run_id: str) -> None:
    await _ask(world, asked, kind, lambda server: action(server.context, asked.tenant, run_id), run_id)


async def _ask(world: World, asked: Asked, kind: str, handler: Handler, run_id: str | None = None) -> None:
    request = Request(kind, asked.uid, world.now, run_id=run_id)
    asked.requests.append(request)
    try:
        request.answer = await world.network.call("client", world.rng.choice(world.servers), handler, 12 * S, request)
        request.outcome = "ok"
    except Unavailable:
        request.outcome = "unknown"
    except TimeballError as error:
        request.outcome, request.answer = "refused", error
    request.answered = world.now
    world.trace(kind, asked.uid, run_id, request.outcome, request.invoked)


def _job_id(world: World, asked: Asked) -> str | None:
    found = [status.job.id for status in world.jobs() if status.job.spec.parameters["uid"] == asked.uid]
    return found[0] if found else None


def _runs(world: World, asked: Asked, job_id: str) -> list[Run]:
    found: list[Run] = world.read("list_runs", RunFilter(tenant=asked.tenant, job_id=job_id), None, 100_000).items
    whole = world.read("runs", [run.id for run in found])  # lists do not contain results
    return [whole.get(run.id, run) for run in found]


# --- what must hold -----------------------------------------------------------------------------------------------


def each_task_once(checker: Checker) -> None:
    """I19: a task runs if and only if its rule holds, once, after the tasks that it needs, and with their results."""
    world = checker.world
    for asked in world.flows:
        job_id = _job_id(world, asked)
        if job_id is None:
            if any(request.kind == "submit" and request.outcome == "ok" for request in asked.requests):
                raise Violation("I1", f"workflow {asked.uid} was acknowledged and is gone")
            continue
        runs = {run.id: run for run in _runs(world, asked, job_id)}
        known: set[str] = set()
        for flow in runs.values():
            if flow.origin is not Origin.TASK:
                known |= _check_flow(checker, asked, flow, runs)
        orphans = [run for run in runs.values() if run.origin is Origin.TASK and run.id not in known]
        if orphans:
            raise Violation("I19", f"{asked.spec.name}: {len(orphans)} runs are no task's, such as {orphans[0]}")


def _check_flow(checker: Checker, asked: Asked, flow: Run, runs: dict[str, Run]) -> set[str]:
    """Check a workflow run. Return the runs of its tasks."""
    shown: WorkflowRun | None = checker.world.read("workflow_run", flow.id)
    if shown is None:
        if flow.status in (Status.SUCCEEDED, Status.FAILED):
            raise Violation("I19", f"{flow} ended, and never had a task")
        return set()
    instances: dict[str, list[TaskOfRun]] = {task.name: [] for task in shown.tasks}
    for each in shown.instances:
        instances[each.name].append(each)
    own = {
        task.name: [each.run_id for each in (task, *instances[task.name]) if each.run_id is not None]
        for task in shown.tasks
    }
    states = {task.name: task.state for task in shown.tasks}
    if flow.status in (Status.SUCCEEDED, Status.FAILED):
        _check_rules(asked, flow, states, own, runs)
    _check_order(checker, asked, states, own)
    _check_cancel(asked, flow, own, runs)
    return {run_id for of_task in own.values() for run_id in of_task}


def _check_rules(
    asked: Asked, flow: Run, states: dict[str, TaskState], own: dict[str, list[str]], runs: dict[str, Run]
) -> None:
    """Check which tasks ran. That is computed here from how the other tasks ended."""
    ill: dict[str, bool] = {}
    for task in workflow_of(asked.spec):
        state = states[task.name]
        failed = any(ill[need] for need in task.needs)
        unmet = any(states[need] is not TaskState.SUCCEEDED for need in task.needs)
        runs_if = {"all_succeeded": not unmet, "any_failed": failed, "always": True}[task.run_if]
        if runs_if is (state is TaskState.SKIPPED):
            raise Violation("I19", f"task {task.name} of {flow} is {state}, but its rule says run: {runs_if}")
        ill[task.name] = state in (TaskState.FAILED, TaskState.CANCELLED) or (state is TaskState.SKIPPED and failed)
        wanted = 0 if not runs_if else len(task.for_each) if isinstance(task.for_each, list) else 1
        if len(own[task.name]) != wanted or len(set(own[task.name])) != wanted:
            raise Violation("I19", f"task {task.name} of {flow} has the runs {own[task.name]}; {wanted} are right")
        ends = {runs[run_id].status for run_id in own[task.name]}
        if runs_if and (state is TaskState.SUCCEEDED) is not (ends <= {Status.SUCCEEDED}):
            raise Violation("I19", f"task {task.name} of {flow} is {state}, but its runs ended as {ends}")
    broken = any(state in (TaskState.FAILED, TaskState.CANCELLED) for state in states.values())
    if broken is not (flow.status is Status.FAILED):
        raise Violation("I19", f"{flow} ended so, with its tasks as {states}")


def _check_order(checker: Checker, asked: Asked, states: dict[str, TaskState], own: dict[str, list[str]]) -> None:
    """Check that no task begins before the tasks that it needs have ended, and that it gets their results."""
    began: dict[str, Micros] = {}
    got: dict[str, Any] = {}
    for witness in checker.world.witnesses:
        began.setdefault(witness.run_id, witness.start)
        got[witness.run_id] = witness.spec.parameters.get("got")
    auditor = checker.auditor
    for task in workflow_of(asked.spec):
        for run_id in own[task.name]:
            if run_id not in began:
                continue
            for before in (each for need in task.needs for each in own[need]):
                ended = auditor.ended.get(before)
                if ended is None or ended[0] > began[run_id]:
                    raise Violation("I19", f"{task.name} ({run_id}) began at {began[run_id]}, {before} ended: {ended}")
            if "got" in task.parameters:
                source = own[task.needs[0]]
                well = states[task.needs[0]] is TaskState.SUCCEEDED
                left = auditor.accepted.get(source[0]) if well else None
                if got[run_id] != left:
                    raise Violation("I19", f"{task.name} ({run_id}) got {got[run_id]}, {source} left {left}")


def _check_cancel(asked: Asked, flow: Run, own: dict[str, list[str]], runs: dict[str, Run]) -> None:
    """I10: after a cancel was acknowledged no run is created, and the workflow run ends as `cancelled`."""
    for request in asked.requests:
        if request.kind != "cancel_run" or request.run_id != flow.id or request.outcome != "ok":
            continue
        if request.answer.status in (Status.SUCCEEDED, Status.FAILED, Status.SKIPPED):
            continue
        assert request.answered is not None
        late = [each for of_task in own.values() for each in of_task if runs[each].created_at > request.answered]
        if late:
            raise Violation("I10", f"{flow} was cancelled, and {late[0]} was made after that")
        if flow.is_terminal and flow.status is not Status.CANCELLED:
            raise Violation("I10", f"{flow} was cancelled, and ended otherwise")


PROMISES = (each_task_once,)
