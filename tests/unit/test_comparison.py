"""When the speed gate (`make compare`) passes, fails, or asks for more turns."""

import pytest


@pytest.mark.xfail(strict=True, reason="item 8: no gate compares rate, CPU per job and lateness of two revisions")
def test_a_commit_passes_if_rate_and_cpu_keep_their_bounds_or_are_shown_to_be_equal() -> None:
    from bench import comparison

    base = comparison.Sample(rate=1_000.0, cpu=10.0)
    slower = comparison.Sample(rate=960.0, cpu=10.0)
    assert comparison.Throughput([(slower, base)] * 9).verdict(comparison.AGAINST_PARENT) is comparison.Verdict.FAILED
