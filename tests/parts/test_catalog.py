"""A missing part is a skip on a laptop and a failure in CI, and `make parts` installs nothing without a yes."""

import dataclasses
import io
from pathlib import Path

import pytest

from tests.parts import __main__ as installer
from tests.parts import catalog
from tests.parts.catalog import Part


class Ticker:
    """A part that is a file."""

    def __init__(self, folder: Path) -> None:
        self.program = folder / "ticker"
        self.part = Part(
            name="ticker",
            purpose="ticks",
            size="0 MB",
            find=lambda: self.program if self.program.exists() else None,
            install=self.program.touch,
        )


@pytest.fixture
def ticker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ticker:
    """The only part there is, on a laptop, without an answer on standard input."""
    made = Ticker(tmp_path)
    monkeypatch.setattr(catalog, "PARTS", {"ticker": made.part})
    monkeypatch.setattr(catalog, "FOLDER", tmp_path)
    monkeypatch.setattr(catalog, "INSTALLED", tmp_path / "installed")
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.delenv("CI", raising=False)
    return made


def test_a_test_gets_the_program_of_an_installed_part(ticker: Ticker) -> None:
    ticker.program.touch()
    assert catalog.require("ticker") == ticker.program


def test_a_missing_part_is_a_skip_that_names_it(ticker: Ticker) -> None:
    catalog.INSTALLED.touch()
    with pytest.raises(pytest.skip.Exception, match="ticker is not installed: make parts"):
        catalog.require("ticker")


def test_a_part_that_is_missing_in_ci_is_a_skip_before_make_parts_and_a_failure_after_it(
    ticker: Ticker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.skip.Exception):
        catalog.require("ticker")
    catalog.INSTALLED.touch()
    with pytest.raises(pytest.fail.Exception, match="ticker"):
        catalog.require("ticker")


@pytest.mark.parametrize(
    ("said", "installs"), [("y\n", True), ("yes\n", True), ("\n", False), ("no\n", False), ("", False)]
)
def test_make_parts_installs_only_after_a_yes(
    ticker: Ticker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], said: str, installs: bool
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(said))
    assert installer.main() == (0 if installs else 1)
    assert ticker.program.exists() is installs
    assert catalog.INSTALLED.exists() is installs
    assert "ticker: ticks, 0 MB" in capsys.readouterr().out


def test_make_parts_does_not_ask_in_ci(ticker: Ticker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    assert installer.main() == 0
    assert ticker.program.exists()


def test_make_parts_fails_if_a_part_cannot_be_installed(
    ticker: Ticker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise FileNotFoundError("no npm here")

    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(catalog, "PARTS", {"ticker": dataclasses.replace(ticker.part, install=fail)})
    assert installer.main() == 1
    assert not catalog.INSTALLED.exists()
    assert "no npm here" in capsys.readouterr().out
