"""The command `timeball chaos`: its options, its output and its exit code."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from timeball.chaos import campaign
from timeball.chaos.bugs import BUGS
from timeball.chaos.campaign import Observer, Outcome, Settings
from timeball.chaos.checker import Judgement, Violation
from timeball.chaos.history import KINDS, Fault
from timeball.chaos.planted import PLANTS
from timeball.cli.root import timeball
from timeball.cli.tools import chaos as command
from timeball.domain.instant import SECOND

Timeball = Callable[..., Result]


def outcome(*violations: Violation) -> Outcome:
    lost = sum(violation.breach == "lost" for violation in violations)
    return Outcome(
        judgement=Judgement(
            due=1_000,
            on_time=990 - lost,
            late=10,
            repeated=7,
            violations=list(violations),
            recoveries={"kill worker": [14 * SECOND, 15 * SECOND]},
        ),
        faults=[Fault(kind="kill", part="worker", target="worker-1", began=0, ended=SECOND)],
        ledger={"on_time": 985, "late": 15},
        accepted=120,
        unanswered=0,
        tries_failed=3,
        quiet_after=16.25,
    )


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Settings]:
    """What every campaign was asked for; the first one finds nothing, the others a lost fire."""
    campaigns: list[Settings] = []

    async def run(settings: Settings, observer: Observer) -> Outcome:
        campaigns.append(settings)
        observer.stage("starting")
        observer.event(2.0, "kill worker-1 for 0.5 s")
        return outcome() if len(campaigns) == 1 else outcome(Violation("lost", "job j_1 was due, and there is no run"))

    monkeypatch.setattr(campaign, "run", run)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return campaigns


def run(*arguments: str) -> Result:
    return CliRunner().invoke(timeball, ("chaos", *arguments), prog_name="timeball")


def test_it_tells_what_came_of_it_and_exits_with_0_without_violations(asked: list[Settings]) -> None:
    result = run("--seed", "5", "-o", "table")
    assert result.exit_code == 0, result.output
    assert "1,000 due = 990 on time + 10 late + 0 lost + 0 stuck" in result.stdout
    assert "kill worker" in result.stdout
    assert "15.00 s" in result.stdout
    assert "0 violations" in result.stdout
    (settings,) = asked
    assert (settings.seed, settings.seconds, settings.servers, settings.workers) == (5, 120.0, 3, 4)
    assert settings.kinds == KINDS == command.KINDS


def test_it_exits_with_1_with_a_violation(asked: list[Settings]) -> None:
    run()
    result = run()
    assert result.exit_code == 1
    assert "lost: job j_1 was due, and there is no run" in result.stdout
    assert "1 violation." in result.stdout


def test_json_is_all_that_is_printed_and_progress_goes_elsewhere(asked: list[Settings]) -> None:
    result = run("-o", "json", "--faults", "kill,pause")
    found = json.loads(result.stdout)
    assert (found["due"], found["onTime"], found["late"], found["doubleEffective"]) == (1_000, 990, 10, 0)
    assert found["recoveries"]["kill worker"] == {"runs": 2, "p50Seconds": 15.0, "p99Seconds": 15.0, "maxSeconds": 15.0}
    assert found["seed"] == asked[0].seed
    assert "   2.0 s  kill worker-1 for 0.5 s" in result.stderr
    assert asked[0].kinds == ("kill", "pause")


def test_a_database_of_somebody_else_is_not_restarted(asked: list[Settings]) -> None:
    assert run("--store", "postgresql://db/x").exit_code == 0
    assert asked[0].kinds == tuple(kind for kind in KINDS if kind != "restart")
    assert run("--store", "postgresql://db/x", "--faults", "restart").exit_code == 2


def test_a_fleet_that_is_there_is_broken_only_by_command(asked: list[Settings]) -> None:
    assert run("--url", "http://a:1300,http://b:1300", "--key", "k" * 32).exit_code == 0
    assert (asked[0].kinds, asked[0].url, asked[0].token) == ((), "http://a:1300,http://b:1300", "k" * 32)
    run("--url", "http://a:1300", "--key", "k" * 32, "--break", "reboot")
    assert (asked[1].kinds, asked[1].command) == (("command",), "reboot")


@pytest.mark.parametrize(
    "wrong",
    [
        ("--faults", "kill,flood"),
        ("--break", "reboot"),
        ("--key", "k" * 32),
        ("--url", "http://a:1300", "--plant", "no-rescue"),
        ("--url", "http://a:1300", "--faults", "kill"),
        ("--plant", "weeds"),
        ("--minutes", "0"),
    ],
)
def test_what_makes_no_sense_is_refused(asked: list[Settings], wrong: tuple[str, ...]) -> None:
    assert run(*wrong).exit_code == 2
    assert asked == []


def test_every_bug_can_be_planted() -> None:
    assert set(BUGS) == set(PLANTS)
