"""Every accepted form of a job becomes the canonical one, and errors point to what the user wrote."""

from typing import Any

import msgspec
import pytest

from timeball.domain.errors import Invalid, InvalidSchedule
from timeball.domain.job.job import JobSpec
from timeball.jobspec import job_reader, spec_view
from timeball.slices import at_once

TASK = {"kind": "shell", "command": "true"}


def read(document: Any) -> job_reader.JobBody:
    return job_reader.read_job(msgspec.json.encode(document))


def canonical(document: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(read(document).spec))


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (
            {
                "name": "etl",
                "scheduleType": "cron",
                "scheduleTime": "not looked at",
                "cronExpression": "0 0 2 * * *",
                "payload": {"script": "etl.py", "params": {"days": 30}},
                "maxRetries": 2,
            },
            {
                "name": "etl",
                "task": {"kind": "script", "script": "etl.py"},
                "parameters": {"days": 30},
                "schedule": {"type": "cron", "expression": "0 0 2 * * *"},
                "retry": {"maxRetries": 2},
            },
        ),
        (
            {"scheduleType": "Future", "scheduleTime": 1_900_000_000_000, "payload": {"script": "a.sh"}},
            {
                "task": {"kind": "script", "script": "a.sh"},
                "schedule": {"type": "date", "expression": "2030-03-17T17:46:40Z"},
            },
        ),
        (
            {"scheduleType": "future", "scheduleTime": "2030-01-01T00:00:00+01:00", "payload": {"script": "a.sh"}},
            {
                "task": {"kind": "script", "script": "a.sh"},
                "schedule": {"type": "date", "expression": "2030-01-01T00:00:00+01:00"},
            },
        ),
        (
            {"scheduleType": "immediate", "cronExpression": "nonsense", "payload": {"script": "a.sh"}},
            {"task": {"kind": "script", "script": "a.sh"}, "schedule": {"type": "immediate"}},
        ),
        (
            {"taskId": "mail", "schedule": {"type": "CRON", "expression": "0 9 * * MON"}, "parameters": {"to": "x"}},
            {
                "taskId": "mail",
                "schedule": {"type": "cron", "expression": "0 9 * * MON"},
                "parameters": {"to": "x"},
            },
        ),
        (
            {"taskId": "mail", "schedule": {"type": "DATE", "expression": "1900000000000"}},
            {"taskId": "mail", "schedule": {"type": "date", "expression": "2030-03-17T17:46:40Z"}},
        ),
        (
            {"taskId": "mail", "isRecurring": True, "jobInterval": 60},
            {"taskId": "mail", "schedule": {"type": "interval", "expression": 60}},
        ),
        (
            {"taskId": "mail", "isRecurring": False, "jobInterval": 60},
            {"taskId": "mail", "schedule": {"type": "immediate"}},
        ),
        ({"task": TASK, "priority": "HIGH"}, {"task": TASK, "priority": "high"}),
    ],
)
def test_shapes_become_canonical(written: Any, expected: Any) -> None:
    shown = canonical(written)
    shown.setdefault("schedule", {"type": "immediate"})
    expected.setdefault("schedule", {"type": "immediate"})
    assert shown == expected


@pytest.mark.parametrize(
    ("written", "pointer"),
    [
        ({"scheduleType": "future", "payload": {"script": "a.py"}}, "/scheduleTime"),
        ({"scheduleType": "future", "scheduleTime": "tomorrow", "payload": {"script": "a.py"}}, "/scheduleTime"),
        ({"scheduleType": "future", "scheduleTime": 10**17, "payload": {"script": "a.py"}}, "/scheduleTime"),
        ({"scheduleType": "cron", "payload": {"script": "a.py"}}, "/cronExpression"),
        ({"scheduleType": "cron", "cronExpression": "99 * * * *", "payload": {"script": "a.py"}}, "/cronExpression"),
        ({"scheduleType": "cron", "cronExpression": 5, "payload": {"script": "a.py"}}, "/cronExpression"),
        ({"scheduleType": "sometimes", "payload": {"script": "a.py"}}, "/scheduleType"),
        ({"scheduleType": 5, "payload": {"script": "a.py"}}, "/scheduleType"),
        ({"scheduleType": "immediate", "payload": {"script": "/etc/passwd"}}, "/payload/script"),
        ({"scheduleType": "immediate", "payload": {"script": "a.py", "sript": 1}}, "/payload/sript"),
        ({"scheduleType": "immediate", "payload": {"script": "a.py", "params": 5}}, "/payload/params"),
        ({"scheduleType": "immediate", "payload": "a.py"}, "/payload"),
        ({"scheduleType": "immediate", "payload": {"script": "a.py"}, "task": TASK}, "/payload"),
        ({"scheduleType": "immediate", "payload": {"script": "a.py"}, "maxRetries": "x"}, "/maxRetries"),
        ({"taskId": "mail", "isRecurring": True}, "/jobInterval"),
        ({"taskId": "mail", "isRecurring": "yes", "jobInterval": 5}, "/isRecurring"),
        ({"taskId": "mail", "isRecurring": True, "jobInterval": 0}, "/jobInterval"),
        (
            {"taskId": "m", "scheduleType": "cron", "cronExpression": "* * * * *", "timezone": "Nowhere/City"},
            "/timezone",
        ),
    ],
)
def test_complaints_point_at_what_was_written(written: Any, pointer: str) -> None:
    with pytest.raises(Invalid) as caught:
        read(written)
    assert [problem.pointer for problem in caught.value.problems] == [pointer]


def test_the_key_in_the_body_is_no_part_of_the_job() -> None:
    body = read({"task": TASK, "idempotencyKey": "k"})
    assert body.key == "k"
    assert body.spec == read({"task": TASK}).spec


