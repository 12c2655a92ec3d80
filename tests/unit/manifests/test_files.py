"""Files that declare jobs: their meaning, and the errors about invalid ones."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from timeball.domain.instant import HOUR, Micros, of, parse
from timeball.domain.job.job import JobSpec, decode_spec
from timeball.domain.schedule.schedule import CronSchedule, Interval
from timeball.domain.task.task import Http, Shell
from timeball.manifests import fire_changes, fires
from timeball.manifests import parse as manifest_parse
from timeball.manifests.errors import FilesRefused
from timeball.manifests.files import FileSet, find, gather
from timeball.manifests.job import Declared

JOB = "{name: a, task: {kind: shell, command: x}, schedule: {type: cron, expression: '@daily'}}"


def load(text: str, file: str = "jobs.yaml") -> FileSet:
    return gather(manifest_parse.read(file, text.encode()))


def one(text: str, file: str = "jobs.yaml") -> Declared:
    [job] = load(text, file).jobs
    return job


def refused(text: str, file: str = "jobs.yaml") -> list[str]:
    with pytest.raises(FilesRefused) as caught:
        load(text, file)
    return [str(complaint) for complaint in caught.value.complaints]


# --- reading ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"),
        ("no", "no"),
        ("22:00", "22:00"),
        ("2026-03-01", "2026-03-01"),
        ("2026-03-01T02:00:00Z", "2026-03-01T02:00:00Z"),
        ("0x10", "0x10"),
        ("1_000", "1_000"),
        (".inf", ".inf"),
        ("017", 17),
        ("-3", -3),
        ("1e3", 1000.0),
        ("true", True),
        ("~", None),
        ('"true"', "true"),
        ("!!str 5", "5"),
        ("[1, {a: b}]", [1, {"a": "b"}]),
    ],
)
def test_yaml_is_read_as_people_mean_it(text: str, value: object) -> None:
    [document] = manifest_parse.read("a.yaml", f"x: {text}\n".encode())
    assert document.value == {"x": value}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: [1\nb: 2", "jobs.yaml:2: this is not YAML"),
        ("a: !!python/object/apply:os.system [id]", "jobs.yaml:1: the tag 'python/object/apply:os.system'"),
        ("a: 1\na: 2", "jobs.yaml:2: the key 'a' occurs twice"),
        ("a: &a [*a]", "jobs.yaml:1: it contains itself"),
        ("[" * 100 + "]" * 100, "nested more than 64 deep"),
        ("a: !!binary aGk=", "the tag 'binary' is not supported"),
        ("a: \x07", "this is not YAML"),
    ],
)  # fmt: skip
def test_yaml_that_is_broken_or_means_mischief_is_refused(text: str, complaint: str) -> None:
    [told] = refused(text)
    assert complaint in told


def test_a_few_aliases_that_stand_for_very_much_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_parse, "MAX_VALUES", 1_000)
    lines = ["a0: &a0 [x, x, x, x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 5)}]" for n in range(1, 9))]
    assert "jobs.yaml:1: with its aliases it has more than 1,000 values" in refused("\n".join(lines))[0]


def test_aliases_and_merges_save_words() -> None:
    found = load(
        "jobs:\n"
        "  - &a {name: a, task: {kind: shell, command: x}, schedule: &s {type: cron, expression: '@daily'}}\n"
        "  - {<<: *a, name: b, timeout: 1m}\n"
        "  - {name: c, task: {kind: shell, command: x}, schedule: *s}\n"
    )
    assert [(job.name, job.spec.timeout) for job in found.jobs] == [("a", None), ("b", "1m"), ("c", None)]


def test_toml_tells_lines_and_has_dates() -> None:
    text = (
        'set = "t"\n'
        "[defaults]\n"
        "retry = { maxRetries = 1 }\n"
        "\n"
        "[[jobs]]\n"
        'name = "a"\n'
        'task = { kind = "shell", command = """\n'
        "[[jobs]]\n"
        '""" }\n'
        'schedule = { type = "cron", expression = "@daily" }\n'
        "startAt = 2026-03-01T02:00:00Z\n"
        "[[jobs]]\n"
        'name = "b"\n'
        "[jobs.task]\n"
        'kind = "shell"\n'
        'command = "x"\n'
        "[jobs.schedule]\n"
        'type = "interval"\n'
        'expression = "5m"\n'
    )
    found = load(text, "jobs.toml")
    assert [(job.name, job.line) for job in found.jobs] == [("a", 5), ("b", 12)]
    assert found.jobs[0].spec.start_at == "2026-03-01T02:00:00Z"
    assert refused(text.replace('"5m"', '"5x"'), "jobs.toml")[0].startswith(
        "jobs.toml:19: jobs[1].schedule.expression: '5x' is not a duration;"
    )
    assert "jobs.toml:1: this is not TOML" in refused("a = = 1", "jobs.toml")[0]


