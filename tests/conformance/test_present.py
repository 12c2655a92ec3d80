"""The overview, on every store: live runs by status, the next fires, and what needs attention."""

import pytest
from msgspec.structs import replace

from tests.conformance.conftest import Tamper
from tests.conformance.test_planning import claim, submitted
from tests.support.builders import LEASE, one_shot, plan_due, recurring, settlement, worker
from timeball.domain.instant import HOUR, MINUTE, SECOND
from timeball.domain.job.job import Job, JobState
from timeball.domain.overview.attention import AttentionKind, attention
from timeball.domain.run.lifecycle import LEASE as LEASE_LENGTH
from timeball.domain.run.lifecycle import Failed, Failure
from timeball.domain.schedule.schedule import Follow
from timeball.domain.task.retry import Retry
from timeball.domain.task.task import Python
from timeball.ports.store.jobs import Amended, Amendment, Submission
from timeball.ports.store.overview import Present
from timeball.ports.store.store import Store
from timeball.stores.sql.overview import present as present_module

BOOM = Failed(Failure(kind="exit", message="boom"))
NOTHING = {"scheduled": 0, "blocked": 0, "queued": 0, "running": 0, "retrying": 0}


def runs(found: Present) -> dict[str, int]:
    return {name: getattr(found, name) for name in NOTHING}


async def pause(store: Store, job: Job, reason: str = "") -> None:
    amendment = Amendment(job=job, spec=job.spec, state=JobState.PAUSED, keep_schedule=True, pause_reason=reason)
    (answer,) = await store.amend([amendment])
    assert isinstance(answer, Amended)


# --- the present --------------------------------------------------------------------------------------------------


async def test_live_runs_are_counted_by_the_status_that_lists_show(store: Store) -> None:
    now = store.now()
    waiting = [one_shot(now - MINUTE), one_shot(now - 2 * MINUTE)]
    later = [one_shot(now, at=now + HOUR) for _ in range(3)]
    await store.submit([one_shot(now), one_shot(now, retry=Retry(max_retries=5))])
    one, two = await claim(store)
    await store.settle([settlement(one, BOOM)])
    await store.submit([*waiting, *later])
    found = await store.present("default")
    assert runs(found) == {**NOTHING, "scheduled": 3, "queued": 2, "running": 1, "retrying": 1}
    assert found.oldest_queued_at == waiting[1].runs[0].eligible_at
    assert (found.workers, found.slots, found.busy) == (1, 10, 1)
    assert not found.capped
    assert two.session == "w_1"


async def test_a_run_with_jitter_is_scheduled_until_it_is_due(store: Store) -> None:
    now = store.now()
    sent = one_shot(now, at=now - SECOND)
    (run,) = sent.runs
    await store.submit([Submission(sent.job, (replace(run, due_at=now + HOUR, eligible_at=now + HOUR),))])
    assert runs(await store.present("default")) == {**NOTHING, "scheduled": 1}


async def test_runs_of_a_serial_job_are_blocked(store: Store) -> None:
    job = await submitted(store, 25 * SECOND)
    await plan_due(store)
    found = await store.present("default")
    assert found.queued == 1
    assert found.blocked == 2
    assert (await store.jobs([job.id]))[job.id].status == "scheduled"


async def test_only_runs_and_jobs_of_the_tenant_count(store: Store) -> None:
    now = store.now()
    await store.submit([one_shot(now, tenant="other"), recurring(now, tenant="other")])
    await claim(store)
    found = await store.present("default")
    assert runs(found) == NOTHING
    assert (found.jobs, found.paused_jobs) == (0, 0)
    assert found.busy == 0
    assert (await store.present("other")).running == 1


async def test_jobs_that_will_fire_or_follow_are_counted_apart_from_paused_ones(store: Store) -> None:
    now = store.now()
    firing, paused = recurring(now), recurring(now)
    done = one_shot(now)
    await store.submit([firing, paused, done])
    following = Submission(one_shot(now, schedule=Follow(job=firing.job.id)).job, ())
    await store.submit([following])
    await store.settle([settlement(each) for each in await claim(store)])
    await pause(store, paused.job)
    found = await store.present("default")
    assert (found.jobs, found.paused_jobs) == (2, 1)


