"""Bad input becomes a 4xx that points to what is wrong, whatever the bytes are."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeball.api import problems
from timeball.domain.errors import Invalid, TimeballError
from timeball.jobspec import job_reader, json_input
from timeball.slices import at_once

TASK = {"kind": "shell", "command": "true"}


def refused(raw: bytes) -> TimeballError:
    with pytest.raises(TimeballError) as caught:
        job_reader.read_job(raw)
    return caught.value


@pytest.mark.parametrize(
    ("document", "pointer", "words"),
    [
        ({}, "/task", "needs either a task or the taskId"),
        ([], "", "object"),
        ({"task": TASK, "taskId": "x"}, "/task", "either"),
        ({"task": TASK, "nme": "x"}, "/nme", "did you mean 'name'"),
        ({"task": TASK, "max_retries": 3}, "/max_retries", "did you mean 'maxRetries'"),
        ({"task": TASK, "jobId": "x"}, "/jobId", "set by the server"),
        ({"task": TASK, "name": 5}, "/name", "Expected str"),
        ({"task": TASK, "name": "x" * 201}, "/name", "200"),
        ({"task": TASK, "tags": ["a", 5]}, "/tags/1", "Expected str"),
        ({"task": TASK, "parameters": [1]}, "/parameters", "Expected object"),
        ({"task": TASK, "timeout": "soon"}, "/timeout", "not a duration"),
        ({"task": TASK, "priority": "urgent"}, "/priority", "high"),
        ({"task": TASK, "overlap": "skp"}, "/overlap", "did you mean 'skip'"),
        ({"task": TASK, "retry": {"maxRetries": "3"}}, "/retry/maxRetries", "Expected int"),
        ({"task": TASK, "retry": {"base": "x"}}, "/retry/base", "not a duration"),
        ({"task": TASK, "schedule": {"type": "crn"}}, "/schedule/type", "did you mean 'cron'"),
        ({"task": TASK, "schedule": {"expression": "* * * * *"}}, "/schedule/type", "missing"),
        ({"task": TASK, "schedule": {"type": "date"}}, "/schedule/expression", "missing"),
        (
            {"task": TASK, "schedule": {"type": "date", "expression": "2026-02-30T00:00:00Z"}},
            "/schedule/expression",
            "not a time",
        ),
        ({"task": TASK, "schedule": {"type": "cron", "expression": "0 0 30 2 *"}}, "/schedule/expression", "never"),
        (
            {"task": TASK, "schedule": {"type": "cron", "expression": "* * * * *", "timezone": "Berlin"}},
            "/schedule/timezone",
            "did you mean 'Europe/Berlin'",
        ),
        ({"task": {"kind": "http"}}, "/task/url", "missing"),
        ({"task": {"kind": "http", "url": "ftp://x"}}, "/task/url", "not an http"),
        ({"task": {"kind": "shel"}}, "/task/kind", "did you mean 'shell'"),
        ({"task": {"kind": "script", "script": "../x"}}, "/task/script", "scripts folder"),
        ({"task": {"kind": "shell", "command": "x", "comand": "y"}}, "/task/comand", "did you mean 'command'"),
        ({"task": TASK, "parameters": {"a": [{"b/c": "x\0"}]}}, "/parameters/a/0/b~1c", "NUL"),
        ({"task": TASK, "parameters": {"a": 2**63}}, "/parameters/a", "64 bits"),
    ],
)
def test_wrong_values_are_pointed_at(document: Any, pointer: str, words: str) -> None:
    error = refused(msgspec.json.encode(document))
    assert isinstance(error, Invalid)
    assert error.problems[0].pointer == pointer
    assert words in error.problems[0].detail
    assert problems.problem(error).status == 422


@pytest.mark.parametrize(
    ("raw", "suspicious"),
    [
        (b'{"a": 123456789012345678}', False),
        (b'{"a": 1234567890123456789}', True),
        (b'{"a": 9999999999999999999}', True),
        (b'["123456789012345678", 1234567890]', False),
        (b'"\\u0000"', True),
        (b'"\\u0001\\u00e4"', False),
        (b'"\\uD83d"', True),
        (b'"\\udc00"', True),
    ],
)
def test_what_may_not_fit_a_store_is_looked_at_value_by_value(raw: bytes, suspicious: bool) -> None:
    assert json_input.is_suspicious(raw) is suspicious


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"not json",
        b"\xff\xfe{\x00}\x00",
        b'{"task":{"kind":"shell","command":"\xff"}}',
        b'{"task":{"kind":"shell","command":"\\ud800"}}',
        b'{"task":{"kind":"shell","command":"\\udc00"}}',
        b'{"task":{"kind":"shell","command":"a\x00b"}}',
        b'{"task":{"kind":"shell","command":"x"},"parameters":{"x":NaN}}',
        b'{"task":{"kind":"shell","command":"x"},"parameters":{"x":Infinity}}',
        b'{"task":{"kind":"shell","command":"x"}} trailing',
    ],
)
def test_what_is_not_json_is_a_400(raw: bytes) -> None:
    assert problems.problem(refused(raw)).status == 400


@pytest.mark.parametrize("depth", [65, 70, 2_000, 200_000])
def test_deep_json_is_refused(depth: int) -> None:
    raw = b'{"task":{"kind":"shell","command":"x"},"parameters":{"x":' + b"[" * depth + b"]" * depth + b"}}"
    assert any(words in refused(raw).detail for words in ("deep", "more than 50,000 arrays"))


@pytest.mark.parametrize("number", [b"1e999", b"9" * 5_000, b"-" + b"9" * 30])
def test_numbers_out_of_range_are_refused(number: bytes) -> None:
    error = refused(b'{"task":{"kind":"shell","command":"x"},"parameters":{"x":' + number + b"}}")
    assert problems.problem(error).status == 422


def test_surrogate_pairs_and_long_digits_in_texts_are_fine() -> None:
    raw = b'{"task":{"kind":"shell","command":"\\ud83d\\ude00 12345678901234567890 \\\\u0000"}}'
    task = job_reader.read_job(raw).spec.task
    assert task is not None
    assert getattr(task, "command") == "😀 12345678901234567890 \\u0000"  # noqa: B009


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
PARTS = ("name", "task", "taskId", "parameters", "schedule", "retry", "priority", "timeout", "tags", "payload")
FLAT = ("maxRetries", "scheduleType", "scheduleTime", "cronExpression", "isRecurring", "jobInterval", "timezone")
FIELDS = st.sampled_from([*PARTS, *FLAT, "idempotencyKey"])


def status_of(read: Callable[[bytes], object], raw: bytes) -> int:
    try:
        read(raw)
    except TimeballError as error:
        return problems.problem(error).status
    return 200


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(raw: bytes) -> None:
    assert status_of(job_reader.read_job, raw) in (400, 422)


@given(st.dictionaries(FIELDS, JSON_VALUES | st.sampled_from([TASK, "cron", "future", {"type": "cron"}, 60, True])))
def test_no_json_breaks_the_reader(document: dict[str, Any]) -> None:
    raw = msgspec.json.encode(document)
    base = job_reader.read_job(msgspec.json.encode({"task": TASK})).spec
    assert status_of(job_reader.read_job, raw) in (200, 422)
    assert status_of(lambda raw: at_once(job_reader.change_from(raw)(base)), raw) in (200, 422)
