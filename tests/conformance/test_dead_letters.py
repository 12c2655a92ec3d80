"""Dead letters: their fingerprints, their groups, and how users retry, replay and discard them (I12, I13)."""

import asyncio
from typing import Any

import msgspec
import pytest

from tests.conformance.test_amend import amend
from tests.support.builders import LEASE, one_shot, recurring, run, settlement, spec, worker
from timeball.domain import ids
from timeball.domain.instant import HOUR
from timeball.domain.job.job import Job, JobSpec, JobState, decode_spec
from timeball.domain.run.error_fingerprint import NO_FINGERPRINT, fingerprint
from timeball.domain.run.ledger import Origin
from timeball.domain.run.lifecycle import LOST, Failed, Failure, Lost, Outcome, Succeeded
from timeball.domain.run.run import NewRun, Run
from timeball.domain.run.status import Status
from timeball.domain.task.retry import NonRetryable, Retry
from timeball.domain.task.task import Shell
from timeball.ports.store.queries import Match, RunFilter
from timeball.ports.store.registry import RegisteredTask
from timeball.ports.store.runs import Claim, SlotRequest
from timeball.ports.store.store import Store

NEVER = Retry(max_retries=0)
BROKEN = Failure(kind="exit", message="exit code 3: row 17 is bad", exit_code=3)
OTHERWISE = Failure(kind="exit", message="exit code 3: no such table", exit_code=3)
EVERYTHING = RunFilter(tenant="default")
LETTERS = RunFilter(tenant="default", dead_letters=True)


async def claim(store: Store, session: str = "w_1") -> list[Claim]:
    return (await store.claim([SlotRequest(session, "", 1_000)], 0)).claims


async def ended(store: Store, *outcomes: Outcome, **fields: object) -> list[Run]:
    """A one-shot for each outcome, ended by it."""
    sent = [one_shot(store.now(), **{"retry": NEVER, **fields}) for _ in outcomes]
    await store.submit(sent)
    by_run = {each.runs[0].id: outcome for each, outcome in zip(sent, outcomes, strict=True)}
    while claims := await claim(store):
        await store.settle([settlement(got, by_run[got.run_id]) for got in claims])
    runs = await store.runs(list(by_run))
    return [runs[run_id] for run_id in by_run]


async def dead(store: Store, **fields: object) -> tuple[Job, str]:
    (died,) = await ended(store, Failed(BROKEN), **fields)
    return await job_of(store, died), died.id


async def job_of(store: Store, of: Run) -> Job:
    return (await store.jobs([of.job_id]))[of.job_id].job


async def successors(store: Store, *olds: Run, **fields: Any) -> list[tuple[str, NewRun]]:
    jobs = await store.jobs([old.job_id for old in olds])
    made = [run(jobs[old.job_id].job, store.now(), origin=Origin.RETRY, **fields) for old in olds]
    return [(old.id, each) for old, each in zip(olds, made, strict=True)]


async def letters(store: Store) -> list[str]:
    return [match.run_id for match in await store.match_runs(LETTERS, None, 1_000)]


# --- fingerprints and groups ------------------------------------------------------------------------------------------


async def test_a_run_that_gave_up_has_the_fingerprint_of_its_error(store: Store) -> None:
    same = Failed(Failure(kind="exit", message="exit code 3: row 4711 is bad", exit_code=3))
    first, second, lost, fine = await ended(store, Failed(BROKEN), same, Lost(), Succeeded())
    assert first.fingerprint == second.fingerprint == fingerprint(BROKEN)
    assert lost.fingerprint == fingerprint(LOST)
    assert fine.fingerprint is None
    (refused,) = await ended(store, same, retry=Retry(non_retryable=NonRetryable(exit_codes=[3])))
    assert (refused.status, refused.fingerprint) == (Status.FAILED, fingerprint(BROKEN))


