"""Ends of attempts: each has at most one effective end, reported by the session that holds it (I6, I7, I8, I10, I12,
I13, I15)."""

import asyncio
from collections.abc import Callable

import msgspec
import pytest
from msgspec import Raw

from tests.conformance.conftest import Tamper
from tests.support.builders import LEASE, one_shot, settlement, worker
from timeball.domain.instant import HOUR, MAX, SECOND, Micros
from timeball.domain.run.ledger import TOLERANCE, Origin, Verdict
from timeball.domain.run.lifecycle import LOST, Cancelled, Failed, Failure, Lost, Outcome, Released, Succeeded
from timeball.domain.run.run import NewRun, Run
from timeball.domain.run.status import Status
from timeball.domain.task.retry import NonRetryable, Retry
from timeball.ports.store.queries import LogLine, RunFilter
from timeball.ports.store.runs import Claim, Settled, SlotRequest, Wanted
from timeball.ports.store.store import Store
from timeball.ports.worker_protocol import LogChunk, Pausing, Progress, Started
from timeball.stores.sql.runs import settle_plain_success

BROKEN = Failed(Failure(kind="exit", message="exit code 3", exit_code=3))
AT_ONCE = Retry(max_retries=2, backoff=["0s"])


async def start(store: Store, **fields: object) -> Claim:
    """Submit a one-shot and claim it."""
    await store.submit([one_shot(store.now(), **fields)])
    return await claim_one(store)


async def claim_one(store: Store) -> Claim:
    (got,) = (await store.claim([SlotRequest("w_1", "", 1)], 0)).claims
    return got


async def read(store: Store, claim: Claim) -> Run:
    return (await store.runs([claim.run_id]))[claim.run_id]


async def end(store: Store, claim: Claim, outcome: Outcome) -> Status | None:
    (settled,) = await store.settle([settlement(claim, outcome, at=store.now())])
    assert settled is not None
    assert settled.run_id == claim.run_id
    return settled.status


async def test_a_success_is_final_and_keeps_its_result(store: Store) -> None:
    claim = await start(store)
    assert await end(store, claim, Succeeded(Raw(b'{"answer": 42}'))) is Status.SUCCEEDED
    run = await read(store, claim)
    assert (run.status, run.verdict, run.attempt, run.worker) == (
        Status.SUCCEEDED,
        Verdict.ON_TIME,
        1,
        "worker of w_1",
    )
    assert run.result is not None
    assert msgspec.json.decode(run.result) == {"answer": 42}
    assert await store.holding("w_1") == {}


async def test_a_failure_is_tried_again_after_its_backoff(store: Store) -> None:
    claim = await start(store, retry=Retry(max_retries=1, backoff=["30s"]))
    before = store.now()
    assert await end(store, claim, BROKEN) is None
    run = await read(store, claim)
    assert (run.status, run.attempt, run.failure) == (Status.RETRYING, 1, BROKEN.failure)
    assert run.eligible_at is not None
    assert run.eligible_at >= before + 30 * SECOND
    assert (await store.claim([SlotRequest("w_1", "", 1)], 0)).claims == []
    assert await store.retry_now([claim.run_id]) == [True]
    second = await claim_one(store)
    assert (second.run_id, second.attempt) == (claim.run_id, 2)
    assert second.token > claim.token
    (first,) = await store.attempts(claim.run_id)
    assert (first.attempt, first.token, first.worker, first.failure) == (
        1,
        claim.token,
        "worker of w_1",
        BROKEN.failure,
    )


async def test_retries_end_in_the_dead_letters(store: Store) -> None:
    claim = await start(store, retry=AT_ONCE)
    for _ in range(2):
        assert await end(store, claim, BROKEN) is None
        claim = await claim_one(store)
    assert claim.attempt == 3
    assert await end(store, claim, BROKEN) is Status.DEAD
    run = await read(store, claim)
    assert (run.status, run.attempt, run.failure) == (Status.DEAD, 3, BROKEN.failure)
    assert [attempt.attempt for attempt in await store.attempts(claim.run_id)] == [1, 2]


async def test_a_failure_that_cannot_heal_is_not_tried_again(store: Store) -> None:
    claim = await start(store, retry=Retry(non_retryable=NonRetryable(exit_codes=[3])))
    assert await end(store, claim, BROKEN) is Status.FAILED


