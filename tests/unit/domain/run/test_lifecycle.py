"""I10, I12, I13: only listed transitions; cancel wins; attempts never exceed 1 + maxRetries."""

from itertools import product
from typing import get_args

import pytest
from msgspec import UNSET, Raw

from timeball.domain import duration
from timeball.domain.instant import HOUR, SECOND
from timeball.domain.run.ledger import Origin, Verdict, verdict
from timeball.domain.run.lifecycle import (
    INTERRUPTED,
    SILENT,
    TRANSITIONS,
    Cancelled,
    Event,
    Failed,
    Failure,
    Lost,
    Outcome,
    Released,
    State,
    Succeeded,
    Transition,
    settle,
    status,
)
from timeball.domain.run.status import TERMINAL, Status
from timeball.domain.task.retry import Delivery, NonRetryable, Retry

NOW = 1_700_000_000 * SECOND
EXIT_1 = Failed(Failure(kind="exit", message="exit code 1", exit_code=1))
OUTCOMES: list[Outcome] = [Succeeded(UNSET), Succeeded(Raw(b"1")), EXIT_1, Cancelled(), Released(), Lost()]


def judge(
    outcome: Outcome,
    *,
    attempt: int = 1,
    started: bool = True,
    cancel: bool = False,
    policy: Retry | None = None,
    delivery: Delivery = "at_least_once",
) -> Transition:
    return settle(
        outcome,
        attempt=attempt,
        started=started,
        cancel_requested=cancel,
        policy=policy or Retry(),
        delivery=delivery,
        now=NOW,
        spread=0.5,
    )


def test_every_decision_is_a_listed_transition() -> None:
    deliveries: tuple[Delivery, ...] = get_args(Delivery)
    for outcome, attempt, cancel, delivery in product(OUTCOMES, range(1, 7), (False, True), deliveries):
        decision = judge(outcome, attempt=attempt, cancel=cancel, delivery=delivery)
        assert (State.RUNNING, decision.event) in TRANSITIONS


def test_terminal_is_final_because_no_transition_leaves_it() -> None:
    assert {state for state, _ in TRANSITIONS} == set(State)
    assert {to for to in TRANSITIONS.values() if isinstance(to, Status)} == TERMINAL


@pytest.mark.parametrize("delivery", get_args(Delivery))
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_requested_cancel_wins_over_every_outcome(outcome: Outcome, delivery: Delivery) -> None:
    assert judge(outcome, cancel=True, delivery=delivery).to is Status.CANCELLED


@pytest.mark.parametrize(
    ("outcome", "started", "to", "failure"),
    [
        (Succeeded(UNSET), True, Status.SUCCEEDED, None),
        (EXIT_1, True, Status.FAILED, EXIT_1.failure),
        (Lost(), True, Status.FAILED, SILENT),
        (Lost(), False, Status.FAILED, SILENT),
        (Released(), True, Status.FAILED, INTERRUPTED),
        (Released(), False, State.READY, None),
        (Cancelled(), True, Status.CANCELLED, None),
    ],
)
def test_what_may_have_done_something_is_never_repeated_if_delivered_at_most_once(
    outcome: Outcome, started: bool, to: State | Status, failure: Failure | None
) -> None:
    decision = judge(outcome, started=started, delivery="at_most_once")
    assert (decision.to, decision.failure) == (to, failure)


def test_given_back_costs_nothing_if_delivered_at_least_once() -> None:
    assert [judge(Released(), started=started).to for started in (False, True)] == [State.READY, State.READY]


@pytest.mark.parametrize("outcome", [EXIT_1, Lost()])
def test_attempts_are_one_more_than_retries(outcome: Outcome) -> None:
    policy = Retry(max_retries=2)
    assert [judge(outcome, attempt=n, policy=policy).event for n in (1, 2, 3)] == [
        Event.RETRY,
        Event.RETRY,
        Event.EXHAUST,
    ]


def test_without_retries_the_first_failure_is_dead() -> None:
    assert judge(EXIT_1, policy=Retry(max_retries=0)).to is Status.DEAD


def test_a_non_retryable_failure_gives_up_at_once() -> None:
    policy = Retry(non_retryable=NonRetryable(exit_codes=[1]))
    assert judge(EXIT_1, policy=policy).to is Status.FAILED


def test_a_lost_worker_costs_an_attempt_but_no_backoff() -> None:
    assert judge(Lost()).eligible_at == NOW


def test_default_backoff_is_10_20_40_seconds() -> None:
    waits = [judge(EXIT_1, attempt=n).eligible_at - NOW for n in (1, 2, 3)]
    assert waits == [10 * SECOND, 20 * SECOND, 40 * SECOND]


def test_the_target_may_ask_for_more_patience_than_the_backoff() -> None:
    busy = Failed(Failure(kind="http", message="503", status=503, retry_after=HOUR))
    assert judge(busy).eligible_at == NOW + HOUR


@pytest.mark.parametrize("cap", ["0s", "30s", "1h"])
def test_a_targets_patience_ends_at_the_cap_of_the_job(cap: str) -> None:
    """I15: a retry starts within the cap of its job, whatever the target asks for."""
    busy = Failed(Failure(kind="http", message="503", status=503, retry_after=2 * HOUR))
    assert judge(busy, policy=Retry(cap=cap)).eligible_at == NOW + duration.parse(cap)


@pytest.mark.parametrize(
    ("state", "attempt", "fire", "eligible", "shown"),
    [
        (State.READY, 0, 5, 5, Status.SCHEDULED),
        (State.READY, 0, -5, -5, Status.QUEUED),
        (State.READY, 1, -5, 5, Status.RETRYING),
        (State.BLOCKED, 0, 5, 5, Status.SCHEDULED),
        (State.BLOCKED, 0, -5, -5, Status.BLOCKED),
        (State.RUNNING, 1, -5, -5, Status.RUNNING),
        (State.RUNNING, 1, 5, 5, Status.SCHEDULED),
    ],
)
def test_what_a_user_sees_follows_from_state_and_time(state, attempt, fire, eligible, shown) -> None:
    seen = status(state, attempt=attempt, due_at=NOW + fire, eligible_at=NOW + eligible, now=NOW)
    assert seen is shown


@pytest.mark.parametrize(
    ("ended", "origin", "late", "expected"),
    [
        (Status.SUCCEEDED, Origin.SCHEDULE, 2 * SECOND, Verdict.ON_TIME),
        (Status.SUCCEEDED, Origin.SCHEDULE, 2 * SECOND + 1, Verdict.LATE),
        (Status.DEAD, Origin.SCHEDULE, 0, Verdict.ON_TIME),
        (Status.FAILED, Origin.SCHEDULE, HOUR, Verdict.LATE),
        (Status.SUCCEEDED, Origin.CATCH_UP, HOUR, Verdict.CAUGHT_UP),
        (Status.CANCELLED, Origin.SCHEDULE, 0, Verdict.CANCELLED),
        (Status.SKIPPED, Origin.SCHEDULE, 0, Verdict.SKIPPED),
        (Status.RUNNING, Origin.SCHEDULE, 0, Verdict.OPEN),
    ],
)
def test_the_verdict_says_whether_it_started_in_time(ended, origin, late, expected) -> None:
    assert verdict(ended, origin, NOW, NOW + late) is expected
