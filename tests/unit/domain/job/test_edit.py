"""An edit changes only the fields of a run's spec that it names."""

import json
from typing import Any

import msgspec
import pytest

from timeball.domain.job.edit import Edit
from timeball.domain.job.job import JobSpec, decode_spec, encode_spec
from timeball.domain.schedule.schedule import Interval
from timeball.domain.task.retry import Retry
from timeball.domain.task.task import Shell

SPEC = JobSpec(
    name="etl",
    task=Shell(command="etl"),
    parameters={"days": 7, "region": "us"},
    schedule=Interval(expression="1h"),
    retry=Retry(max_retries=5, base="1s"),
    timeout="5m",
    grace="1m",
    ordering_key="k",
)


def edited(**changes: Any) -> JobSpec:
    return msgspec.json.decode(json.dumps(changes), type=Edit).apply(SPEC)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"parameters": {"region": "eu", "dry": True}}, {"parameters": {"days": 7, "region": "eu", "dry": True}}),
        ({"parameters": {"region": None}}, {"parameters": {"days": 7}}),
        ({"parameters": {}}, {}),
        ({"task": {"kind": "shell", "command": "x"}}, {"task": Shell(command="x")}),
        ({"taskId": "t"}, {"task": None, "task_id": "t"}),
        ({"timeout": 90}, {"timeout": 90}),
        ({"timeout": None}, {"timeout": None}),
        ({"grace": 0}, {"grace": 0}),
        ({"grace": None}, {"grace": "5s"}),
        ({"retry": {"maxRetries": 3}}, {"retry": Retry(max_retries=3, base="1s")}),
        ({"retry": {"backoff": ["1s", "1m"]}}, {"retry": Retry(max_retries=5, base="1s", backoff=["1s", "1m"])}),
        ({"retry": None}, {"retry": Retry()}),
    ],
)
def test_what_is_named_changes_and_the_rest_stays(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    spec = edited(**changes)
    assert spec == msgspec.structs.replace(SPEC, **expected)
    assert decode_spec(encode_spec(spec)) == spec


def test_a_task_takes_the_place_of_a_registered_one() -> None:
    registered = msgspec.structs.replace(SPEC, task=None, task_id="t")
    assert Edit(task=Shell(command="x")).apply(registered).task_id is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, "changes nothing"),
        ({"task": {"kind": "shell", "command": "x"}, "taskId": "t"}, "names two tasks"),
        ({"task": None}, "Expected"),
        ({"name": "x"}, "unknown field `name`"),
        ({"schedule": {"type": "immediate"}}, "unknown field `schedule`"),
        ({"timeout": 0}, "timeout: 0 is too short"),
        ({"timeout": "soon"}, "timeout: 'soon' is not a duration"),
        ({"grace": "soon"}, "grace: 'soon' is not a duration"),
        ({"retry": {"cap": "soon"}}, "cap: 'soon' is not a duration"),
        ({"retry": {"maxRetries": 1_000}}, "<= 100"),
    ],
)
def test_what_makes_no_sense_is_refused_before_any_run_is_looked_at(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=reason):
        edited(**changes)