async def test_counts_end_at_a_maximum(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(present_module, "MAX_COUNTED", 5)
    await store.submit([one_shot(store.now()) for _ in range(7)])
    found = await store.present("default")
    assert found.queued == 5
    assert found.capped


async def test_many_waiting_runs_are_counted_in_an_index(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a maximum, runs are told apart by indexes, not by their rows."""
    now = store.now()
    await store.submit([one_shot(now, retry=Retry(max_retries=5)) for _ in range(3)])
    await store.settle([settlement(each, BOOM) for each in await claim(store)])
    await store.submit([one_shot(now) for _ in range(6)])
    monkeypatch.setattr(present_module, "MAX_CLASSIFIED", 2)
    assert runs(await store.present("default")) == {**NOTHING, "queued": 6, "retrying": 3}


# --- what comes next ----------------------------------------------------------------------------------------------


async def test_the_next_fires_are_those_of_runs_and_of_schedules_in_order(store: Store) -> None:
    now = store.now()
    run = one_shot(now, at=now + 20 * SECOND, name="run")
    soon = recurring(now, next_fire_at=now + 10 * SECOND, name="soon")
    late = recurring(now, next_fire_at=now + HOUR, name="late")
    paused = recurring(now, next_fire_at=now + 5 * SECOND, name="paused")
    other = recurring(now, next_fire_at=now + 5 * SECOND, tenant="other")
    await store.submit([run, soon, late, paused, other, one_shot(now, name="due")])
    await pause(store, paused.job)
    found = await store.upcoming("default", 10)
    assert [(each.job_name, each.fire_time) for each in found] == [
        ("soon", now + 10 * SECOND),
        ("run", now + 20 * SECOND),
        ("late", now + HOUR),
    ]
    assert [each.job_name for each in await store.upcoming("default", 2)] == ["soon", "run"]


async def test_a_job_comes_once_with_its_first_fire(store: Store) -> None:
    now = store.now()
    both = recurring(now, next_fire_at=now + 30 * SECOND)
    first = one_shot(now, at=now + 20 * SECOND).runs[0]
    await store.submit([Submission(both.job, (replace(first, job_id=both.job.id),))])
    (found,) = await store.upcoming("default", 10)
    assert (found.job_id, found.fire_time) == (both.job.id, now + 20 * SECOND)


# --- attention ----------------------------------------------------------------------------------------------------


async def kinds(store: Store, tenant: str = "default") -> dict[AttentionKind, list[tuple[str | None, int]]]:
    found: dict[AttentionKind, list[tuple[str | None, int]]] = {}
    for each in attention(await store.attention_facts(tenant)):
        found.setdefault(each.kind, []).append((each.job_name, each.count))
    return found


async def test_nothing_needs_attention_where_nothing_is_wrong(store: Store) -> None:
    await store.submit([one_shot(store.now()), recurring(store.now())])
    await store.settle([settlement(each) for each in await claim(store)])
    assert await kinds(store) == {}


async def test_dead_letters_are_grouped_by_job(store: Store) -> None:
    now = store.now()
    never = Retry(max_retries=0)
    one, other = one_shot(now, name="one", retry=never), one_shot(now, name="other", retry=never)
    again = one_shot(now).runs[0]
    await store.submit([Submission(one.job, (*one.runs, replace(again, job_id=one.job.id))), other])
    await store.submit([one_shot(now, tenant="strangers", retry=never)])
    await store.settle([settlement(each, BOOM) for each in await claim(store)])
    facts = await store.attention_facts("default")
    assert facts.dead_letters == 3
    assert (await kinds(store))[AttentionKind.DEAD] == [("one", 2), ("other", 1)]
    assert (await kinds(store))[AttentionKind.FAILING] == [("one", 2)]


async def test_a_job_that_succeeded_last_is_not_failing(store: Store) -> None:
    now = store.now()
    job = one_shot(now - HOUR, name="healed", retry=Retry(max_retries=0)).job
    fires = [one_shot(now, at=now - minutes * MINUTE).runs[0] for minutes in (5, 4, 3)]
    await store.submit([Submission(job, tuple(replace(run, job_id=job.id) for run in fires))])
    claims = sorted(await claim(store), key=lambda each: each.fire_time)
    await store.settle([settlement(each, BOOM) for each in claims[:2]])
    assert (await kinds(store))[AttentionKind.FAILING] == [("healed", 2)]
    await store.settle([settlement(claims[2])])
    assert AttentionKind.FAILING not in await kinds(store)


async def test_runs_that_wait_for_a_worker_are_late_after_a_while(store: Store) -> None:
    now = store.now()
    await store.submit([one_shot(now - MINUTE, name="late"), one_shot(now, name="fresh")])
    assert await kinds(store) == {AttentionKind.LATE: [("late", 1)]}
    assert await kinds(store, "other") == {}


async def test_runs_that_no_worker_can_take_are_told_apart_from_late_ones(store: Store) -> None:
    now = store.now()
    await store.submit([one_shot(now - MINUTE, name="late"), one_shot(now - MINUTE, name="gpu", runs_on=["gpu"])])
    await store.submit([one_shot(now - MINUTE, name="strange", runs_on=["tpu"], tenant="other")])
    assert await kinds(store) == {AttentionKind.UNPLACEABLE: [("gpu", 1)], AttentionKind.LATE: [("late", 1)]}
    await store.register(worker("w_2", labels=["gpu"]), LEASE)
    assert await kinds(store) == {AttentionKind.LATE: [("late", 1), ("gpu", 1)]}


async def test_a_python_function_that_no_worker_has_cannot_run(store: Store) -> None:
    now = store.now()
    await store.submit([one_shot(now - MINUTE, name="unknown", task=Python(function="reports.daily"))])
    assert await kinds(store) == {AttentionKind.UNPLACEABLE: [("unknown", 1)]}
    (told,) = attention(await store.attention_facts("default"))
    assert "reports.daily" in told.message
    await store.register(worker("w_2", tasks=["reports.daily"]), LEASE)
    assert await kinds(store) == {AttentionKind.LATE: [("unknown", 1)]}


async def test_without_a_worker_no_run_can_start(store: Store) -> None:
    await store.submit([one_shot(store.now() - MINUTE, name="alone")])
    await store.end_session("w_1")
    assert await kinds(store) == {AttentionKind.UNPLACEABLE: [("alone", 1)]}


async def test_a_worker_is_lost_if_its_lease_ran_out_and_not_if_it_left(store: Store, tamper: Tamper) -> None:
    await store.register(worker("w_2", name="left"), LEASE)
    await store.end_session("w_2")
    for session, name in (("w_3", "gone"), ("w_4", "back")):
        await store.register(worker(session, name=name), LEASE_LENGTH)
        await tamper(
            f"UPDATE workers SET lapsed = 1, lease_until = lease_until - {LEASE_LENGTH} - {SECOND},"
            f" seen_at = seen_at - {LEASE_LENGTH} - {SECOND} WHERE session = '{session}'"
        )
    await store.register(worker("w_5", name="back"), LEASE)
    facts = await store.attention_facts("default")
    assert [lost.name for lost in facts.lost] == ["gone"]
    (told,) = attention(facts)
    assert told.kind is AttentionKind.WORKER_LOST
    assert "gone" in told.message


async def test_paused_jobs_are_told_with_their_reason(store: Store) -> None:
    now = store.now()
    job = recurring(now, name="moved")
    await store.submit([job])
    await pause(store, job.job, "the warehouse moves")
    (told,) = attention(await store.attention_facts("default"))
    assert (told.kind, told.job_id, told.message) == (AttentionKind.PAUSED, job.job.id, "Paused: the warehouse moves")
    assert attention(await store.attention_facts("other")) == []