async def test_losing_the_worker_costs_an_attempt_but_no_backoff(store: Store) -> None:
    claim = await start(store, retry=Retry(max_retries=1, backoff=["1h"]))
    assert await end(store, claim, Lost()) is None
    second = await claim_one(store)
    assert await end(store, second, Lost()) is Status.DEAD
    assert (await read(store, claim)).failure == LOST


async def test_given_back_costs_no_attempt(store: Store) -> None:
    claim = await start(store)
    assert await end(store, claim, Released()) is None
    again = await claim_one(store)
    assert (again.run_id, again.attempt) == (claim.run_id, 1)
    assert await store.attempts(claim.run_id) == []


async def test_what_a_given_back_attempt_printed_is_forgotten(store: Store) -> None:
    """The next attempt has its number: the two must not be mixed."""
    claim = await start(store)
    await store.append_logs("w_1", [chunk(claim, 0, "from before")], 1)
    await end(store, claim, Released())
    again = await claim_one(store)
    await store.append_logs("w_1", [chunk(again, 0, "from now")], 2)
    assert [line.text for line in await store.logs(claim.run_id, None, 0, 10)] == ["from now"]


async def test_given_back_before_its_time_it_does_not_run_early(store: Store) -> None:
    at = store.now() + 20 * SECOND
    await store.submit([one_shot(store.now(), at=at)])
    (claim,) = (await store.claim([SlotRequest("w_1", "", 1)], 30 * SECOND)).claims
    await store.settle([settlement(claim, Released())])
    assert (await store.claim([SlotRequest("w_1", "", 1)], 0)).claims == []
    assert await store.next_eligible_at() == at


async def test_the_first_start_is_kept_over_retries(store: Store) -> None:
    claim = await start(store, retry=AT_ONCE)
    first_start, second_start = store.now() - 10, store.now()
    await store.settle([settlement(claim, BROKEN, started_at=first_start, finished_at=first_start + 5)])
    claim = await claim_one(store)
    await store.settle([settlement(claim, started_at=second_start, finished_at=second_start + 5)])
    run = await read(store, claim)
    assert (run.started_at, run.attempt_started_at) == (first_start, second_start)


async def test_absurd_words_of_a_worker_fail_nobody_else(store: Store) -> None:
    first, second = await start(store), await start(store)
    absurd = [
        settlement(first, run_id="r_\x00"),
        settlement(first, job_id="j_\x00", serial=True, token=-1),
        settlement(first, started_at=2**80, finished_at=2**80),
        settlement(first, started_at=-(2**80)),
    ]
    answers = await store.settle([*absurd, settlement(second)])
    assert answers == [
        None,
        None,
        Settled(first.run_id, Status.SUCCEEDED),
        None,
        Settled(second.run_id, Status.SUCCEEDED),
    ]
    assert (await read(store, first)).started_at == MAX


async def test_a_late_start_is_called_late(store: Store) -> None:
    now = store.now()
    await store.submit([one_shot(now, at=now - 60 * SECOND)])
    claim = await claim_one(store)
    await store.settle([settlement(claim, started_at=now, finished_at=now)])
    assert (await read(store, claim)).verdict is Verdict.LATE


async def test_absurd_patience_ends_at_the_cap(store: Store) -> None:
    """I15: it neither overflows nor pushes the retry past the cap."""
    claim = await start(store, retry=Retry(max_retries=1, cap="1h"))
    before = store.now()
    patient = Failed(Failure(kind="http", message="", status=429, retry_after=2**70))
    assert await end(store, claim, patient) is None
    again = await store.next_eligible_at()
    assert again is not None
    assert before + HOUR <= again <= store.now() + HOUR + SECOND, "PostgreSQL may be a little ahead of `now`"


@pytest.mark.parametrize("changes", [{"attempt": 2}, {"token": 999_999}, {"run_id": "r_other"}, {"token": 2**70}])
async def test_a_stale_end_writes_nothing(store: Store, changes: dict[str, object]) -> None:
    claim = await start(store)
    good, bad = settlement(claim), settlement(claim, BROKEN, **changes)
    assert await store.settle([bad]) == [None]
    assert (await read(store, claim)).status is Status.RUNNING
    assert await store.settle([bad, good]) == [None, Settled(claim.run_id, Status.SUCCEEDED)]


async def test_an_end_counts_once(store: Store) -> None:
    claim = await start(store)
    assert await store.settle([settlement(claim), settlement(claim, BROKEN)]) == [
        Settled(claim.run_id, Status.SUCCEEDED),
        None,
    ]
    assert await store.settle([settlement(claim)]) == [None]
    assert (await read(store, claim)).status is Status.SUCCEEDED


