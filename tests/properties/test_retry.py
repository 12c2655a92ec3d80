"""I15: backoff is never in the past, never overflows, respects its cap."""

from hypothesis import given
from hypothesis import strategies as st

from timeball.domain import duration
from timeball.domain.instant import SECOND
from timeball.domain.task.retry import Retry, delay

durations = st.integers(0, 10**9).map(lambda seconds: f"{seconds}s")
policies = st.builds(
    Retry,
    backoff=st.sampled_from(["exponential", "linear", "fixed"]) | st.lists(durations, min_size=1, max_size=5),
    base=durations,
    cap=durations,
)


@given(policies, st.integers(1, 101), st.floats(0, 1, exclude_max=True))
def test_backoff_is_between_zero_and_its_cap(policy: Retry, attempt: int, spread: float) -> None:
    assert 0 <= delay(policy, attempt, spread) <= duration.parse(policy.cap)


@given(st.integers(1, 9), st.floats(0, 1, exclude_max=True))
def test_jitter_is_at_most_a_tenth(attempt: int, spread: float) -> None:
    exact = min(5 * 2**attempt * SECOND, 3600 * SECOND)
    assert abs(delay(Retry(), attempt, spread) - exact) <= exact // 10


def test_a_list_of_delays_repeats_its_last() -> None:
    policy = Retry(backoff=["1s", "5s"])
    assert [delay(policy, n, 0.5) for n in (1, 2, 3, 9)] == [SECOND, 5 * SECOND, 5 * SECOND, 5 * SECOND]
