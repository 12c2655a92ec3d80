"""A short soak, and the problems that its report names."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.soak.campaign import Sizes, campaign
from tests.soak.report import Report, Start

MINIATURE = Sizes(pairs=1, phase=3.0, rate=30.0, strangers=100)


@pytest.mark.timeout(300)
def test_attacks_cost_honest_jobs_nothing(tmp_path: Path) -> None:
    """I1, I6, I28, I29: no honest job is lost, doubled, or needs a second attempt. How late jobs start and how memory
    grows is for `make soak`: seconds on a busy machine do not show it."""
    report = campaign("sqlite", tmp_path, MINIATURE)
    assert report.accepted > 0
    assert (report.missing, report.doubled) == (0, 0), str(report)
    assert set(report.ends) == {"succeeded in attempt 1"}, str(report)
    assert sum(report.attacks.values()) > 0
    assert not [answer for answer in report.attacks if answer.endswith(" 500")]


def kept(**changes: object) -> Report:
    starts = [Start("python", attacked, 1.0 + n / 100) for attacked in (False, True) for n in range(100)]
    report = Report("sqlite", accepted=200, starts=starts, memory_mib={"server": [50.0] * 40})
    report.ends, report.ledger = Counter({"succeeded in attempt 1": 200}), Counter(on_time=50)
    for name, value in changes.items():
        setattr(report, name, value)
    return report


def test_a_soak_that_kept_every_promise_has_no_problems() -> None:
    assert kept().problems() == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"missing": 1}, "never ran"),
        ({"doubled": 1}, "more than once"),
        ({"ends": Counter({"failed in attempt 1": 1})}, "otherwise than in success"),
        ({"ends": Counter({"succeeded in attempt 2": 1})}, "otherwise than in success"),
        ({"ledger": Counter(late=1)}, "not on time"),
        ({"attacks": Counter({"wrong_zones 500": 1})}, "answered with 500"),
        ({"starts": [Start("shell", False, 1.0), Start("shell", True, 300.0)]}, "late under attack"),
        ({"starts": [Start("shell", False, 900.0), Start("shell", True, 2_001.0)]}, "2001 ms late"),
        ({"memory_mib": {"server": [50.0] * 30 + [80.0] * 10}}, "not flat"),
        ({"memory_mib": {"server": [50.0, 500.0] + [50.0] * 38}}, "grew from 50 to 500"),
    ],
)
def test_a_soak_objects_to(changes: dict[str, object], problem: str) -> None:
    assert any(problem in each for each in kept(**changes).problems())