async def test_after_a_retry_the_first_attempt_has_no_say(store: Store) -> None:
    first = await start(store, retry=AT_ONCE)
    await end(store, first, Lost())
    assert await store.settle([settlement(first)]) == [None]
    second = await claim_one(store)
    assert await store.settle([settlement(first)]) == [None]
    assert await end(store, second, Succeeded()) is Status.SUCCEEDED


async def test_of_many_ends_at_once_one_takes_effect(stores: tuple[Store, Store]) -> None:
    store = stores[0]
    await store.register(worker("w_1"), LEASE)
    for _ in range(20):
        claim = await start(store)
        outcomes: list[Outcome] = [Succeeded(), BROKEN, Lost(), Released(), Cancelled()]
        answers = await asyncio.gather(
            *(stores[at % 2].settle([settlement(claim, outcome)]) for at, outcome in enumerate(outcomes))
        )
        assert sum(answer != [None] for answer in answers) == 1
        await store.request_cancel([claim.run_id])


async def test_cancel_ends_a_waiting_run_at_once(store: Store) -> None:
    sent = one_shot(store.now(), at=store.now() + SECOND * 60)
    await store.submit([sent])
    (answer, unknown) = await store.request_cancel([sent.runs[0].id, "r_unknown"])
    assert answer is not None
    assert unknown is None
    assert answer.status is Status.CANCELLED
    run = (await store.runs([sent.runs[0].id]))[sent.runs[0].id]
    assert (run.status, run.verdict) == (Status.CANCELLED, Verdict.CANCELLED)
    (again,) = await store.request_cancel([sent.runs[0].id])
    assert again is not None
    assert again.status is Status.CANCELLED
    assert (await store.jobs([sent.job.id]))[sent.job.id].status == "completed"


@pytest.mark.parametrize("outcome", [Succeeded(), BROKEN, Lost(), Released(), Cancelled()])
async def test_cancel_wins_over_every_end(store: Store, outcome: Outcome) -> None:
    claim = await start(store)
    (answer,) = await store.request_cancel([claim.run_id])
    assert answer is not None
    assert (answer.status, answer.token, answer.started) == (Status.RUNNING, claim.token, False)
    assert await store.holding("w_1") == {claim.token: Wanted.STOP}
    assert await end(store, claim, outcome) is Status.CANCELLED


async def test_starts_and_progress_are_kept_for_the_holder_only(store: Store) -> None:
    claim = await start(store)
    at = store.now()
    started = Started(run_id=claim.run_id, token=claim.token, age=0)
    stale = Started(run_id=claim.run_id, token=claim.token + 7, age=0)
    absurd = Started(run_id=claim.run_id, token=2**80, age=0)
    half = Progress(run_id=claim.run_id, token=claim.token, fraction=0.5, note="half \x00")
    assert await store.note("w_other", [(started, at)], [half]) == [claim.token]
    assert (await read(store, claim)).progress is None
    answer = await store.note("w_1", [(started, at), (stale, 1), (absurd, 1)], [half])
    assert sorted(answer) == [claim.token + 7, 2**80]
    run = await read(store, claim)
    assert (run.started_at, run.attempt_started_at, run.progress, run.progress_note) == (at, at, 0.5, "half \ufffd")
    (asked,) = await store.request_cancel([claim.run_id])
    assert asked is not None
    assert asked.started


def chunk(claim: Claim, seq: int, text: str, **changes: object) -> LogChunk:
    values = {"run_id": claim.run_id, "attempt": claim.attempt, "token": claim.token, "stream": "stdout"}
    return LogChunk(**{**values, "seq": seq, "text": text, **changes})  # type: ignore[arg-type]


async def test_output_is_kept_once_and_in_order(store: Store) -> None:
    claim = await start(store, retry=AT_ONCE)
    assert await store.append_logs("w_1", [chunk(claim, 1, "b"), chunk(claim, 0, "a")], 7) == []
    assert await store.append_logs("w_1", [chunk(claim, 1, "other"), chunk(claim, 2, "nul \x00 \ud800")], 8) == []
    lines = await store.logs(claim.run_id, None, 0, 10)
    assert lines == [
        LogLine(1, 0, "stdout", 7, "a"),
        LogLine(1, 1, "stdout", 7, "b"),
        LogLine(1, 2, "stdout", 8, "nul \ufffd ?"),
    ]
    await end(store, claim, BROKEN)
    second = await claim_one(store)
    await store.append_logs("w_1", [chunk(second, 0, "again")], 9)
    assert [line.text for line in await store.logs(claim.run_id, None, 1_000_001, 10)] == ["nul \ufffd ?", "again"]
    assert [line.text for line in await store.logs(claim.run_id, 2, 0, 10)] == ["again"]
    assert [line.text for line in await store.logs(claim.run_id, 1, 0, 2)] == ["a", "b"]


