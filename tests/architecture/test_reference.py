"""The pages of docs/reference are what the code generates, and name every command, route, error code and table."""

import json
import re
from pathlib import Path

import pytest

from scripts import cli_reference, errors_reference, man_page, reference, tables_reference
from timeball.api.app import ROUTES
from timeball.cli.output import failures

WRITTEN = {"stability.md"}
"""Pages that are written by hand."""
FOLDER = Path(__file__).parents[2] / "docs" / "reference"


def text(name: str) -> str:
    return (FOLDER / name).read_text("utf-8")


@pytest.mark.parametrize("name", reference.PAGES)
def test_a_generated_page_is_current(name: str) -> None:
    assert text(name) == reference.PAGES[name](), "run `make reference`"


def test_the_manual_page_is_current() -> None:
    assert man_page.PAGE.read_text("utf-8") == man_page.page(), "run `make reference`"


def test_every_page_of_the_folder_is_generated() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {*reference.PAGES, *WRITTEN}


def test_every_route_is_documented_with_a_command() -> None:
    sections = dict(re.findall(r"^### (.+?)\n(.*?)(?=^##|\Z)", text("api.md"), re.MULTILINE | re.DOTALL))
    assert sections.keys() == {f"{route.method} {route.path}" for route in ROUTES}
    assert [name for name, section in sections.items() if "```sh\ncurl " not in section] == []


def test_every_error_code_has_a_meaning_and_a_remedy() -> None:
    codes = errors_reference.codes()
    assert codes.keys() == errors_reference.EXPLAINED.keys()
    documented = re.findall(r"^\| `(\w+)` \| .+ \| .+ \| .+ \|$", text("errors.md"), re.MULTILINE)
    assert sorted(documented) == sorted(codes)


def test_every_exit_code_is_documented() -> None:
    documented = set(map(int, re.findall(r"^\| (\d+) \|", text("errors.md"), re.MULTILINE)))
    assert documented >= {failures.RUN_FAILED, failures.CONFIGURATION, failures.INTERRUPTED, *failures._CODES.values()}


def test_every_command_is_documented() -> None:
    documented = re.findall(r"^## (timeball.*)$", text("cli.md"), re.MULTILINE)
    assert documented == [path for path, _ in cli_reference.help_texts()]


def test_every_table_has_a_purpose() -> None:
    assert tables_reference.schema().keys() == tables_reference.PURPOSES.keys()


def test_the_example_of_an_error_is_json() -> None:
    [block] = re.findall(r"```json\n(.*?)```", text("errors.md"), re.DOTALL)
    assert json.loads(block)["code"] in errors_reference.codes()