async def test_letters_with_the_same_error_are_one_group(store: Store) -> None:
    first = await ended(store, *[Failed(BROKEN)] * 3, tags=["a"])
    (other,) = await ended(store, Failed(OTHERWISE))
    await ended(store, Succeeded())
    await ended(store, Failed(BROKEN), retry=Retry(non_retryable=NonRetryable(exit_codes=[3])))  # failed, not dead
    await ended(store, Failed(BROKEN), tags=["b"])
    found = await store.dead_letter_groups(EVERYTHING, 10)
    assert (found.counted, found.more) == (5, False)
    assert [(each.fingerprint, each.letters, each.jobs) for each in found.groups] == [
        (fingerprint(BROKEN), 4, 4),
        (fingerprint(OTHERWISE), 1, 1),
    ]
    large, small = found.groups
    assert large.failure == BROKEN
    assert large.first_at == min(each.finished_at or 0 for each in first)
    assert (small.newest, small.failure, small.first_at) == (other.id, OTHERWISE, small.last_at)

    tagged = await store.dead_letter_groups(msgspec.structs.replace(EVERYTHING, tag="a"), 10)
    assert [(each.letters, each.newest) for each in tagged.groups] == [(3, max(each.id for each in first))]
    assert len((await store.dead_letter_groups(EVERYTHING, 1)).groups) == 1
    assert (await store.dead_letter_groups(RunFilter(tenant="other"), 10)).groups == []


