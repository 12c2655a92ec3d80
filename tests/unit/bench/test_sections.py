"""How the benchmarks judge and report what they measured. The figures themselves are not tested."""

import json
from pathlib import Path

import pytest

from bench import recorder, report
from bench.fire_lateness import Mark
from bench.measurements import Figure, Findings, Row, Table, percentile
from bench.recorder import in_columns
from bench.sections.lateness import out_of_order
from bench.sections.tenants import allowed


@pytest.mark.parametrize(
    ("figure", "kept"),
    [
        (Figure(values=[1.0, 9.0, 10.0], least=9), True),
        (Figure(values=[1.0, 8.9, 10.0], least=9), False),
        (Figure(values=[1.0, 9.0, 100.0], most=9), True),
        (Figure(values=[9.0, 9.1, 9.2], most=9), False),
        (Figure(values=[0.0]), True),
    ],
)
def test_the_median_is_what_a_promise_is_judged_by(figure: Figure, kept: bool) -> None:
    assert figure.kept == kept


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(number) for number in range(1, 101)]
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile([7.0], 0.99)) == (51, 100, 7)


def findings(*, rate: float = 10.0, wrong: tuple[str, ...] = ()) -> Findings:
    rows = [
        Row({"store": "sqlite"}, {"jobs/s": Figure(values=[rate], least=10), "load": Figure(values=[1.0])}, [51, 25.4]),
        Row({"store": "postgresql"}, {"jobs/s": Figure(values=[3.0]), "worker": Figure(values=[2.0], digits=1)}),
    ]
    table = Table("Rates", {"slots": "500"}, rows)
    return Findings("some", "Some", "2026-03-01T00:00:00+00:00", {"machine": "2 cores"}, [table], list(wrong))


def test_a_missed_promise_or_a_wrong_sum_fails_a_section() -> None:
    assert findings().good
    assert not findings(rate=9).good
    assert not findings(wrong=("one is missing",)).good


def test_a_table_has_every_column_once_and_tells_what_was_missed() -> None:
    lines = in_columns(findings(rate=9).tables[0]).splitlines()
    assert lines[1] == "(slots 500)"
    assert lines[2].split() == ["store", "jobs/s", "worker", "load", "loop", "ms", "promised"]
    assert lines[3].split(maxsplit=6) == ["sqlite", "9", "1", "25", "-", "51", "jobs/s ≥ 10: MISSED"]
    assert lines[4].split() == ["postgresql", "3", "2.0"]


def test_how_fast_the_machine_was_stands_beside_what_was_measured_meanwhile() -> None:
    book = recorder.Recorder("some", "Some")
    with book.table("Rates") as table:
        for store, repeats in (("sqlite", 1), ("postgresql", 2)):
            for _ in book.takes(repeats):
                pass
            table.row({"store": store}, {"jobs/s": Figure(values=[1.0])})
    readings = [row.loop_ms for row in book.findings().tables[0].rows]
    assert [len(each) for each in readings] == [2, 3]
    assert all(reading > 0 for each in readings for reading in each)


def test_results_are_put_into_the_page_and_nowhere_else(tmp_path: Path) -> None:
    recorder.write(findings(rate=9, wrong=("one is missing",)), tmp_path)
    page = "# Words\n\n<!-- results: some -->\nold\n<!-- end -->\n\nmore\n\n<!-- results: other -->\n<!-- end -->\n"
    shown = report.rendered(page, tmp_path)
    assert "| sqlite | 9 |  | 1 | 25 - 51 | jobs/s ≥ 10: **missed** |" in shown
    assert "- **Wrong:** one is missing" in shown
    assert "old" not in shown
    assert "Not measured yet: `python -m bench other`." in shown
    assert (shown.startswith("# Words\n\n<!--"), "\n\nmore\n\n" in shown) == (True, True)
    assert report.rendered(shown, tmp_path) == shown


def test_peers_stand_beside_timeball(tmp_path: Path) -> None:
    peer = {"name": "queue", "jobs_per_second": 1000.0, "timeball_is_faster": {"timeball-sqlite": 20.0}}
    peer |= {"loop_ms": [25.0, 25.2], "durable": "yes", "configuration": "2 workers", "notes": ["backlog of 10"]}
    field = {"jobs": 100, "repeats": 3, "machine": "2 cores", "redis": "appendonly", "peers": [peer]}
    (tmp_path / "peers.json").write_text(json.dumps(field))
    shown = report.rendered("<!-- results: peers -->\n<!-- end -->\n", tmp_path)
    assert (
        "|  | jobs/s | timeball-sqlite × | loop ms | durable | set up |\n| --- | ---: | ---: | --- | --- | --- |"
        in shown
    )
    assert "| queue | 1,000 | 20.00 | 25 | yes | 2 workers; backlog of 10 |" in shown


def test_the_page_shows_the_results_that_are_there() -> None:
    page = report.PAGE.read_text()
    assert report.rendered(page) == page, "run `python -m bench.report`"


def test_who_starts_after_one_that_it_outranks_is_out_of_order() -> None:
    def started(*order: tuple[int, str]) -> int:
        return out_of_order([Mark(0, 0, priority, run_id) for priority, run_id in order])

    assert started((9, "r_1"), (9, "r_2"), (5, "r_0"), (0, "r_3")) == 0
    assert started((9, "r_2"), (9, "r_1")) == 1
    assert started((0, "r_1"), (5, "r_2"), (9, "r_3"), (0, "r_4")) == 2


@pytest.mark.parametrize(("alone", "most"), [(5.0, 55.0), (49.0, 99.0), (80.0, 160.0)])
def test_beside_a_flood_the_p99_may_double_or_grow_by_50_ms(alone: float, most: float) -> None:
    assert allowed(alone) == most
