"""Workflows: which definitions are valid, and what follows from the ends of tasks."""

import time
from typing import Any

import msgspec
import pytest

from timeball.domain.errors import Invalid
from timeball.domain.job.job import JobSpec
from timeball.domain.task.task import Shell
from timeball.domain.workflow import progress, references, validation
from timeball.domain.workflow.definition import WorkflowTask
from timeball.domain.workflow.progress import TaskState, WorkflowStep
from timeball.domain.workflow.references import KnownReferences, MissingReference
from timeball.jobspec.job_reader import read_job

TRUE = Shell(command="true")


def task(name: str, *needs: str, **fields: Any) -> WorkflowTask:
    return WorkflowTask(name=name, needs=list(needs), **{"task": TRUE, **fields})


def problems(*tasks: WorkflowTask) -> list[tuple[str, str]]:
    return [(each.pointer, each.detail) for each in validation.check(tasks)]


def test_a_cycle_is_named_in_the_order_in_which_its_tasks_would_run() -> None:
    ((pointer, detail),) = problems(task("a", "c"), task("b", "a"), task("c", "b"), task("d", "c"))
    assert detail.endswith(("a → b → c → a", "b → c → a → b", "c → a → b → c"))
    assert pointer in ("/0/needs", "/1/needs", "/2/needs")


def test_a_long_cycle_is_named_in_short() -> None:
    tasks = [task(f"t{at}", f"t{(at - 1) % 100}") for at in range(100)]
    ((_, detail),) = problems(*tasks)
    assert "…" in detail
    assert len(detail) < 300


@pytest.mark.parametrize(
    ("tasks", "pointer", "word"),
    [
        ([task("a", "b")], "/0/needs/0", "no task 'b'"),
        ([task("a", "a")], "/0/needs/0", "needs itself"),
        ([task("a"), task("a")], "/1/name", "two tasks have the name 'a'"),
        ([task("a"), task("b", "a", "a")], "/1/needs/1", "twice"),
        ([task("a", run_if="any_failed")], "/0/runIf", "any_failed requires"),
        ([task("a"), task("b", parameters={"x": [{"$result": "a"}]})], "/1/parameters", "not among its needs"),
        ([task("a", parameters={"x": {"$item": ""}})], "/0/parameters", "$item"),
        ([task("a", parameters={"x": {"$result": 1}})], "/0/parameters", "must be a text"),
        ([task("a", parameters={"x": {"$parameter": "p", "oh": 1}})], "/0/parameters", "no field 'oh'"),
        ([task("a"), task("b", "a", parameters={"x": {"$result": "a", "path": "rows"}})], "/1/parameters", "pointer"),
        ([task("a", for_each={"rows": 1})], "/0/forEach", "a list, or a reference"),
        ([task("a", for_each=[0] * 10_001)], "/0/forEach", "10,000"),
    ],
)
def test_what_is_wrong_is_told_where_it_is(tasks: list[WorkflowTask], pointer: str, word: str) -> None:
    found = problems(*tasks)
    assert found[0][0] == pointer
    assert word in found[0][1]


def test_a_wrong_workflow_cannot_be_written() -> None:
    with pytest.raises(Invalid, match="there is no task 'b'"):
        read_job(b'{"task": {"kind": "workflow", "tasks": [{"name": "a", "taskId": "t", "needs": ["b"]}]}}')


def test_a_task_may_use_thousands_of_results_of_thousands_of_tasks() -> None:
    """I28: to look for each among the needs of the task took seconds."""
    first = [task(f"t{at}") for at in range(3_000)]
    used = [{"$result": "t2999"}] * 30_000
    last = task("last", *(each.name for each in first), parameters={"used": used})
    began = time.thread_time()
    assert problems(*first, last) == []
    assert time.thread_time() - began < 1


@pytest.mark.parametrize(
    "field", [{"timeout": "1m"}, {"retry": {"maxRetries": 1}}, {"runsOn": ["gpu"]}, {"delivery": "at_most_once"}]
)
def test_what_only_tasks_have_is_refused_for_the_workflow(field: dict[str, Any]) -> None:
    document = {"task": {"kind": "workflow", "tasks": [{"name": "a", "taskId": "t"}]}, **field}
    with pytest.raises(msgspec.ValidationError, match="set it on the tasks"):
        msgspec.convert(document, JobSpec)


# --- references ---------------------------------------------------------------------------------------------------


