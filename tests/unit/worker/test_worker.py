"""The worker with a server that the tests play: what it accepts, when it starts an attempt, and what it reports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import msgspec
import pytest
from msgspec import Raw

from tests.support.fake_worker_protocol import FakeDispatch, assignment, python
from timeball.domain.errors import Invalid, TooLarge, Unauthorized, Unavailable
from timeball.domain.instant import MILLISECOND, SECOND
from timeball.domain.run.lifecycle import Cancelled, Failed, Outcome, Released, Succeeded
from timeball.domain.task.task import Python
from timeball.ports.executor import ExecutorAttempt, OutOfResources
from timeball.ports.worker_protocol import RegisterWorker, Report, ReportAck, SessionLost
from timeball.system import SystemClock, rng
from timeball.worker.worker import Worker

pytestmark = pytest.mark.timeout(300)

Behaviour = Callable[[ExecutorAttempt], Awaitable[Outcome]]


class Scripted:
    """An executor whose functions are written by the test."""

    kind = "python"

    def __init__(self) -> None:
        self.behaviours: dict[str, Behaviour] = {"noop": _noop, "forever": self._forever, "wait": self._wait}
        self.started: list[int] = []
        self.started_at: dict[int, int] = {}
        self.interrupted: list[int] = []
        self.go = asyncio.Event()

    async def execute(self, attempt: ExecutorAttempt) -> Outcome:
        assert isinstance(attempt.task, Python)
        self.started.append(attempt.token)
        self.started_at[attempt.token] = CLOCK.monotonic()
        try:
            return await self.behaviours[attempt.task.function](attempt)
        except asyncio.CancelledError:
            self.interrupted.append(attempt.token)
            raise

    async def _forever(self, attempt: ExecutorAttempt) -> Outcome:
        await asyncio.Event().wait()
        raise AssertionError

    async def _wait(self, attempt: ExecutorAttempt) -> Outcome:
        await self.go.wait()
        return Succeeded()


async def _noop(attempt: ExecutorAttempt) -> Outcome:
    return Succeeded()


class RecordingGuard:
    def __init__(self) -> None:
        self.deadlines: list[int] = []
        self.kills = 0

    def renew(self, deadline: int) -> None:
        self.deadlines.append(deadline)

    def kill_all(self) -> None:
        self.kills += 1


CLOCK = SystemClock()


class Bench:
    def __init__(self, *, slots: int = 10, lease: int = 15 * SECOND, beat_every: int = 5 * SECOND) -> None:
        self.server = FakeDispatch(lease=lease, beat_every=beat_every)
        self.executor = Scripted()
        self.guard = RecordingGuard()
        self.worker = Worker(
            self.server,
            {"python": self.executor},
            CLOCK,
            RegisterWorker(name="w", slots=slots),
            rng=rng(),
            guard=self.guard,
        )


@asynccontextmanager
async def working(*, slots: int = 10, lease: int = 15 * SECOND, beat_every: int = 5 * SECOND) -> AsyncIterator[Bench]:
    bench = Bench(slots=slots, lease=lease, beat_every=beat_every)
    await bench.worker.start()
    try:
        yield bench
    finally:
        await bench.worker.stop()


async def test_executes_in_order_and_reports_every_outcome_once() -> None:
    async with working(slots=200) as bench:
        bench.server.give(*(python(token, "noop") for token in range(1, 151)))
        await bench.server.until(lambda: len(bench.server.ended) == 150)
        assert bench.executor.started == list(range(1, 151))
        assert sum(len(report.ended) for report in bench.server.reports) == 150
        assert all(ended.outcome == Succeeded() for ended in bench.server.ended.values())
        assert not bench.server.started, "short attempts only report their outcome"


async def test_never_starts_before_the_delay_has_passed() -> None:
    async with working() as bench:
        await bench.server.until(lambda: bool(bench.server.polls))
        given = CLOCK.monotonic()
        delays = {1: 40 * MILLISECOND, 2: 3 * MILLISECOND, 3: 777, 4: 1, 5: 0}
        bench.server.give(*(python(token, "noop", delay=delay) for token, delay in delays.items()))
        await bench.server.until(lambda: len(bench.server.ended) == 5)
        for token, delay in delays.items():
            assert bench.executor.started_at[token] >= given + delay + delay // 1000
        assert bench.executor.started == [5, 4, 3, 2, 1]


async def test_an_attempt_that_lasts_is_reported_as_started_and_amends_the_hanging_poll() -> None:
    async with working(slots=3) as bench:
        bench.server.give(python(1, "wait"))
        await bench.server.until(lambda: 1 in bench.server.started)
        assert bench.server.started[1].age >= 100 * MILLISECOND
        await bench.server.until_polled(lambda poll: (poll.free, poll.held) == (2, [1]))
        bench.executor.go.set()
        await bench.server.until(lambda: 1 in bench.server.ended)
        report = bench.server.reports[-1]
        assert (report.poll_seq, report.free) == (bench.server.polls[-1].seq, 3)
        assert report.ended[0].took >= 100 * MILLISECOND


async def test_an_ended_attempt_is_held_until_its_report_is_confirmed() -> None:
    async with working() as bench:
        bench.server.failing["report"] = lambda: Unavailable("away")
        bench.server.give(python(1, "noop"))
        await bench.server.until(lambda: len(bench.server.reports) >= 3)
        bench.server.give(python(2, "noop"))
        await bench.server.until(lambda: 2 in bench.server.polls[-1].held)
        assert bench.server.polls[-1].held == [1, 2]
        first = [(e.token, e.outcome) for e in bench.server.reports[0].ended]
        assert all([(e.token, e.outcome) for e in report.ended] == first for report in bench.server.reports[:3])
        del bench.server.failing["report"]
        await bench.server.until(lambda: 2 in bench.server.ended)
        await bench.server.until_polled(lambda poll: poll.held == [])


async def test_cancel_interrupts_and_reports_cancelled() -> None:
    async with working() as bench:
        bench.server.give(python(1, "forever"), python(2, "forever", delay=60 * SECOND))
        await bench.server.until(lambda: len(bench.server.polls) >= 2)
        bench.server.order(cancel=[1, 2, 99])
        await bench.server.until(lambda: len(bench.server.ended) == 2)
        assert [bench.server.ended[token].outcome for token in (1, 2)] == [Cancelled(), Cancelled()]
        assert bench.server.ended[1].age is not None
        assert bench.server.ended[2].age is None, "it never started"
        assert bench.executor.started == [1]


async def test_cancel_wins_over_a_success_that_comes_after_it() -> None:
    async def stubborn(attempt: ExecutorAttempt) -> Outcome:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return Succeeded()

    async with working() as bench:
        bench.executor.behaviours["stubborn"] = stubborn
        bench.server.give(python(1, "stubborn"))
        await bench.server.until(lambda: len(bench.server.polls) >= 2)
        bench.server.order(cancel=[1])
        await bench.server.until(lambda: 1 in bench.server.ended)
        assert bench.server.ended[1].outcome == Cancelled()


async def test_a_kill_takes_the_grace_away_also_from_what_was_told_to_stop() -> None:
    graces: dict[int, list[int]] = {1: [], 2: []}

    async def polite(attempt: ExecutorAttempt) -> Outcome:
        killed = asyncio.Event()

        def told() -> None:
            graces[attempt.token].append(attempt.grace)
            if attempt.grace == 0:
                killed.set()

        attempt.on_cancel(told)
        await killed.wait()
        return Succeeded()

    async with working() as bench:
        bench.executor.behaviours["polite"] = polite
        bench.server.give(*(python(token, "polite", grace="1h") for token in (1, 2)), python(3, "noop", delay=SECOND))
        await bench.server.until(lambda: bench.executor.started == [1, 2])
        bench.server.order(cancel=[1])
        await bench.server.until(lambda: bool(graces[1]))
        bench.server.order(kill=[1, 2, 3, 99])
        await bench.server.until(lambda: len(bench.server.ended) == 3)
        assert graces == {1: [3600 * SECOND, 0], 2: [0]}
        assert [bench.server.ended[token].outcome for token in (1, 2, 3)] == [Cancelled()] * 3
        assert bench.executor.started == [1, 2]


async def test_timeout_stops_and_fails() -> None:
    async with working() as bench:
        bench.server.give(python(1, "forever", timeout="50ms"), python(2, "noop", timeout="50ms"))
        await bench.server.until(lambda: len(bench.server.ended) == 2)
        outcome = bench.server.ended[1].outcome
        assert isinstance(outcome, Failed)
        assert (outcome.failure.kind, outcome.failure.message) == (
            "timeout",
            "stopped after 50ms: its timeout has passed",
        )
        assert bench.server.ended[2].outcome == Succeeded()


@pytest.mark.parametrize("how", ["order", "stale"])
async def test_a_lost_attempt_is_killed_without_a_word(how: str) -> None:
    async with working(slots=1) as bench:
        bench.server.give(python(1, "forever"))
        if how == "stale":
            bench.server.stale = [1]
        else:
            await bench.server.until(lambda: 1 in bench.server.started)
            bench.server.order(lost=[1])
        await bench.server.until(lambda: bool(bench.executor.interrupted))
        bench.server.give(python(2, "noop"))
        await bench.server.until(lambda: 2 in bench.server.ended)
        assert 1 not in bench.server.ended


@pytest.mark.parametrize("call", ["poll", "beat", "report"])
async def test_a_lost_session_kills_everything_and_says_hello_again(call: str) -> None:
    async with working(beat_every=50 * MILLISECOND) as bench:
        bench.server.give(python(1, "forever"), python(2, "forever", delay=60 * SECOND))
        await bench.server.until(lambda: 1 in bench.server.started)
        bench.server.failing[call] = SessionLost
        bench.server.give(python(3, "noop"))
        await bench.server.until(lambda: len(bench.server.hellos) >= 2)
        del bench.server.failing[call]
        assert bench.executor.interrupted == [1]
        assert bench.guard.kills >= 1
        bench.server.give(python(4, "noop"))
        await bench.server.until(lambda: 4 in bench.server.ended)
        assert not {1, 2} & set(bench.server.ended)
        assert bench.server.reports[-1].session != "w_1"


async def test_unanswered_beats_kill_everything_before_the_lease_lapses() -> None:
    async with working(lease=SECOND, beat_every=100 * MILLISECOND) as bench:
        bench.server.give(python(1, "forever"))
        await bench.server.until(lambda: len(bench.server.beats) >= 2 and 1 in bench.server.started)
        last_renewed = CLOCK.monotonic()
        bench.server.failing["beat"] = lambda: Unavailable("away")
        bench.server.failing["hello"] = lambda: Unavailable("away")
        await bench.server.until(lambda: len(bench.server.hellos) >= 2)
        assert bench.executor.interrupted == [1]
        assert CLOCK.monotonic() <= last_renewed + SECOND
        assert bench.guard.deadlines == sorted(bench.guard.deadlines)
        assert 1 not in bench.server.ended


async def test_errors_are_retried_until_a_server_answers() -> None:
    bench = Bench()
    for call in ("hello", "poll", "report"):
        bench.server.failing[call] = lambda: Unavailable("away")
    await bench.worker.start()
    await bench.server.until(lambda: len(bench.server.hellos) >= 2)
    del bench.server.failing["hello"]
    await bench.server.until(lambda: len(bench.server.polls) >= 2)
    assert bench.server.polls[1].seq > bench.server.polls[0].seq
    del bench.server.failing["poll"]
    bench.server.give(python(1, "noop"))
    await bench.server.until(lambda: len(bench.server.reports) >= 2)
    del bench.server.failing["report"]
    await bench.server.until_polled(lambda poll: poll.held == [])
    assert 1 in bench.server.ended
    await bench.worker.stop()


async def test_a_refused_key_ends_the_worker_with_the_reason() -> None:
    bench = Bench()
    bench.server.failing["hello"] = lambda: Unauthorized("nobody knows this key")
    await bench.worker.start()
    with pytest.raises(Unauthorized, match="nobody knows this key"):
        await bench.worker.wait()
    await bench.worker.stop()


async def test_drain_finishes_what_it_can_and_hands_back_the_rest() -> None:
    bench = Bench()
    await bench.worker.start()
    bench.server.give(python(1, "wait"), python(2, "forever"), python(3, "noop", delay=60 * SECOND))
    await bench.server.until(lambda: len(bench.server.polls) >= 2)
    draining = asyncio.create_task(bench.worker.drain(300 * MILLISECOND))
    await bench.server.until(lambda: 3 in bench.server.ended)
    assert bench.server.reports[-1].free == 0
    bench.server.give(python(4, "noop"))
    await bench.server.until(lambda: 4 in bench.server.ended)
    bench.executor.go.set()
    await draining
    outcomes = {token: ended.outcome for token, ended in bench.server.ended.items()}
    assert outcomes == {1: Succeeded(), 2: Released(), 3: Released(), 4: Released()}
    assert bench.executor.started == [1, 2]
    assert bench.server.goodbyes == ["w_1"]
    await bench.worker.wait()


async def test_an_attempt_occupies_as_many_slots_as_it_asks_for() -> None:
    async with working(slots=5) as bench:
        bench.server.give(python(1, "wait", resources={"slots": 3}), python(2, "wait"))
        await bench.server.until_polled(lambda poll: poll.held == [1, 2])
        assert bench.server.polls[-1].free == 1
        bench.server.give(python(3, "noop", resources={"slots": 2}), python(4, "wait"))
        await bench.server.until(lambda: 3 in bench.server.ended)
        assert bench.server.ended[3].outcome == Released(), "there was no room for it"
        await bench.server.until_polled(lambda poll: poll.held == [1, 2, 4])
        assert bench.server.polls[-1].free == 0
        bench.executor.go.set()
        await bench.server.until_polled(lambda poll: poll.free == 5)
        assert bench.executor.started == [1, 2, 4]


async def test_start_and_stop_in_any_order_and_number() -> None:
    await Bench().worker.stop()
    await Bench().worker.drain(0)
    bench = Bench()
    await bench.worker.stop()
    await bench.worker.start()
    assert not bench.server.hellos
    bench = Bench()
    await bench.worker.start()
    await bench.worker.start()
    await bench.server.until(lambda: bool(bench.server.polls))
    await asyncio.gather(bench.worker.stop(), bench.worker.stop(), bench.worker.drain(0))
    await bench.worker.wait()
    assert bench.server.hellos[1:] == []
    assert bench.server.goodbyes == ["w_1"]


async def test_what_the_worker_cannot_do_fails_and_says_why() -> None:
    async with working() as bench:
        bench.server.give(assignment(1, {"kind": "shell", "command": "true"}), assignment(2, {"kind": "quantum"}))
        await bench.server.until(lambda: len(bench.server.ended) == 2)
        first, second = (bench.server.ended[token].outcome for token in (1, 2))
        assert isinstance(first, Failed)
        assert isinstance(second, Failed)
        assert first.failure.message == "this worker has no executor for 'shell' tasks; it has: python"
        assert "cannot read the job" in second.failure.message


async def test_output_comes_before_the_outcome_and_progress_arrives() -> None:
    async def talkative(attempt: ExecutorAttempt) -> Outcome:
        attempt.log("stdout", "one\n")
        attempt.log("stdout", "two\0\ud800\n")
        attempt.log("stderr", "three\n")
        attempt.progress(0.5, "half")
        await asyncio.sleep(0.5)
        attempt.log("stdout", "four\n")
        return Succeeded()

    async with working() as bench:
        bench.executor.behaviours["talkative"] = talkative
        bench.server.give(python(1, "talkative"))
        await bench.server.until(lambda: 1 in bench.server.ended)
        chunks = [(chunk.seq, chunk.stream, chunk.text) for chunk in bench.server.logs(1)]
        assert chunks == [
            (0, "stdout", "one\ntwo\ufffd?\n"),
            (1, "stderr", "three\n"),
            (2, "stdout", "four\n"),
        ]
        assert [(p.fraction, p.note) for p in bench.server.progress] == [(0.5, "half")]
        assert len(bench.server.reports) >= 2, "the first lines arrived while it ran"


async def test_context_variables_of_one_attempt_do_not_reach_the_next() -> None:
    from contextvars import ContextVar

    seen: list[str] = []
    variable = ContextVar("variable", default="untouched")

    async def colour(attempt: ExecutorAttempt) -> Outcome:
        seen.append(variable.get())
        variable.set("touched")
        return Succeeded()

    async with working() as bench:
        bench.executor.behaviours["colour"] = colour
        bench.server.give(*(python(token, "colour") for token in range(1, 6)))
        await bench.server.until(lambda: len(bench.server.ended) == 5)
        assert seen == ["untouched"] * 5


async def test_a_job_that_waits_does_not_hold_up_others() -> None:
    async with working(slots=100) as bench:
        bench.server.give(*(python(token, "wait" if token % 2 else "noop") for token in range(1, 101)))
        await bench.server.until(lambda: len(bench.server.ended) == 50)
        assert len(bench.executor.started) == 100
        bench.executor.go.set()
        await bench.server.until(lambda: len(bench.server.ended) == 100)


async def test_jobs_that_take_their_time_let_the_event_loop_turn_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = passed = 0
    began_in_turn: set[int] = set()

    async def busy(attempt: ExecutorAttempt) -> Outcome:
        nonlocal passed
        began_in_turn.add(turns)
        passed += 3 * MILLISECOND
        return Succeeded()

    def turn() -> None:
        nonlocal turns
        turns += 1
        if turns > 0:
            asyncio.get_running_loop().call_soon(turn)

    real = CLOCK.monotonic
    monkeypatch.setattr(CLOCK, "monotonic", lambda: real() + passed)
    async with working(slots=100) as bench:
        bench.executor.behaviours["busy"] = busy
        turn()
        bench.server.give(*(python(token, "busy") for token in range(1, 101)))
        await bench.server.until(lambda: len(bench.server.ended) == 100)
        turns = -1
    assert len(began_in_turn) >= 50, "a lane does not go on for longer than two of them take"


async def test_the_next_poll_offers_the_slots_of_all_short_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = 0

    async def quick(attempt: ExecutorAttempt) -> Outcome:
        nonlocal passed
        passed += 100
        return Succeeded()

    real = CLOCK.monotonic
    monkeypatch.setattr(CLOCK, "monotonic", lambda: real() + passed)
    async with working(slots=150) as bench:
        bench.executor.behaviours["quick"] = quick
        await bench.server.until(lambda: bool(bench.server.polls))
        bench.server.give(*(python(token, "quick") for token in range(1, 101)))
        await bench.server.until(lambda: len(bench.server.ended) == 100)
        assert bench.server.polls[1].free == 150, "though they took longer than a turn of the loop"


async def test_a_hard_stop_tells_what_had_ended_and_what_had_begun() -> None:
    bench = Bench()
    await bench.worker.start()
    bench.server.failing["report"] = lambda: Unavailable("away")
    bench.server.give(python(1, "noop"), python(2, "forever", grace="1h"), python(3, "noop", delay=60 * SECOND))
    await bench.server.until(lambda: len(bench.server.reports) >= 2)
    stopping = asyncio.create_task(bench.worker.stop())
    await bench.server.until(lambda: bench.executor.interrupted == [2])
    tried = len(bench.server.reports)
    del bench.server.failing["report"]
    await stopping
    ended = [each for report in bench.server.reports[tried:] for each in report.ended]
    assert [(each.token, each.outcome, each.age is None) for each in sorted(ended, key=lambda each: each.token)] == [
        (1, Succeeded(), False),
        (2, Released(), False),
        (3, Released(), True),
    ]
    assert bench.server.goodbyes == ["w_1"]


async def test_no_goodbye_before_it_was_heard_what_had_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others would be given what may have done something, as if it had never started."""
    monkeypatch.setattr("timeball.worker.worker.FLUSH_TIMEOUT", SECOND // 5)
    bench = Bench()
    await bench.worker.start()
    bench.server.failing["report"] = lambda: Unavailable("away")
    bench.server.give(python(1, "forever"))
    await bench.server.until(lambda: bench.executor.started == [1])
    await bench.worker.stop()
    assert bench.server.goodbyes == []


async def test_no_goodbye_in_a_session_that_was_lost_with_its_last_words() -> None:
    bench = Bench(lease=SECOND, beat_every=100 * MILLISECOND)
    await bench.worker.start()
    await bench.server.until(lambda: bench.worker.session is not None)
    for call in ("report", "beat", "hello"):
        bench.server.failing[call] = lambda: Unavailable("away")
    bench.server.give(python(1, "noop"))
    await bench.server.until(lambda: bench.executor.started == [1])
    await bench.worker.stop()
    assert bench.server.goodbyes == []


async def test_no_goodbye_while_something_still_runs() -> None:
    async def unstoppable(attempt: ExecutorAttempt) -> Outcome:
        attempt.on_cancel(lambda: None)
        await bench.executor.go.wait()
        return Succeeded()

    bench = Bench()
    bench.executor.behaviours["unstoppable"] = unstoppable
    await bench.worker.start()
    bench.server.give(python(1, "unstoppable"))
    await bench.server.until(lambda: bench.executor.started == [1])
    await bench.worker.stop()
    assert bench.server.goodbyes == []


async def test_a_report_that_the_server_refuses_is_sent_with_less() -> None:
    async def talkative(attempt: ExecutorAttempt) -> Outcome:
        attempt.log("stdout", "words\n")
        return Succeeded()

    async with working() as bench:
        bench.executor.behaviours["talkative"] = talkative
        bench.server.failing["report"] = lambda: TooLarge("too much")
        bench.server.give(python(1, "talkative"))
        await bench.server.until(lambda: len(bench.server.reports) >= 4)
        del bench.server.failing["report"]
        whole, words, outcome, failure = bench.server.reports[:4]
        assert [(len(report.logs), len(report.ended)) for report in (whole, words, outcome, failure)] == [
            (1, 1),
            (1, 0),
            (0, 1),
            (0, 1),
        ]
        assert whole.ended[0].outcome == outcome.ended[0].outcome == Succeeded()
        refused = failure.ended[0].outcome
        assert isinstance(refused, Failed)
        assert refused.failure.message == "the server refused its outcome: too much"


async def test_only_the_outcome_that_the_server_cannot_take_is_failed() -> None:
    async def bad(attempt: ExecutorAttempt) -> Outcome:
        return Succeeded(Raw(b'"bad"'))

    async def talkative(attempt: ExecutorAttempt) -> Outcome:
        attempt.log("stdout", f"words of {attempt.token}\n")
        return Succeeded()

    class Picky(FakeDispatch):
        async def report(self, report: Report) -> ReportAck:
            if any(b"bad" in msgspec.json.encode(ended) for ended in report.ended):
                raise Invalid("not this one", "/ended")
            return await super().report(report)

    bench = Bench(slots=100)
    bench.server = Picky()
    bench.worker = Worker(
        bench.server,
        {"python": bench.executor},
        CLOCK,
        RegisterWorker(name="w", slots=100),
        rng=rng(),
        guard=bench.guard,
    )
    bench.executor.behaviours |= {"bad": bad, "talkative": talkative}
    await bench.worker.start()
    try:
        bench.server.give(*(python(token, "bad" if token == 23 else "talkative") for token in range(1, 51)))
        await bench.server.until(lambda: len(bench.server.ended) == 50)
        outcomes = {token: ended.outcome for token, ended in bench.server.ended.items()}
        assert isinstance(outcomes.pop(23), Failed)
        assert all(outcome == Succeeded() for outcome in outcomes.values())
        said = [chunk.text for report in bench.server.reports for chunk in report.logs]
        assert len(said) == 49, "and nobody's output is lost"
        assert sum(len(report.ended) for report in bench.server.reports) == 50
        await bench.server.until_polled(lambda poll: poll.held == [])
    finally:
        await bench.worker.stop()


async def test_attempts_that_outlive_their_lost_session_are_named_before_the_lease_lapses() -> None:
    async def stubborn(attempt: ExecutorAttempt) -> Outcome:
        attempt.on_cancel(lambda: None)
        await bench.executor.go.wait()
        return Succeeded()

    bench = Bench(lease=SECOND, beat_every=200 * MILLISECOND)
    bench.executor.behaviours["stubborn"] = stubborn
    outlived: list[tuple[list[int], int]] = []
    bench.worker = Worker(
        bench.server,
        {"python": bench.executor},
        CLOCK,
        RegisterWorker(name="w", slots=9),
        rng=rng(),
        guard=bench.guard,
        on_outlived=lambda attempts: outlived.append(([each.token for each in attempts], CLOCK.monotonic())),
    )
    await bench.worker.start()
    try:
        bench.server.give(python(1, "stubborn"), python(2, "forever"), python(3, "noop"))
        await bench.server.until(lambda: 1 in bench.server.started and bool(bench.server.beats))
        bench.server.failing["beat"] = lambda: Unavailable("gone")
        last = CLOCK.monotonic()
        await bench.server.until(lambda: bool(outlived))
        assert [tokens for tokens, _ in outlived] == [[1]]
        assert outlived[0][1] < last + SECOND
    finally:
        bench.executor.go.set()
        await bench.worker.stop()


@pytest.mark.parametrize("drains", [False, True])
async def test_what_is_handed_back_for_a_shortage_has_not_begun_however_late_that_is_noticed(drains: bool) -> None:
    """I29: the server has stored the start already, and repeats no run that is delivered at most once after that."""

    async def run_short(attempt: ExecutorAttempt) -> Outcome:
        attempt.on_cancel(lambda: None)
        await bench.server.until(lambda: attempt.token in bench.server.started)
        if drains:
            await bench.server.until(lambda: attempt.cancelled)
        raise OutOfResources("no descriptors")

    async with working() as bench:
        bench.executor.behaviours["run_short"] = run_short
        bench.server.give(python(1, "run_short"))
        await bench.server.until(lambda: 1 in bench.server.started)
        if drains:
            await bench.worker.drain(0)
        await bench.server.until(lambda: 1 in bench.server.ended)
        said = msgspec.to_builtins(bench.server.ended[1])
        assert (said["outcome"]["type"], said["outcome"].get("begun"), "age" in said) == ("released", False, False)


async def test_an_attempt_of_which_the_server_takes_no_outcome_is_in_no_other_ones_way() -> None:
    class Picky(FakeDispatch):
        async def report(self, report: Report) -> ReportAck:
            if any(ended.token == 1 for ended in report.ended):
                raise Invalid("x" * 100_000, "/ended")
            return await super().report(report)

    bench = Bench()
    bench.server = Picky()
    bench.worker = Worker(bench.server, {"python": bench.executor}, CLOCK, RegisterWorker(name="w", slots=9), rng=rng())
    await bench.worker.start()
    try:
        bench.server.give(python(1, "noop"), python(2, "noop"))
        await bench.server.until(lambda: 2 in bench.server.ended)
        bench.server.give(python(3, "noop"))
        await bench.server.until(lambda: 3 in bench.server.ended)
        await bench.server.until_polled(lambda poll: poll.held == [1])
    finally:
        await bench.worker.stop()
