"""Puts what was measured into docs/benchmarks.md, between `<!-- results: SECTION -->` and `<!-- end -->`.

python -m bench.report
"""

from __future__ import annotations

import re
from pathlib import Path

from bench import notebook
from bench.figures import Findings, Table

PAGE = Path(__file__).parent.parent / "docs/benchmarks.md"
_PLACE = re.compile(r"(<!-- results: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def rendered(page: str, results: Path = notebook.RESULTS) -> str:
    """The page with the tables that belong into it."""
    return _PLACE.sub(lambda found: f"{found[1]}\n{_section(found[2], results)}\n{found[3]}", page)


def _section(name: str, results: Path) -> str:
    path = results / f"{name}.json"
    if not path.exists():
        return f"Not measured yet: `python -m bench {name}`.\n"
    findings = notebook.read(path)
    tables = "\n".join(_table(table) for table in findings.tables)
    wrong = "".join(f"- **Wrong:** {sentence}\n" for sentence in findings.wrong)
    return f"{_origin(findings)}\n\n{tables}{wrong}"


def _origin(findings: Findings) -> str:
    facts = "; ".join(f"{name}: {value}" for name, value in findings.machine.items())
    return f"*{findings.taken[:10]}; {facts}.*"


def _table(table: Table) -> str:
    heading, *lines = table.cells
    labels = len(table.rows[0].labels)
    figures = labels + max(len(row.figures) for row in table.rows)
    rule = ["---:" if labels <= column < figures else "---" for column in range(len(heading))]
    configuration = ", ".join(f"{name} {value}" for name, value in table.configuration.items())
    shown = [_line(heading), _line(rule), *(_line([_marked(cell) for cell in line]) for line in lines)]
    return f"**{table.title}** ({configuration})\n\n" + "\n".join(shown) + "\n"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cell.strip().replace('|', chr(92) + '|') for cell in cells)} |"


def _marked(cell: str) -> str:
    return cell.replace("MISSED", "**missed**")


def main() -> None:
    PAGE.write_text(rendered(PAGE.read_text()))
    print(f"{PAGE.name} is up to date")


if __name__ == "__main__":
    main()
