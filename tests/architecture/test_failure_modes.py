"""Each line of `docs/explanation/failure-modes.md` names tests that exist."""

import re

from tests.architecture.source import ROOT

PAGE = ROOT / "docs" / "explanation" / "failure-modes.md"
LINK = re.compile(r"\[(test_\w+)\]\(\.\./\.\./(tests/[\w/]+\.py)\)")
MIN_LINES = 22


def test_every_line_has_a_test_that_exists() -> None:
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")][1:]
    assert len(lines) >= MIN_LINES
    for line in lines:
        links = LINK.findall(line)
        assert len(line.split(" | ")) == 4, line
        assert links, f"no test proves this line: {line}"
        for name, path in links:
            assert re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text("utf-8"), re.MULTILINE), (name, path)