async def test_a_stale_token_writes_no_output(store: Store) -> None:
    claim = await start(store)
    bad = [
        chunk(claim, 0, "x", token=claim.token + 1),
        chunk(claim, 1, "x", attempt=2),
        chunk(claim, 2, "x", token=2**80),
    ]
    assert sorted(await store.append_logs("w_1", [*bad, chunk(claim, 3, "good")], 1)) == sorted(
        [claim.token + 1, claim.token, 2**80]
    )
    await end(store, claim, Succeeded())
    assert await store.append_logs("w_1", [chunk(claim, 4, "late")], 1) == [claim.token]
    assert [line.text for line in await store.logs(claim.run_id, None, 0, 10)] == ["good"]


async def test_hurry_is_for_retries_only(store: Store) -> None:
    sent = one_shot(store.now(), at=store.now() + 60 * SECOND)
    await store.submit([sent])
    assert await store.retry_now([sent.runs[0].id, "r_unknown"]) == [False, False]


async def test_an_attempt_of_a_job_that_cannot_be_read_ends_all_the_same(store: Store, tamper: Tamper) -> None:
    """By its own retry rules if those can be read, else by the usual ones; its neighbours by theirs."""
    claims = [await start(store, retry=Retry(max_retries=0)) for _ in range(3)]
    await tamper(f"""UPDATE jobs SET spec = '{{"retry": {{"maxRetries": -1}}}}' WHERE id = '{claims[0].job_id}'""")
    await tamper(f"""UPDATE jobs SET spec = replace(spec, '"task"', '"news"') WHERE id = '{claims[1].job_id}'""")
    assert list(await store.jobs([claim.job_id for claim in claims])) == [claims[2].job_id]
    answers = await store.settle([settlement(claim, BROKEN, at=store.now()) for claim in claims])
    assert [answer.status for answer in answers if answer is not None] == [None, Status.DEAD, Status.DEAD]


async def test_no_attempt_seems_to_start_before_its_fire_time(store: Store) -> None:
    """Reports through a server whose clock lags a little behind the one that handed the run out."""
    ending, noted, failing = [await start(store, retry=AT_ONCE) for _ in range(3)]
    early = ending.fire_time - SECOND
    await store.note("w_1", [(Started(run_id=noted.run_id, token=noted.token, age=0), early)], [])
    await store.settle(
        [
            settlement(ending, started_at=early, finished_at=early + 5),
            settlement(failing, BROKEN, started_at=early, finished_at=early + 5),
        ]
    )
    run = await read(store, ending)
    assert (run.started_at, run.attempt_started_at, run.finished_at) == (ending.fire_time,) * 3
    run = await read(store, noted)
    assert (run.started_at, run.attempt_started_at) == (noted.fire_time,) * 2
    (attempt,) = await store.attempts(failing.run_id)
    assert (attempt.started_at, attempt.finished_at) == (failing.fire_time,) * 2


async def jittered(store: Store, wait: int) -> tuple[str, int]:
    """A run whose time has come and which should start a while later; when that is."""
    sent = one_shot(store.now(), jitter="1h")
    at = store.now() + wait
    first = msgspec.structs.replace(sent.runs[0], due_at=at, eligible_at=at)
    await store.submit([msgspec.structs.replace(sent, runs=(first,))])
    return first.id, at


async def test_a_run_with_jitter_that_comes_back_too_soon_waits_for_its_time(store: Store) -> None:
    run_id, at = await jittered(store, 10 * SECOND)
    (got,) = (await store.claim([SlotRequest("w_1", "", 1)], 20 * SECOND)).claims
    assert (got.run_id, got.eligible_at) == (run_id, at)
    assert (await store.runs([run_id]))[run_id].status is Status.SCHEDULED
    listed = await store.list_runs(RunFilter(tenant="default", status=frozenset({Status.SCHEDULED})), None, 10)
    assert [each.id for each in listed.items] == [run_id]
    await store.settle([settlement(got, Released())])
    assert await store.next_eligible_at() == at
    (again,) = (await store.claim([SlotRequest("w_1", "", 1)], 20 * SECOND)).claims
    await store.settle([settlement(again, Lost())])
    assert await store.next_eligible_at() == at
    assert await store.retry_now(run_id)
    assert await store.next_eligible_at() == at, "no hurry makes it early"