def test_one_fingerprint_for_every_way_to_write_a_job() -> None:
    flat = read({"scheduleType": "immediate", "payload": {"script": "a.py", "params": {"x": 1, "y": 2}}})
    plain = read({"parameters": {"y": 2, "x": 1}, "task": {"script": "a.py", "kind": "script"}})
    other = read({"parameters": {"y": 3, "x": 1}, "task": {"script": "a.py", "kind": "script"}})
    assert job_reader.fingerprint(flat.spec) == job_reader.fingerprint(plain.spec)
    assert job_reader.fingerprint(flat.spec) != job_reader.fingerprint(other.spec)


# --- updates ----------------------------------------------------------------------------------------------------------

CRON = {
    "name": "etl",
    "task": TASK,
    "schedule": {"type": "cron", "expression": "0 2 * * *", "timezone": "Europe/Berlin"},
    "retry": {"maxRetries": 5, "base": "1s"},
    "timeout": "30m",
}


def change(current: Any, written: Any) -> Any:
    spec = at_once(job_reader.change_from(msgspec.json.encode(written))(read(current).spec))
    assert isinstance(spec, JobSpec)
    return msgspec.json.decode(msgspec.json.encode(spec))


@pytest.mark.parametrize(
    ("written", "effect"),
    [
        ({}, {}),
        ({"name": "load"}, {"name": "load"}),
        ({"retry": {"maxRetries": 1}}, {"retry": {"maxRetries": 1, "base": "1s"}}),
        ({"maxRetries": 1}, {"retry": {"maxRetries": 1, "base": "1s"}}),
        (
            {"schedule": {"type": "interval", "expression": "15m"}},
            {"schedule": {"type": "interval", "expression": "15m"}},
        ),
        (
            {"cronExpression": "0 3 * * *"},
            {"schedule": {"type": "cron", "expression": "0 3 * * *", "timezone": "Europe/Berlin"}},
        ),
        (
            {"timezone": "Asia/Tokyo"},
            {"schedule": {"type": "cron", "expression": "0 2 * * *", "timezone": "Asia/Tokyo"}},
        ),
        ({"scheduleTime": 1_900_000_000_000}, {"schedule": {"type": "date", "expression": "2030-03-17T17:46:40Z"}}),
        ({"scheduleType": "immediate"}, {"schedule": {"type": "immediate"}}),
        ({"payload": {"script": "a.py"}}, {"task": {"kind": "script", "script": "a.py"}}),
    ],
)
def test_a_partial_job_changes_what_it_names(written: Any, effect: Any) -> None:
    assert change(CRON, written) == {**CRON, **effect}


def test_null_brings_the_default_back() -> None:
    shown = change(CRON, {"timeout": None, "retry": None, "name": None})
    assert shown == {"task": TASK, "schedule": CRON["schedule"]}


def test_a_task_id_takes_the_place_of_a_task_and_the_other_way_round() -> None:
    shown = change(CRON, {"taskId": "mail"})
    assert "task" not in shown
    assert shown["taskId"] == "mail"
    assert "taskId" not in change({"taskId": "mail"}, {"task": TASK})


@pytest.mark.parametrize(
    ("edit", "effect"),
    [
        ({}, {}),
        ({"description": "nightly"}, {"description": "nightly"}),
        ({"maxRetries": 1}, {"retry": {"maxRetries": 1, "base": "1s"}}),
        (
            {"cronExpression": "0 3 * * *"},
            {"schedule": {"type": "cron", "expression": "0 3 * * *", "timezone": "Europe/Berlin"}},
        ),
        ({"schedule": {"type": "interval", "expression": 60}}, {"schedule": {"type": "interval", "expression": 60}}),
    ],
)
def test_a_whole_answer_can_be_sent_back_with_one_edit(edit: Any, effect: Any) -> None:
    answer = spec_view.spec_document(read(CRON).spec) | {"jobId": "j_x", "version": 3, "status": "scheduled"}
    assert change(CRON, answer | edit) == {**CRON, **effect}


@pytest.mark.parametrize("written", [[], "x", None, 5])
def test_an_update_is_an_object(written: Any) -> None:
    with pytest.raises(Invalid):
        job_reader.change_from(msgspec.json.encode(written))


def test_a_bad_update_points_at_what_was_written() -> None:
    with pytest.raises(InvalidSchedule) as caught:
        change(CRON, {"cronExpression": "0 0 30 2 *"})
    assert caught.value.problems[0].pointer == "/cronExpression"


@pytest.mark.parametrize(
    "schedule", [{"type": "window", "from": "01:00", "to": "05:00"}, {"type": "follow", "job": "j_1", "on": "failed"}]
)
def test_a_schedule_without_flat_fields_is_not_lost_to_one_of_them(schedule: Any) -> None:
    current = {"task": TASK, "schedule": schedule}
    with pytest.raises(InvalidSchedule, match="is written as"):
        change(current, {"timezone": "Europe/Berlin"})
    with pytest.raises(InvalidSchedule, match="is written as"):
        read({"task": TASK, "scheduleType": schedule["type"]})
    assert change(current, {"jobInterval": 60})["schedule"] == {"type": "interval", "expression": 60}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("nightly", {"type": "follow", "job": "nightly"}),
        ({"job": "nightly", "on": "finished"}, {"type": "follow", "job": "nightly", "on": "finished"}),
    ],
)
def test_a_job_to_follow_is_a_schedule(written: Any, expected: Any) -> None:
    assert canonical({"task": TASK, "followJob": written})["schedule"] == expected