def test_jobs_may_be_a_mapping_from_names() -> None:
    text = '[jobs.etl]\ntask = { kind = "shell", command = "x" }\nschedule = { type = "cron", expression = "@daily" }\n'
    assert one(text, "jobs.toml").name == "etl"
    assert (
        one("jobs: {etl: {task: {kind: shell, command: x}, schedule: {type: interval, expression: 1m}}}").name == "etl"
    )


def test_a_folder_means_its_files_and_those_below(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / ".git").mkdir()
    for name in ("b.yaml", "a.toml", "below/c.yml", "notes.txt", "timeball.toml", ".hidden.yaml", ".git/d.yaml"):
        (tmp_path / name).write_text("")
    assert [str(path.relative_to(tmp_path)) for path in find([str(tmp_path)])] == ["a.toml", "b.yaml", "below/c.yml"]
    with pytest.raises(FilesRefused, match="2 problems in these files"):
        find([str(tmp_path / "nowhere"), str(tmp_path / ".git" / "..") + "/nothing"])


# --- jobs and defaults --------------------------------------------------------------------------------------------


def test_defaults_fill_in_what_a_job_leaves_out_and_can_have() -> None:
    found = load(
        "defaults:\n"
        "  schedule: {timezone: Europe/Berlin}\n"
        "  task: {env: {A: '1'}}\n"
        "  retry: {maxRetries: 1, base: 1s}\n"
        "  timeout: 5m\n"
        "jobs:\n"
        "- name: a\n"
        "  retry: {base: 2s}\n"
        "  task: {kind: shell, command: x}\n"
        "  schedule: {type: cron, expression: '@daily'}\n"
        "- {name: b, task: {kind: http, url: 'http://x'}, schedule: {type: interval, expression: 1m}, timeout: null}\n"
    )
    a, b = (job.spec for job in found.jobs)
    assert a.schedule == CronSchedule("@daily", "Europe/Berlin")
    assert a.task == Shell("x", {"A": "1"})
    assert (a.retry.max_retries, a.retry.base, a.timeout) == (1, "2s", "5m")
    assert b.schedule == Interval("1m")
    assert b.task == Http("http://x")
    assert b.timeout is None


def test_a_workflow_takes_no_default_that_only_tasks_have() -> None:
    job = one(
        "defaults: {retry: {maxRetries: 1}, timeout: 5m, catchUp: last, task: {env: {A: '1'}}}\n"
        "jobs:\n"
        "- name: a\n"
        "  task: {kind: workflow, tasks: [{name: b, task: {kind: shell, command: x}}]}\n"
        "  schedule: {type: interval, expression: 1h}\n"
    )
    assert job.spec.is_workflow
    assert (job.spec.timeout, job.spec.catch_up) == (None, "last")


