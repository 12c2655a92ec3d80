"""The fields of a job are defined once, in `JobSpec`. Every other list is derived from it, or compared with it here.

| place | what | how |
|---|---|---|
| `domain/job/job.py` | `JobSpec` | states them |
| `jobspec/documents.py` | `CanonicalJob`, `JobChange` | made from it |
| `manifests/diff.py` | fields of a file, of a plan, of a request | made from it |
| `jobspec/spec_view.py` | `SpecView`, `view_of`: what the API shows | compared |
| `client/models/job.py` | `JobOptions`, `Job`: what the client says and reads | compared |
| `client/job_document.py` | the JSON of options | made from `JobOptions` and `Job` |
| `cli/options/job_options.py` | options of `jobs create` and `update`, lines of `jobs show` | compared |
"""

from typing import Any

import click
import msgspec
import pytest

from timeball.api.views import JobView
from timeball.cli.jobs import jobs as commands
from timeball.client.job_document import amendment, document
from timeball.client.models.job import Job, JobOptions
from timeball.domain.job.job import JobSpec, decode_spec
from timeball.jobspec import job_reader, spec_view
from timeball.jobspec.documents import CanonicalJob, JobChange
from timeball.manifests import diff
from timeball.slices import at_once

FIELDS = dict(zip(JobSpec.__struct_fields__, JobSpec.__struct_encode_fields__, strict=True))
"""What a field is called in Python, and in JSON."""

SAID: dict[str, Any] = {
    "name": "nightly",
    "description": "a note",
    "task": {"kind": "shell", "command": "true"},
    "taskId": "mail",
    "parameters": {"region": "eu"},
    "schedule": {"type": "interval", "expression": "1h"},
    "retry": {"maxRetries": 7},
    "priority": "high",
    "timeout": "5m",
    "grace": "7s",
    "overlap": "skip",
    "catchUp": "last",
    "catchUpWindow": "2h",
    "startAt": "2026-03-01T00:00:00Z",
    "endAt": "2026-04-01T00:00:00Z",
    "maxRuns": 9,
    "jitter": "3s",
    "startDeadline": "4m",
    "orderingKey": "k",
    "onFailure": "continue",
    "concurrency": {"key": "db", "limit": 2},
    "rateLimit": {"key": "mails", "limit": 3, "per": "1m"},
    "resources": {"cpu": 2.0},
    "runsOn": ["gpu"],
    "calendars": ["freeze"],
    "excluded": "next_open",
    "delivery": "at_most_once",
    "preemptible": True,
    "resultLocation": "reports/daily",
    "slo": {"startWithin": "5s", "objective": 99.9},
    "tags": ["a"],
    "userId": "u",
}
"""Something else than the default of every field."""
NEEDED = {
    "onFailure": {"orderingKey": "k"},
    "excluded": {"calendars": ["freeze"]},
    "startAt": {"schedule": SAID["schedule"]},
    "endAt": {"schedule": SAID["schedule"]},
    "maxRuns": {"schedule": SAID["schedule"]},
}
"""What a field means nothing without."""

OTHER_OPTIONS = {
    *("shell", "http", "script", "python"),
    *("cron", "every", "at", "window", "follow", "on", "timezone", "dst_gap", "dst_overlap"),
    *("max_retries", "idempotency_key"),
}
"""Options of the client that are parts of a field, or none of a job."""
READ_ONLY = {"schedule_type", "schedule_time", "cron_expression", "max_retries"}
"""Shown beside the fields, as in the flat shape."""
MADE_BY_THE_SERVER = {
    *("job_id", "status", "version", "next_fire_at", "slot", "created_at", "updated_at"),
    *("pause_reason", "paused_until", "warnings"),
}
OPTIONS_OF = {
    "name": ("name",),
    "task": ("shell", "http", "script", "python"),
    "parameters": ("params",),
    "schedule": ("cron", "every", "at", "window", "follow"),
    "retry": ("retries",),
    "resources": ("cpu", "memory", "slots"),
    "calendars": ("calendar",),
}
"""Options of commands that are not called like their field."""
NOT_ON_THE_COMMAND_LINE = {"grace", "user_id"}
NOT_SHOWN_BY_THE_COMMAND = {"grace", "user_id"}


