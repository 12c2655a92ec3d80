"""For any job of the API: its exported file has the same meaning when it is read again, and an update made from the
difference between two jobs turns one into the other."""

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.thorough import THOROUGH
from timeball.domain.dispatch.overlap import Overlap
from timeball.domain.job.job import OF_TASKS, JobSpec, decode_spec
from timeball.jobspec import job_reader, spec_view
from timeball.manifests import diff, files, parse, writer
from timeball.manifests.diff import KnownJob
from timeball.slices import at_once

CASES = 1_000 if THOROUGH else 80

text = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    [
        "on",
        "no",
        "22:00",
        "1e5",
        "08",
        "~",
        "null",
        "=",
        "<<",
        " x",
        "x ",
        "a\nb",
        "a\n\n",
        "a: b",
        "#",
        "- a",
        "\x85",
        "\x7f",
        "'\"",
    ]
)
words = text.filter(lambda each: each != "")
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=5,
)
lengths = st.sampled_from(["90s", "15m", "1h30m", "1d"]) | st.integers(1, 10_000)
moments = st.sampled_from(["2099-03-01T02:00:00Z", "2099-03-01 02:00:00.5+01:00"])
env = st.dictionaries(st.from_regex(r"[A-Z_][A-Z0-9_]{0,5}", fullmatch=True), text, max_size=2)
command = words.filter(lambda each: each.strip() != "")


def fields(**optional: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=optional)


def tagged(tag: str, kind: str, always: dict[str, Any], **optional: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({tag: st.just(kind), **always}, optional=optional)


tasks = st.one_of(
    tagged("kind", "shell", {"command": command | st.lists(command, min_size=1, max_size=3)}, env=env, cwd=text),
    tagged("kind", "script", {"script": st.just("a/b.py")}, args=st.lists(text, max_size=2), env=env),
    tagged("kind", "python", {"function": st.just("a.b")}),
    tagged(
        "kind",
        "http",
        {"url": st.just("https://example.org/x?y=%20")},
        method=st.sampled_from(["GET", "PUT"]),
        headers=st.just({"X-A": "b: c"}),
        body=values,
        acceptedStatuses=st.just([200, 404]),
        breaker=st.booleans(),
    ),
)
repeating = st.one_of(
    tagged(
        "type",
        "cron",
        {"expression": st.sampled_from(["0 2 * * *", "@daily", "H H * * *", "*/5 * * * * *"])},
        timezone=st.just("Europe/Berlin"),
        dstGap=st.sampled_from(["run", "skip"]),
        dstOverlap=st.sampled_from(["first", "both"]),
    ),
    tagged("type", "interval", {"expression": lengths}),
    tagged("type", "window", {"from": st.just("22:00"), "to": st.just("04:30")}, days=st.just(["MON", "FRI"])),
)
once = st.one_of(st.just({"type": "immediate"}), tagged("type", "date", {"expression": moments}))
rules = fields(
    description=text,
    parameters=st.dictionaries(text, values, max_size=3),
    retry=fields(
        maxRetries=st.integers(0, 100),
        backoff=st.sampled_from(["linear", "fixed"]) | st.lists(lengths, min_size=1, max_size=3),
        base=lengths,
        cap=lengths,
        nonRetryable=fields(exitCodes=st.just([1, 2]), statuses=st.just([404]), exceptions=st.just(["E"])),
    ),
    priority=st.sampled_from(["high", "low", 0, 9]),
    timeout=lengths,
    grace=lengths,
    overlap=st.sampled_from([each.value for each in Overlap]),
    catchUp=st.sampled_from(["all", "last", "none"]),
    catchUpWindow=lengths,
    jitter=st.just("5m"),
    startDeadline=lengths,
    orderingKey=words,
    onFailure=st.sampled_from(["block", "continue"]),
    concurrency=st.fixed_dictionaries({"key": words, "limit": st.integers(1, 9)}),
    rateLimit=st.fixed_dictionaries(
        {"key": words, "limit": st.integers(1, 9)}, optional={"per": lengths, "burst": st.just(3)}
    ),
    resources=fields(cpu=st.just(0.5), memoryMb=st.integers(0, 9), slots=st.integers(1, 9)),
    runsOn=st.just(["gpu", "zone=a"]),
    calendars=st.just(["holidays"]),
    excluded=st.sampled_from(["skip", "next_open"]),
    delivery=st.sampled_from(["at_least_once", "at_most_once"]),
    preemptible=st.booleans(),
    tags=st.lists(words, max_size=3).filter(lambda tags: not any(tag.startswith("declared:") for tag in tags)),
    userId=text,
)
bounds = fields(startAt=moments, endAt=st.just("2199-01-01T00:00:00Z"), maxRuns=st.integers(1, 9))


@st.composite
def specs(draw: st.DrawFn, name: str | None = None) -> JobSpec:
    job = {"name": name or draw(command), **draw(rules)}
    match draw(st.integers(0, 4)):
        case 0:
            job |= {"taskId": "registered"}
        case 1:
            job = {field: value for field, value in job.items() if field not in OF_TASKS.values()}
            job |= {"task": {"kind": "workflow", "tasks": [{"name": "b", "task": draw(tasks)}]}}
        case _:
            job |= {"task": draw(tasks)}
    job |= {"schedule": draw(once)} if draw(st.integers(0, 2)) == 0 else {"schedule": draw(repeating), **draw(bounds)}
    return decode_spec(msgspec.json.encode(job))


def as_known(spec: JobSpec) -> KnownJob:
    """As it comes back from the API."""
    shown = spec_view.spec_document(spec)
    return diff.known({**shown, "jobId": "j_1", "version": 1, "status": "scheduled"})


@settings(max_examples=CASES, deadline=None)
@given(spec=specs(), toml=st.booleans())
def test_what_is_exported_and_read_again_is_unchanged(spec: JobSpec, toml: bool) -> None:
    job = as_known(spec)
    content = writer.contents([writer.declaration(job)], "a-set")
    if toml and b"null" not in msgspec.json.encode(content):
        [document] = parse.read("x.toml", writer.write_toml(content).encode())
    else:
        [document] = parse.read("x.yaml", writer.write_yaml(content).encode())
    found = files.gather([document])
    assert found.name == "a-set"
    [declared] = found.jobs
    assert diff.changes(job.spec, declared.spec) == []
    assert diff.patch(job.spec, declared.spec) == {}


@settings(max_examples=CASES, deadline=None)
@given(old=specs("a"), new=specs("a"))
def test_the_difference_turns_one_job_into_the_other(old: JobSpec, new: JobSpec) -> None:
    patch = diff.patch(old, new)
    assert bool(patch) == bool(diff.changes(old, new))
    updated = at_once(job_reader.change_from(msgspec.json.encode(patch))(old))
    assert diff.changes(updated, new) == []