def test_other_shapes_of_a_job_are_understood() -> None:
    job = one(
        "jobs: [{name: flat, scheduleType: cron, cronExpression: '@daily', payload: {script: a.py}, maxRetries: 1}]"
    )
    assert job.spec.schedule == CronSchedule("@daily")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("jobs: [{task: {kind: shell, command: x}, schedule: {type: cron, expression: '@daily'}}]",
         "jobs.yaml:1: jobs[0].name: a declared job needs a name"),
        ("jobs: [{name: a, task: {kind: shell, command: x}}]",
         "jobs.yaml:1: jobs[0].schedule: a declared job needs a schedule"),
        (f"jobs: [{JOB[:-1]}, tags: ['declared:x']}}]", "jobs.yaml:1: jobs[0].tags: tags that begin with 'declared:'"),
        (f"jobs: [{JOB[:-1]}, idempotencyKey: x}}]",
         "jobs[0].idempotencyKey: a declared job is recognised by its name"),
        (f"jobs: [{JOB[:-1]}, paused: soon}}]", "jobs[0].paused: 'soon' is neither true nor false"),
        ("jobs: [{name: a, paused: true, task: {kind: shell, command: x}, schedule: {type: immediate}}]",
         "jobs[0].paused: only a schedule that repeats"),
        (f"jobs:\n- {JOB}\n- {JOB}", "jobs.yaml:3: a: it is already declared at jobs.yaml:2"),
        ("job: []", "jobs.yaml:1: job: there is no field 'job'; did you mean 'jobs'?"),
        ("jobs: [5]", "jobs.yaml:1: jobs[0]: a job must be a mapping"),
        ("- a", "jobs.yaml:1: a file must be a mapping with jobs"),
        ("set: 'a b'", "jobs.yaml:1: set: 'a b' is not a valid name of a set"),
        ("set: a\n---\nset: b", "the files name several sets: 'a' (jobs.yaml:1) and 'b' (jobs.yaml:3)"),
        ("apiVersion: batch/v1\nkind: CronJob", "timeball import kubernetes FILE"),
        ("defaults: {timeout: soon}\njobs:\n- " + JOB, "jobs.yaml:1: defaults.timeout: 'soon' is not a duration"),
        (f"jobs: [{JOB[:-1]}, parameters: {{a: \"\\0\"}}}}]", "NUL"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_file_line_and_field(text: str, complaint: str) -> None:
    told = refused(text)
    assert len(told) == 1, told
    assert complaint in told[0]


def test_an_empty_file_declares_nothing() -> None:
    assert load("") == load("# nothing yet") == load("jobs:") == FileSet(())


# --- the effect on the coming fires -------------------------------------------------------------------------------

NOW = of(datetime(2026, 11, 15, 20, 25, tzinfo=UTC))


def spec(expression: str, timezone: str = "UTC", **more: str) -> JobSpec:
    import msgspec

    schedule = {"type": "cron", "expression": expression, "timezone": timezone}
    return decode_spec(msgspec.json.encode({"task": {"kind": "shell", "command": "x"}, "schedule": schedule, **more}))


def changed(old: str, new: str, now: Micros = NOW, timezone: str = "UTC") -> fire_changes.FireChanges:
    before, after = (fires.of(spec(each, timezone), now, fire_changes.MAX_COMPARED_FIRES) for each in (old, new))
    return fire_changes.compare(before, after, now, timezone)


@pytest.mark.parametrize(
    ("old", "new", "at", "told"),
    [
        ("0 2 * * *", "0 3 * * *", NOW,
         "tomorrow's fire moves from 02:00 UTC to 03:00 UTC, and 6 more move until Sun 22 Nov; none is dropped"),
        ("0 3 * * *", "0 2 * * *", parse("2026-11-16T02:30:00Z"),
         ("tomorrow's fire moves from 03:00 UTC to 02:00 UTC, and 6 more move until Mon 23 Nov;"
          " today's fire at 03:00 UTC is dropped")),
        ("0 2 * * *", "0 3 * * *", parse("2026-11-16T02:30:00Z"),
         ("tomorrow's fire moves from 02:00 UTC to 03:00 UTC, and 6 more move until Mon 23 Nov;"
          " today's fire at 03:00 UTC is added; none is dropped")),
        ("0 2 * * MON", "0 2 * * TUE", NOW,
         "tomorrow's fire at 02:00 UTC moves to Tue 17 Nov at 02:00 UTC; none is dropped"),
        ("0 */12 * * *", "0 0 * * *", NOW,
         "tomorrow's fire at 12:00 UTC is dropped, 7 are dropped until Sun 22 Nov"),
        ("0 0 * * *", "0 */12 * * *", NOW,
         "tomorrow's fire at 12:00 UTC is added, 7 are added until Sun 22 Nov; none is dropped"),
        ("0 0 1 1 *", "0 0 2 1 *", NOW, "no fire until Sun 22 Nov is moved, added or dropped"),
        ("*/15 * * * *", "1/20 * * * *", NOW,
         ("514 fires until Sun 22 Nov instead of 686; the first new one is today at 20:41 UTC,"
          " the first dropped one today at 20:30 UTC")),
        ("* * * * *", "*/2 * * * *", NOW,
         "today's fire at 20:27 UTC is dropped, 107 are dropped until today"),
    ],
)  # fmt: skip
def test_the_effect_of_a_change_is_told_in_a_sentence(old: str, new: str, at: Micros, told: str) -> None:
    assert str(changed(old, new, at)) == told


def test_days_are_those_of_the_jobs_time_zone() -> None:
    assert str(changed("30 0 * * *", "45 0 * * *", parse("2026-11-15T22:50:00Z"), "Europe/Berlin")).startswith(
        "tomorrow's fire moves from 00:30 to 00:45, and 6 more"
    )


def test_an_interval_keeps_its_grid_when_only_its_end_changes() -> None:
    import msgspec

    task = {"kind": "shell", "command": "x"}
    base = {"task": task, "schedule": {"type": "interval", "expression": "1h"}}
    old = decode_spec(msgspec.json.encode(base))
    new = decode_spec(msgspec.json.encode({**base, "endAt": "2026-11-16T00:00:00Z"}))
    coming = [NOW + 17_000_000 + n * HOUR for n in range(100)]
    assert fires.of(new, NOW, 1_000, fires.anchor(old, new, fires.ComingFires(coming))) == fires.ComingFires(coming[:4])
    assert not fires.stay(old, new)
    assert fires.stay(old, old)


# --- the documentation --------------------------------------------------------------------------------------------


def test_the_files_of_the_documentation_can_be_used() -> None:
    text = (Path(__file__).parents[3] / "docs" / "howto" / "declared.md").read_text()
    blocks = re.findall(r"^```(yaml|toml)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert {kind for kind, _ in blocks} == {"yaml", "toml"}
    assert all(load(block, f"jobs.{kind}").name == "nightly" for kind, block in blocks)