def saying(field: str) -> dict[str, Any]:
    """A job that says something about a field, and as little else as it can."""
    task = {} if field in ("task", "taskId") else {"task": SAID["task"]}
    return task | NEEDED.get(field, {}) | {field: SAID[field]}


def silent_about(field: str) -> dict[str, Any]:
    """The same job without it."""
    task = {"task": {"kind": "shell", "command": "something else"}} if field in ("task", "taskId") else {}
    return {name: value for name, value in saying(field).items() if name != field} | task


def spec_of(said: dict[str, Any]) -> JobSpec:
    return decode_spec(msgspec.json.encode(said))


def answer_to(said: dict[str, Any]) -> Job:
    """The same as the client reads it from the API's answer."""
    shown = spec_view.spec_document(spec_of(said))
    return msgspec.json.decode(msgspec.json.encode({"jobId": "j_1", **shown}), type=Job)


def test_the_sample_says_something_of_every_field() -> None:
    assert list(SAID) == list(FIELDS.values())


def test_documents_are_made_from_the_fields() -> None:
    assert CanonicalJob.__struct_fields__ == (*FIELDS, "idempotency_key")
    assert set(JobChange.__struct_fields__) == {*FIELDS, *READ_ONLY, "follow_job", "window"}


def test_the_api_shows_every_field_and_the_client_reads_it() -> None:
    assert set(spec_view.SpecView.__struct_fields__) == {*FIELDS, *READ_ONLY}
    assert set(JobView.__struct_fields__) == {*FIELDS, *READ_ONLY, *MADE_BY_THE_SERVER}
    assert set(Job.__struct_fields__) == {*FIELDS, *MADE_BY_THE_SERVER}


def test_the_client_says_every_field() -> None:
    assert set(JobOptions.__annotations__) == {*FIELDS, *OTHER_OPTIONS}


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_comes_through(field: str) -> None:
    """From the client's options to the JSON of a request, the spec, the answer, and back; and through a file."""
    name = FIELDS[field]
    said = saying(name)
    options: Any = {each: said[FIELDS[each]] for each in FIELDS if FIELDS[each] in said}
    assert document(options) == said
    spec = job_reader.read_job(msgspec.json.encode(document(options))).spec
    assert getattr(spec, field) != getattr(JobSpec(task_id="any"), field)
    shown = spec_view.spec_document(spec)
    assert _holds(shown[name], SAID[name])
    read = getattr(answer_to(said), field)
    assert _holds(msgspec.to_builtins(read), SAID[name])
    assert name in diff.document(spec)
    assert job_reader.read_job(msgspec.json.encode(diff.document(spec))).spec == spec
    changes = diff.changes(spec_of(silent_about(name)), spec)
    assert name in {change.field.partition(".")[0] for change in changes}


def _holds(shown: Any, said: Any) -> bool:
    return said.items() <= shown.items() if isinstance(said, dict) else shown == said


def _takes_away(field: str) -> bool:
    options: Any = {field: None}
    return bool(amendment(options))


@pytest.mark.parametrize("field", [field for field in FIELDS if _takes_away(field)])
def test_an_update_takes_a_field_away(field: str) -> None:
    options: Any = {field: None}
    change = job_reader.change_from(msgspec.json.encode(amendment(options)))
    assert at_once(change(spec_of(saying(FIELDS[field])))) == spec_of(silent_about(FIELDS[field]))


@pytest.mark.parametrize("field", sorted({*FIELDS} - NOT_ON_THE_COMMAND_LINE))
def test_a_field_can_be_said_on_the_command_line(field: str) -> None:
    for command in (commands.create, commands.update):
        assert isinstance(command, click.Command)
        known = {parameter.name for parameter in command.params}
        assert known >= set(OPTIONS_OF.get(field, (field,))), field


@pytest.mark.parametrize("field", sorted({*FIELDS} - NOT_SHOWN_BY_THE_COMMAND))
def test_the_command_line_shows_a_field(field: str) -> None:
    said, silent = (answer_to(job) for job in (saying(FIELDS[field]), silent_about(FIELDS[field])))
    assert commands.job_lines(said, None, []) != commands.job_lines(silent, None, [])
