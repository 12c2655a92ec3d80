"""Writes the measured figures into docs/explanation/benchmarks.md, between `<!-- results: SECTION -->` and `<!-- end
-->`.

python -m bench.report
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
from msgspec import Struct

from bench import recorder
from bench.measurements import Findings, Table, span

PAGE = Path(__file__).parent.parent / "docs/explanation/benchmarks.md"
_PLACE = re.compile(r"(<!-- results: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def rendered(page: str, results: Path = recorder.RESULTS) -> str:
    """Return the page with the current tables."""
    return _PLACE.sub(lambda found: f"{found[1]}\n{_results(found[2], results)}\n{found[3]}", page)


def _results(name: str, results: Path) -> str:
    path = results / f"{name}.json"
    if name == "peers":
        return _peers(path) if path.exists() else "Not measured yet: `python -m bench.peers`.\n"
    return _section(path) if path.exists() else f"Not measured yet: `python -m bench {name}`.\n"


# --- sections -----------------------------------------------------------------------------------------------------


def _section(path: Path) -> str:
    findings = recorder.read(path)
    tables = "\n".join(_table(table) for table in findings.tables)
    wrong = "".join(f"- **Wrong:** {sentence}\n" for sentence in findings.wrong)
    return f"{_origin(findings)}\n\n{tables}" + (f"\n{wrong}" if wrong else "")


def _origin(findings: Findings) -> str:
    facts = "; ".join(f"{name}: {value}" for name, value in findings.machine.items())
    return f"*{findings.taken[:10]}; {facts}.*"


def _table(table: Table) -> str:
    heading, *lines = table.cells
    labels = len(table.rows[0].labels)
    figures = labels + max(len(row.figures) for row in table.rows)
    numbers = range(labels, figures)
    configuration = ", ".join(f"{name} {value}" for name, value in table.configuration.items())
    marked = [[cell.replace("MISSED", "**missed**") for cell in line] for line in lines]
    return f"**{table.title}** ({configuration})\n\n{_markdown(heading, marked, numbers)}"


# --- peers --------------------------------------------------------------------------------------------------------


class _Peer(Struct):
    name: str
    jobs_per_second: float | None
    timeball_is_faster: dict[str, float]
    durable: str
    configuration: str
    notes: list[str] = []
    loop_ms: list[float] = []


class _Field(Struct):
    """The content of the file that `bench.peers` writes."""

    jobs: int
    repeats: int
    machine: str
    peers: list[_Peer]
    redis: str = ""


def _peers(path: Path) -> str:
    field = msgspec.json.decode(path.read_bytes(), type=_Field)
    ours = list(dict.fromkeys(name for peer in field.peers for name in peer.timeball_is_faster))
    heading = ["", "jobs/s", *(f"{name} ×" for name in ours), "loop ms", "durable", "set up"]
    lines = [
        [
            peer.name,
            "failed" if peer.jobs_per_second is None else f"{peer.jobs_per_second:,.0f}",
            *(f"{peer.timeball_is_faster[name]:.2f}" if name in peer.timeball_is_faster else "" for name in ours),
            span(peer.loop_ms),
            peer.durable,
            "; ".join([peer.configuration, *peer.notes]),
        ]
        for peer in field.peers
    ]
    origin = "; ".join(part for part in (field.machine, field.redis) if part)
    title = f"**Drain of {field.jobs:,} due no-op jobs** (repeats {field.repeats})"
    return f"*{origin}.*\n\n{title}\n\n{_markdown(heading, lines, range(1, 2 + len(ours)))}"


def _markdown(heading: list[str], lines: list[list[str]], numbers: range) -> str:
    rule = ["---:" if column in numbers else "---" for column in range(len(heading))]
    return "\n".join(_line(line) for line in [heading, rule, *lines]) + "\n"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cell.strip().replace('|', chr(92) + '|') for cell in cells)} |"


def main() -> None:
    PAGE.write_text(rendered(PAGE.read_text()))
    print(f"{PAGE.name} is up to date")


if __name__ == "__main__":
    main()
