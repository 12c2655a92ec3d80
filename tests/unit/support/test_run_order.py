"""The order of the tests of a whole run."""

from pathlib import Path

import pytest

from tests.support.run_order import LONG, best_order, spread

ROOT = Path(__file__).parents[3]


def test_files_with_long_tests_exist() -> None:
    assert [path for path in LONG if not (ROOT / path).exists()] == []


def test_two_sequences_are_merged_evenly_and_keep_their_orders() -> None:
    assert "".join(spread("ABC", "abcdef")) == "aAbcBdeCf"
    assert spread([], [1, 2]) == spread([1, 2], []) == [1, 2]


def test_long_tests_begin_first_and_short_ones_end_the_run() -> None:
    nodeids = [
        "tests/acceptance/test_archive.py::test_a",
        f"{LONG[1]}::test_b[1]",
        "tests/conformance/test_runs.py::test_c",
        f"{LONG[0]}::test_d",
        "tests/unit/test_x.py::test_e",
        "tests/unit/test_x.py::test_f",
    ]
    order = best_order(nodeids)
    assert sorted(order) == list(range(len(nodeids)))
    assert {nodeids[at].partition("::")[0] for at in order[:2]} == {*LONG[:2]}
    assert order[-2:] == [4, 5]


def test_tests_that_wait_are_spread_over_those_that_compute() -> None:
    waiting = [f"tests/acceptance/test_archive.py::test_{at}" for at in range(10)]
    computing = [f"tests/conformance/test_runs.py::test_{at}" for at in range(90)]
    order = best_order([*waiting, *computing])
    for begin in range(0, 100, 20):
        assert sum(at < 10 for at in order[begin : begin + 20]) == 2


@pytest.mark.xdist_group("one-process")
def test_the_tests_of_a_group_run_in_one_process(request: pytest.FixtureRequest) -> None:
    """pytest-xdist keeps them together by the ends of their ids, which it cannot write with every version of pytest."""
    if getattr(request.config, "workerinput", None) is None or not request.config.option.loadgroup:
        pytest.skip("needs --dist loadgroup")
    assert request.node.nodeid.endswith("@one-process")
