"""Lists of jobs by fields without an index: a text in the name, the task kind, the type of the schedule."""

from typing import Any

import pytest

from tests.support.builders import job, one_shot, recurring
from timeball.domain.instant import HOUR
from timeball.domain.job.job import JobState
from timeball.domain.schedule.calendar import Calendar, NamedCalendar
from timeball.domain.schedule.schedule import CronSchedule, Date, Follow, Window
from timeball.domain.task.task import Http, Python, Script, Shell
from timeball.domain.workflow.definition import Workflow, WorkflowTask
from timeball.ports.store.jobs import Amendment, JobFilter, Submission
from timeball.ports.store.registry import RegisteredTask
from timeball.ports.store.store import Store
from timeball.stores.sql.jobs import job_lists


async def names(store: Store, limit: int = 100, **fields: Any) -> list[str]:
    """Of all pages."""
    found: list[str] = []
    cursor = None
    while True:
        page = await store.list_jobs(JobFilter(**{"tenant": "default", **fields}), cursor, limit)
        assert len(page.items) <= limit
        found += [each.job.spec.name for each in page.items]
        if (cursor := page.next_cursor) is None:
            return found


async def test_a_text_is_looked_for_in_names_and_ids(store: Store) -> None:
    now = store.now()
    sent = [recurring(now, name=name) for name in ("Nightly ETL", "etl 2", "100%", "a_c", "abc", "Ümlaut")]
    await store.submit([*sent, one_shot(now, name="etl of others", tenant="other")])
    assert await names(store, text="ETL") == ["etl 2", "Nightly ETL"]
    assert await names(store, text="0%") == ["100%"]
    assert await names(store, text="a_c") == ["a_c"]
    assert await names(store, text="Üml") == ["Ümlaut"]
    assert await names(store, text=sent[4].job.id) == ["abc"]
    assert await names(store, text=sent[4].job.id[:-1]) == []


async def test_jobs_are_found_by_the_kind_of_their_task(store: Store) -> None:
    now = store.now()
    tasks = {
        "http": Http(url="https://example.org"),
        "shell": Shell(command="true"),
        "script": Script(script="a.py"),
        "python": Python(function="f"),
        "workflow": Workflow(tasks=[WorkflowTask(name="a", task=Shell(command="true"))]),
    }
    mail = {"kind": "http", "url": "https://example.org/mail"}
    await store.put_task(RegisteredTask(tenant="default", id="mail", spec=mail, version=1, updated_at=now))
    await store.submit([recurring(now, name=kind, task=task) for kind, task in tasks.items()])
    await store.submit([recurring(now, name="registered", task=None, task_id="mail")])
    for kind in tasks:
        assert await names(store, kind=kind) == (["registered", "http"] if kind == "http" else [kind])


async def test_jobs_are_found_by_the_type_of_their_schedule(store: Store) -> None:
    now = store.now()
    first = recurring(now, name="interval")
    await store.submit([first, one_shot(now, name="immediate")])
    schedules = {
        "date": Date(expression="2199-01-01T00:00:00Z"),
        "cron": CronSchedule(expression="0 0 * * *"),
        "follow": Follow(job=first.job.id),
    }
    made = [job(now, name=name, schedule=each, next_fire_at=now + HOUR) for name, each in schedules.items()]
    await store.submit([Submission(each, ()) for each in made])
    window = job(now, name="window", schedule=Window(since="01:00", until="05:00"), next_fire_at=now + HOUR)
    await store.submit([Submission(window.with_(slot=3_600), ())])
    for kind in ("interval", "immediate", "window", *schedules):
        assert await names(store, schedule_type=kind) == [kind]


async def test_jobs_are_found_by_their_calendar(store: Store) -> None:
    now = store.now()
    for tenant, name in (("default", "freeze"), ("default", "night"), ("other", "freeze")):
        await store.put_calendar(
            NamedCalendar(tenant=tenant, name=name, calendar=Calendar(entries=[]), version=1, updated_at=now)
        )
    both, tagged = {"calendars": ["freeze", "night"]}, {"calendars": ["freeze"], "tags": ["t"]}
    sent = [
        recurring(now, name="none"),
        recurring(now, name="both", **both),
        recurring(now, name="paused", **both),
        recurring(now, name="tagged", user_id="u", **tagged),
    ]
    await store.submit([*sent, recurring(now, name="foreign", tenant="other", calendars=["freeze"])])
    paused = sent[2].job
    await store.amend([Amendment(job=paused, spec=paused.spec, state=JobState.PAUSED, keep_schedule=True)])
    assert await names(store, calendar="freeze") == ["tagged", "paused", "both"]
    assert await names(store, 1, calendar="freeze") == ["tagged", "paused", "both"]
    assert await names(store, calendar="night") == ["paused", "both"]
    assert await names(store, calendar="none") == []
    assert await names(store, calendar="freeze", tag="t") == ["tagged"]
    assert await names(store, calendar="freeze", user_id="u") == ["tagged"]
    assert await names(store, calendar="freeze", text="o") == ["both"]
    assert await names(store, calendar="freeze", status=frozenset({"scheduled"})) == ["tagged", "both"]
    assert await names(store, calendar="freeze", status=frozenset({"paused"})) == ["paused"]