async def test_no_attempt_of_a_run_with_jitter_starts_before_its_time(store: Store) -> None:
    run_id, at = await jittered(store, 10 * SECOND)
    (got,) = (await store.claim([SlotRequest("w_1", "", 1)], 20 * SECOND)).claims
    await store.note("w_1", [(Started(run_id=run_id, token=got.token, age=0), at - SECOND)], [])
    assert (await store.runs([run_id]))[run_id].started_at == at
    await store.settle([settlement(got, at=at - SECOND)])
    ended = (await store.runs([run_id]))[run_id]
    assert (ended.started_at, ended.due_at, ended.verdict) == (at, at, Verdict.ON_TIME)


def _jittered(first: NewRun, now: Micros) -> NewRun:
    return msgspec.structs.replace(first, due_at=now - SECOND, eligible_at=now - SECOND)


def _caught_up(first: NewRun, now: Micros) -> NewRun:
    return msgspec.structs.replace(first, origin=Origin.CATCH_UP)


def _overdue(first: NewRun, now: Micros) -> NewRun:
    return msgspec.structs.replace(first, fire_time=now - TOLERANCE - 1, eligible_at=now - TOLERANCE - 1)


@pytest.mark.parametrize("change", [lambda first, now: first, _jittered, _caught_up, _overdue])
@pytest.mark.parametrize("tried", [False, True])
@pytest.mark.parametrize("began", [-5 * SECOND, 0, MAX])
async def test_simple_successes_are_written_down_like_judged_ones(
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[NewRun, Micros], NewRun],
    tried: bool,
    began: Micros,
) -> None:
    """Those that never leave the database, and those that are looked at one by one."""
    now = store.now()
    submissions = [one_shot(now, retry=AT_ONCE) for _ in range(2)]
    submissions = [msgspec.structs.replace(each, runs=(change(each.runs[0], now),)) for each in submissions]
    await store.submit(submissions)
    claims = (await store.claim([SlotRequest("w_1", "", 2)], 0)).claims
    if tried:
        await store.settle([settlement(claim, BROKEN, at=now) for claim in claims])
        claims = (await store.claim([SlotRequest("w_1", "", 2)], 0)).claims
        halves = [Progress(run_id=each.run_id, token=each.token, fraction=0.5, note="half") for each in claims]
        await store.note("w_1", [], halves)
    told = {"started_at": min(now + began, MAX), "finished_at": now + began + SECOND}
    simple, judged = (settlement(claim, Succeeded(Raw(b"[1]")), **told) for claim in claims)
    assert await store.settle([simple]) == [Settled(simple.run_id, Status.SUCCEEDED)]
    monkeypatch.setattr(settle_plain_success, "is_unconstrained", lambda each: False)
    assert await store.settle([judged]) == [Settled(judged.run_id, Status.SUCCEEDED)]
    runs = await store.runs([simple.run_id, judged.run_id])

    def without_names(run: Run) -> Run:
        return msgspec.structs.replace(run, id="", job_id="", token=0)

    assert without_names(runs[simple.run_id]) == without_names(runs[judged.run_id])


async def test_one_special_end_among_simple_ones_changes_nothing_for_them(store: Store) -> None:
    await store.submit([one_shot(store.now()) for _ in range(4)])
    first, second, third, fourth = (await store.claim([SlotRequest("w_1", "", 4)], 0)).claims
    await store.request_cancel([second.run_id])
    reports = [
        settlement(first),
        settlement(second),
        settlement(third, BROKEN),
        settlement(fourth, attempt=2),
        settlement(first),
    ]
    settled = [None if each is None else each.status for each in await store.settle(reports)]
    assert settled == [Status.SUCCEEDED, Status.CANCELLED, None, None, None]
    assert (await read(store, third)).status is Status.RETRYING
    assert (await read(store, fourth)).status is Status.RUNNING