async def test_letters_without_a_fingerprint_are_a_group_that_can_be_selected(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They gave up before the store kept fingerprints. A filter for them selects no others."""
    with monkeypatch.context() as old:
        old.setattr("timeball.stores.sql.runs.settling.fingerprint", lambda failure: None)
        first, second = await ended(store, Failed(BROKEN), Failed(OTHERWISE))
    await ended(store, Failed(BROKEN), Succeeded())
    found = await store.dead_letter_groups(EVERYTHING, 10)
    assert [(each.fingerprint, each.letters) for each in found.groups] == [
        (NO_FINGERPRINT, 2),
        (fingerprint(BROKEN), 1),
    ]
    without = msgspec.structs.replace(LETTERS, fingerprint=NO_FINGERPRINT)
    assert [match.run_id for match in await store.match_runs(without, None, 10)] == sorted([first.id, second.id])
    assert await store.count_runs(without) == 2
    every = msgspec.structs.replace(EVERYTHING, fingerprint=NO_FINGERPRINT)
    assert {run.id for run in (await store.list_runs(every, None, 10)).items} == {first.id, second.id}
    assert [each.letters for each in (await store.dead_letter_groups(without, 10)).groups] == [2]


async def test_grouping_looks_at_the_newest_letters_only(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("timeball.stores.sql.reading.dead_letters.MAX_GROUPED", 3)
    await ended(store, *[Failed(OTHERWISE)] * 2)
    await ended(store, *[Failed(BROKEN)] * 3)
    found = await store.dead_letter_groups(EVERYTHING, 10)
    assert (found.counted, found.more) == (3, True)
    assert found.groups[0].fingerprint == fingerprint(BROKEN)


# --- finding ----------------------------------------------------------------------------------------------------------


async def test_matches_come_oldest_first_live_and_finished_alike(store: Store) -> None:
    done = await ended(store, Succeeded(), Failed(BROKEN))
    waiting = [one_shot(store.now()), one_shot(store.now(), at=store.now() + HOUR)]
    await store.submit(waiting)
    expected = [*(each.id for each in done), *(each.runs[0].id for each in waiting)]
    seen: list[Match] = []
    while some := await store.match_runs(EVERYTHING, seen[-1] if seen else None, 3):
        seen += some
    assert [match.run_id for match in seen] == sorted(expected)
    statuses = {match.run_id: match.status for match in await store.match_runs(EVERYTHING, None, 10)}
    assert [statuses[run_id] for run_id in expected] == [
        Status.SUCCEEDED,
        Status.DEAD,
        Status.QUEUED,
        Status.SCHEDULED,
    ]
    assert await store.count_runs(EVERYTHING) == 4
    before = msgspec.structs.replace(EVERYTHING, made_before=sorted(expected)[2])
    assert [match.run_id for match in await store.match_runs(before, None, 10)] == sorted(expected)[:2]
    assert await store.count_runs(before) == 2


async def test_runs_are_found_by_fingerprint_and_origin(store: Store) -> None:
    old, other = await ended(store, Failed(BROKEN), Failed(OTHERWISE))
    ((_, again),) = pairs = await successors(store, old)
    await store.repeat(pairs)

    async def found(**fields: Any) -> list[str]:
        where = msgspec.structs.replace(EVERYTHING, **fields)
        page = await store.list_runs(where, None, 10)
        assert [match.run_id for match in await store.match_runs(where, None, 10)] == sorted(r.id for r in page.items)
        assert await store.count_runs(where) == len(page.items)
        return [each.id for each in page.items]

    assert await found(fingerprint=old.fingerprint) == [old.id]
    assert await found(fingerprint=other.fingerprint, status=frozenset({Status.DEAD, Status.QUEUED})) == [other.id]
    assert await found(fingerprint="0" * 12) == []
    assert await found(origin=frozenset({Origin.RETRY})) == [again.id]
    assert await found(origin=frozenset({Origin.RETRY, Origin.REPLAY}), status=frozenset({Status.DEAD})) == []
    assert len(await found(origin=frozenset({Origin.SCHEDULE}))) == 2
    assert await found(status=frozenset({Status.DEAD}), unattended=True) == [other.id]
    assert await found(dead_letters=True) == [other.id]


# --- retrying ---------------------------------------------------------------------------------------------------------


async def test_a_finished_run_is_repeated_once_and_linked(store: Store) -> None:
    job, old = await dead(store)
    fresh, other = run(job, store.now()), run(job, store.now())
    assert await store.repeat([(old, fresh)]) == [Status.QUEUED]
    assert await store.repeat([(old, fresh)]) == [Status.QUEUED]
    assert await store.repeat([(old, other), ("r_unknown", other), (fresh.id, other)]) == [None, None, None]
    runs = await store.runs([old, fresh.id])
    assert (runs[old].retried_as, runs[fresh.id].retry_of) == (fresh.id, old)


async def test_a_batch_repeats_each_run_once_and_one_bad_pair_fails_no_other(store: Store) -> None:
    one, two, fine = await ended(store, Failed(BROKEN), Failed(BROKEN), Succeeded())
    (first, second, twice, succeeded) = await successors(store, one, two, one, fine)
    stranger = (two.id, run((await job_of(store, one)), store.now()))
    assert await store.repeat([first, stranger, second, twice]) == [Status.QUEUED, None, Status.QUEUED, None]
    assert await store.repeat_dead_letters([succeeded]) == [None]
    assert await store.repeat([]) == []
    assert await letters(store) == []


async def test_of_many_who_repeat_the_same_runs_at_once_each_gets_one_successor(stores: tuple[Store, Store]) -> None:
    await stores[0].register(worker("w_1", slots=1_000), LEASE)
    died = await ended(stores[0], *[Failed(BROKEN)] * 40)
    batches = [await successors(stores[0], *(died if at % 2 else reversed(died))) for at in range(6)]
    answers = await asyncio.gather(*(stores[at % 2].repeat(batch) for at, batch in enumerate(batches)))
    assert sum(status is Status.QUEUED for answer in answers for status in answer) == len(died)
    runs = await stores[0].runs([old.id for old in died])
    assert len({each.retried_as for each in runs.values()}) == len(died)
    alive = (await stores[0].list_runs(RunFilter(tenant="default", status=frozenset({Status.QUEUED})), None, 100)).items
    assert {each.id: each.retry_of for each in alive} == {each.retried_as: each.id for each in runs.values()}


async def test_a_repetition_that_may_not_overlap_leaves_no_trace(store: Store) -> None:
    job, old = await dead(store, overlap="skip")
    assert await store.trigger([run(job, store.now())]) == [Status.QUEUED]
    refused = run(job, store.now())
    assert await store.repeat([(old, refused)]) == [Status.SKIPPED]
    assert await store.runs([refused.id]) == {}
    await store.settle([settlement(got) for got in await claim(store)])
    assert await store.repeat([(old, run(job, store.now()))]) == [Status.QUEUED]


async def test_repetitions_of_one_job_line_up(store: Store) -> None:
    sent = recurring(store.now(), retry=NEVER)
    await store.submit([sent])
    for _ in range(3):
        await store.trigger([run(sent.job, store.now())])
        await store.settle([settlement(got, Failed(BROKEN)) for got in await claim(store)])
    pairs = [(old, run(sent.job, store.now())) for old in await letters(store)]
    assert await store.repeat(pairs) == [Status.QUEUED, Status.BLOCKED, Status.BLOCKED]


async def test_nothing_is_repeated_for_a_cancelled_job(store: Store) -> None:
    job, old = await dead(store)
    await amend(store, job, state=JobState.CANCELLED)
    assert await store.repeat([(old, run(job, store.now()))]) == [None]
    assert await store.replay([(old, run(job, store.now()))], "r_") == [None]
    assert await letters(store) == [old]


# --- editing ----------------------------------------------------------------------------------------------------------


def edited(**changes: Any) -> JobSpec:
    return spec(parameters={"edited": True}, **changes)


async def test_an_edited_run_executes_its_own_spec_and_its_job_stays_as_it_is(store: Store) -> None:
    job, old = await dead(store, parameters={"edited": False})
    own = edited(priority="high", retry=Retry(max_retries=1, backoff=["0s"]))
    fresh = run(job, store.now(), spec=own)
    assert await store.repeat([(old, fresh)]) == [Status.QUEUED]
    (got,) = await claim(store)
    assert decode_spec(got.spec) == own
    await store.settle([settlement(got, Failed(BROKEN))])
    (got,) = await claim(store)  # by its own rules, it is tried twice
    await store.settle([settlement(got, Failed(BROKEN))])
    assert (await store.runs([fresh.id]))[fresh.id].status is Status.DEAD
    assert (await store.jobs([job.id]))[job.id].job.spec == job.spec

    specs = await store.specs([old, fresh.id, "r_unknown"])
    assert specs.keys() == {old, fresh.id}
    assert (specs[old].spec, specs[old].edited) == (job.spec, False)
    assert (specs[fresh.id].spec, specs[fresh.id].edited) == (own, True)


async def test_an_edited_run_keeps_its_spec_when_its_job_gets_another(store: Store) -> None:
    job, old = await dead(store)
    fresh = run(job, store.now(), spec=edited())
    await store.repeat([(old, fresh)])
    await amend(store, job, spec=spec(name="other"))
    (got,) = await claim(store)
    assert decode_spec(got.spec) == edited()


async def test_an_edit_may_name_a_registered_task(store: Store) -> None:
    task = {"kind": "shell", "command": "echo"}
    await store.put_task(RegisteredTask(id="t", tenant="default", spec=task, version=1, updated_at=0))
    job, old = await dead(store)
    await store.repeat([(old, run(job, store.now(), spec=edited(task=None, task_id="t")))])
    (got,) = await claim(store)
    assert got.task is not None
    assert msgspec.json.decode(got.task) == task


async def test_what_a_run_executed_is_known_whatever_became_of_its_job(store: Store) -> None:
    specs = [spec(task=Shell(command=f"echo {n}"), retry=NEVER) for n in range(3)]
    job, first = await dead(store, task=specs[0].task)
    died = [first]
    for each in specs[1:]:
        job = (await store.jobs([job.id]))[job.id].job
        await amend(store, job, state=JobState.PAUSED)  # a version of the job with the same spec
        job = (await store.jobs([job.id]))[job.id].job
        await amend(store, job, spec=each)
        job = (await store.jobs([job.id]))[job.id].job
        await store.trigger([run(job, store.now())])
        (got,) = await claim(store)
        await store.settle([settlement(got, Failed(BROKEN))])
        died.append(got.run_id)
    found = await store.specs(died)
    assert [found[run_id].spec.task for run_id in died] == [each.task for each in specs]


# --- replaying --------------------------------------------------------------------------------------------------------


async def test_a_run_is_replayed_any_number_of_times(store: Store) -> None:
    (old,) = await ended(store, Succeeded())
    job = await job_of(store, old)
    replays = [run(job, store.now(), origin=Origin.REPLAY, retry_of=old.id) for _ in range(2)]
    for each in replays:
        assert await store.trigger([each]) == [Status.QUEUED]
        await store.settle([settlement(got) for got in await claim(store)])
    runs = await store.runs([each.id for each in replays])
    assert {(each.origin, each.retry_of, each.status) for each in runs.values()} == {
        (Origin.REPLAY, old.id, Status.SUCCEEDED)
    }
    assert (await store.ledger_sums(job.id, 0, store.now() + HOUR)).due == 1


async def test_replaying_many_may_be_repeated(stores: tuple[Store, Store]) -> None:
    await stores[0].register(worker("w_1", slots=1_000), LEASE)
    done = await ended(stores[0], *[Succeeded()] * 10)
    began = ids.first_run(stores[0].now())
    batches = [await successors(stores[0], *done) for _ in range(4)]
    answers = await asyncio.gather(*(stores[at % 2].replay(batch, began) for at, batch in enumerate(batches)))
    assert sum(status is not None for answer in answers for status in answer) == len(done)
    later = await successors(stores[0], *done)
    assert set(await stores[0].replay(later, later[0][1].id)) == {Status.BLOCKED}
    assert await stores[0].replay(later, began) == [Status.BLOCKED] * len(done)  # the same again: nothing new
    assert await stores[0].count_runs(EVERYTHING) == 3 * len(done)


# --- discarding -------------------------------------------------------------------------------------------------------


async def test_a_discarded_letter_stays_in_the_history(store: Store) -> None:
    died, fine = await ended(store, Failed(BROKEN), Succeeded())
    assert await store.discard([died.id, fine.id, "r_unknown", died.id]) == [True, False, False, True]
    assert await store.discard([died.id]) == [False]
    assert await letters(store) == []
    assert (await store.dead_letter_groups(EVERYTHING, 10)).groups == []
    read = (await store.runs([died.id]))[died.id]
    assert (read.status, read.retried_as) == (Status.DEAD, None)
    assert read.discarded_at is not None
    assert len((await store.list_runs(EVERYTHING, None, 10)).items) == 2


async def test_a_discarded_letter_is_retried_only_if_it_is_named(store: Store) -> None:
    (died,) = await ended(store, Failed(BROKEN))
    await store.discard([died.id])
    pairs = await successors(store, died)
    assert await store.repeat_dead_letters(pairs) == [None]
    assert await store.repeat(pairs) == [Status.QUEUED]
    assert await store.discard([died.id]) == [False]


async def test_a_letter_is_either_retried_or_discarded(stores: tuple[Store, Store]) -> None:
    await stores[0].register(worker("w_1", slots=1_000), LEASE)
    died = await ended(stores[0], *[Failed(BROKEN)] * 40)
    pairs = await successors(stores[0], *died)
    halves = [pairs[at : at + 5] for at in range(0, 40, 5)]
    repeated, discarded = await asyncio.gather(
        asyncio.gather(*(stores[0].repeat_dead_letters(half) for half in halves)),
        asyncio.gather(*(stores[1].discard([old for old, _ in reversed(half)]) for half in reversed(halves))),
    )
    runs = await stores[0].runs([each.id for each in died])
    assert all((each.retried_as is None) != (each.discarded_at is None) for each in runs.values())
    done = sum(status is Status.QUEUED for answer in repeated for status in answer)
    assert done + sum(map(sum, discarded)) == len(died)