FILTERS: tuple[dict[str, Any], ...] = (
    {"text": "x"},
    {"text": "x", "tag": "t"},
    {"kind": "shell"},
    {"text": "y", "schedule_type": "interval"},
)


@pytest.mark.parametrize("status", [(), ("scheduled",), ("paused",), ("completed", "cancelled", "paused")])
async def test_pages_miss_no_job_and_repeat_none_however_few_a_page_compares(
    store: Store, status: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = store.now()
    sent = [recurring(now, name=f"{'x' if at % 3 else 'y'}{at}", tags=["t"] if at % 2 else []) for at in range(40)]
    await store.submit(sent)
    changes = {JobState.PAUSED: sent[5:20:2], JobState.CANCELLED: sent[6:22:4]}
    for state, some in changes.items():
        await store.amend(
            [Amendment(job=each.job, spec=each.job.spec, state=state, keep_schedule=True) for each in some]
        )
    wanted: dict[str, Any] = {"status": frozenset(status)}
    for fields in FILTERS:
        whole = await names(store, **wanted, **fields)
        for compared in (1, 2, 7):
            with monkeypatch.context() as few:
                few.setattr(job_lists, "MAX_NAMES_COMPARED", compared)
                few.setattr(job_lists, "MAX_SPECS_COMPARED", compared)
                assert await names(store, 3, **wanted, **fields) == whole
        every = await names(store, **wanted)
        assert set(whole) <= set(every)
        if "text" in fields:
            assert all(str(fields["text"]) in name for name in whole)
        if status in ((), ("scheduled",)):
            assert whole


async def test_ids_and_count_are_those_of_the_list(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The jobs that a bulk action processes, and the number that it announces, are those that a list shows."""
    now = store.now()
    sent = [recurring(now, name=f"{'x' if at % 3 else 'y'}{at}", tags=["t"] if at % 2 else []) for at in range(20)]
    sent += [one_shot(now, name=f"x once {at}") for at in range(3)]
    await store.submit([*sent, recurring(now, name="x of others", tenant="other", tags=["t"])])
    paused = [
        Amendment(job=each.job, spec=each.job.spec, state=JobState.PAUSED, keep_schedule=True) for each in sent[3:12]
    ]
    await store.amend(paused)
    monkeypatch.setattr(job_lists, "MAX_NAMES_COMPARED", 5)
    monkeypatch.setattr(job_lists, "MAX_SPECS_COMPARED", 5)
    filters = (*FILTERS, {}, {"tag": "t"}, {"name": "x1"}, {"made_before": sent[9].job.id})
    statuses: tuple[tuple[str, ...], ...] = ((), ("scheduled",), ("paused",), ("scheduled", "paused"), ("completed",))
    for fields in filters:
        for status in statuses:
            where = JobFilter(tenant="default", status=frozenset(status), **fields)
            wanted = await names(store, 4, status=frozenset(status), **fields)
            ids: list[str] = []
            cursor = None
            while True:
                page = await store.match_jobs(where, cursor, 4)
                ids += page.items
                if (cursor := page.next_cursor) is None:
                    break
            found = await store.jobs(ids)
            assert [found[job_id].job.spec.name for job_id in ids] == wanted
            assert await store.count_jobs(where) == len(wanted)


async def test_busy_jobs_have_at_least_the_given_number_of_live_runs(store: Store) -> None:
    now = store.now()
    some = [one_shot(now, name=str(at)) for at in range(2)]
    await store.submit(some)
    ids = [each.job.id for each in some]
    assert await store.busy_jobs(ids, 1) == set(ids)
    assert await store.busy_jobs(ids, 2) == set()
    assert await store.busy_jobs([], 1) == set()