@pytest.mark.parametrize(
    "outcome", [Succeeded(), BROKEN, Cancelled(), Released(), Lost()], ids=lambda each: type(each).__name__
)
@pytest.mark.parametrize("fields", [{}, {"ordering_key": "k"}], ids=["plain", "with an ordering key"])
async def test_an_attempt_is_ended_by_the_session_that_holds_it_and_by_no_other(
    store: Store, outcome: Outcome, fields: dict[str, object]
) -> None:
    """I31: a run, an attempt and a token are easily learned or guessed."""
    await store.register(worker("w_2"), LEASE)
    claim = await start(store, **fields)
    forged = settlement(claim, outcome, at=store.now(), session="w_2")
    assert await store.settle([forged]) == [None]
    assert await store.settle([forged, settlement(claim, BROKEN, at=store.now(), session="")]) == [None, None]
    assert list(await store.holding("w_1")) == [claim.token]
    forged_and_true = [forged, settlement(claim, Succeeded(), at=store.now())]
    refused, settled = await store.settle(forged_and_true)
    assert refused is None
    assert settled is not None
    assert settled.status is Status.SUCCEEDED


async def test_successes_of_several_sessions_are_told_apart_in_one_batch(store: Store) -> None:
    """I31, in the statement that records plain successes: nothing of a batch with a forged one is recorded by it."""
    await store.register(worker("w_2"), LEASE)
    await store.submit([one_shot(store.now()) for _ in range(4)])
    claims = (await store.claim([SlotRequest("w_1", "", 2), SlotRequest("w_2", "", 2)], 0)).claims
    ended = [settlement(claim, Succeeded(), at=store.now()) for claim in claims]
    assert {each.session for each in ended} == {"w_1", "w_2"}
    other = {"w_1": "w_2", "w_2": "w_1"}[ended[0].session]
    swapped = [msgspec.structs.replace(ended[0], session=other), ended[1]]
    forged, true = await store.settle(swapped)
    assert (forged, true is not None) == (None, True)
    rest = await store.settle([ended[0], *ended[2:]])
    assert [each and each.status for each in rest] == [Status.SUCCEEDED] * 3


async def test_what_a_session_says_of_another_sessions_attempt_is_stale(store: Store) -> None:
    """I31, I8."""
    await store.register(worker("w_2"), LEASE)
    claim = await start(store)
    now = store.now()
    said = Started(run_id=claim.run_id, token=claim.token, age=0)
    step = Progress(run_id=claim.run_id, token=claim.token, fraction=0.5, note="forged")
    assert await store.append_logs("w_2", [chunk(claim, 0, "forged")], now) == [claim.token]
    assert await store.note("w_2", [(said, now)], [step]) == [claim.token]
    paused = Pausing(run_id=claim.run_id, token=claim.token, number=1, what="paused", age=0)
    assert await store.note_pauses("w_2", [(paused, now)]) == [claim.token]
    run = await read(store, claim)
    assert (run.progress, run.attempt_started_at) == (None, None)
    assert await store.logs(claim.run_id, None, -1, 10) == []


async def test_which_attempts_a_session_holds(store: Store) -> None:
    await store.register(worker("w_2"), LEASE)
    claim = await start(store)
    known = (claim.run_id, claim.attempt, claim.token)
    others = [(claim.run_id, claim.attempt + 1, claim.token), (claim.run_id, claim.attempt, claim.token + 1)]
    assert await store.held("w_1", [known, *others, known]) == {known}
    assert await store.held("w_2", [known]) == set()
    assert await store.held("w_1", []) == set()
    await end(store, claim, Succeeded())
    assert await store.held("w_1", [known]) == set()


async def test_a_failure_of_any_text_is_written_and_takes_no_other_with_it(store: Store) -> None:
    """I26, I30: a worker in a server's process reports what no JSON reader has looked at."""
    half = "\ud800"
    odd = Failed(Failure(kind=f"{half}\0", message=f"{half}\0", exceptions=(f"{half}Error", "Error\0")))
    once = Retry(max_retries=0)
    await store.submit([one_shot(store.now(), retry=once) for _ in range(3)])
    first, second, third = (await store.claim([SlotRequest("w_1", "", 3)], 0)).claims
    ends = [settlement(first), settlement(second, odd), settlement(third, BROKEN)]
    settled = await store.settle(ends)
    assert [each and each.status for each in settled] == [Status.SUCCEEDED, Status.DEAD, Status.DEAD]
    run = await read(store, second)
    assert run.failure is not None
    assert half not in run.failure.message + "".join(run.failure.exceptions)