def test_references_are_found_at_any_depth_and_replaced() -> None:
    each = task(
        "load",
        "extract",
        parameters={
            "rows": {"$result": "extract", "path": "/rows/1"},
            "deep": [{"day": {"$parameter": "day"}}],
            "item": {"$item": "/id"},
            "else": {"$result": "extract", "path": "/nothing", "default": 7},
        },
        for_each=[{"id": 5}],
    )
    known = KnownReferences({"extract": {"rows": [1, {"a/b": 2}]}}, {"day": "monday"}, {"id": 5})
    assert references.parameters(each, known) == {
        "rows": {"a/b": 2},
        "deep": [{"day": "monday"}],
        "item": 5,
        "else": 7,
    }
    assert each.parameters["item"] == {"$item": "/id"}
    assert references.sources(each) == {"extract"}


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"x": {"$result": "a", "path": "/rows"}}, "there is no /rows in the result of task a"),
        ({"x": {"$result": "b"}}, "b left nothing"),
        ({"x": {"$parameter": "day"}}, "no parameter 'day'"),
    ],
)
def test_what_is_missing_is_said(parameters: dict[str, Any], words: str) -> None:
    known = KnownReferences({"a": [1], "b": MissingReference("b left nothing")}, {})
    with pytest.raises(MissingReference, match=words):
        references.parameters(task("c", "a", "b", parameters=parameters), known)


def test_for_each_wants_a_list_that_is_not_too_long() -> None:
    each = task("b", "a", for_each={"$result": "a"})
    assert references.items(each, KnownReferences({"a": [1, 2]}, {})) == [1, 2]
    with pytest.raises(MissingReference, match="needs a list"):
        references.items(each, KnownReferences({"a": {"rows": []}}, {}))
    with pytest.raises(MissingReference, match="10,001 items"):
        references.items(each, KnownReferences({"a": [0] * 10_001}, {}))


def test_parameters_that_results_make_too_large_are_refused() -> None:
    each = task("b", "a", parameters={"x": {"$result": "a"}})
    with pytest.raises(MissingReference, match="bytes"):
        references.parameters(each, KnownReferences({"a": "x" * (1 << 20)}, {}))


# --- how it goes on -----------------------------------------------------------------------------------------------


def ended(name: str, state: TaskState, *, ill: int = 0) -> WorkflowStep:
    return WorkflowStep(place=0, index=-1, name=name, state=state, ill=ill)


@pytest.mark.parametrize(
    ("run_if", "parents", "reason"),
    [
        ("all_succeeded", [ended("a", TaskState.SUCCEEDED)], None),
        ("all_succeeded", [ended("a", TaskState.FAILED), ended("b", TaskState.SUCCEEDED)], "task a did not succeed"),
        ("all_succeeded", [ended("s", TaskState.SKIPPED), ended("f", TaskState.FAILED)], "task f did not succeed"),
        ("any_failed", [ended("a", TaskState.SUCCEEDED)], "none of the tasks it needs failed"),
        ("any_failed", [ended("a", TaskState.SKIPPED)], "none of the tasks it needs failed"),
        ("any_failed", [ended("a", TaskState.SKIPPED, ill=1)], None),
        ("any_failed", [ended("a", TaskState.CANCELLED), ended("b", TaskState.SUCCEEDED)], None),
        ("always", [ended("a", TaskState.FAILED)], None),
    ],
)
def test_a_task_runs_if_its_rule_holds(run_if: Any, parents: list[WorkflowStep], reason: str | None) -> None:
    child = WorkflowStep(place=1, index=-1, name="child", waits=len(parents), run_if=run_if)
    for parent in parents:
        assert not child.fresh
        progress.tell(parent, child)
    assert child.fresh
    found = progress.skip_reason(child)
    assert (found is None) == (reason is None)
    assert found is None or found.startswith(reason or "")


def test_a_retry_keeps_what_needs_nothing_that_runs_again() -> None:
    tasks = [task("make"), task("use", "make"), task("clean", "use", run_if="always"), task("other", "make")]
    states = (TaskState.SUCCEEDED, TaskState.FAILED, TaskState.SUCCEEDED, TaskState.SUCCEEDED)
    kept = progress.kept(tasks, {at: ended(tasks[at].name, state) for at, state in enumerate(states)})
    assert kept.keys() == {0, 3}
    steps = {step.name: step for step in progress.begin(tasks, kept)}
    assert [name for name, step in steps.items() if step.fresh] == ["use"]
    assert steps["clean"].waits == 1
