"""Tables on terminals: ids and times are never broken, and columns without content are left out."""

import pytest

from timeball.cli.output import times
from timeball.cli.output.output import Column, Output
from timeball.cli.output.table_layout import TextColumn, layout

ID = "r_0194f3a1c2b79f86d081884c7d65"
TIME = "2026-03-01T02:00:00.123456Z"
Row = tuple[str, ...]


def printed(
    columns: list[Column[Row]],
    rows: list[Row],
    width: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    Output("table").table(columns, rows, nothing="")
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_columns_that_are_empty_in_all_rows_are_left_out() -> None:
    columns = [TextColumn("id", ["a", "b"]), TextColumn("reason", ["", ""]), TextColumn("why", ["", "x"])]
    assert layout(columns, 80) == {0: 2, 2: 3}


def test_ids_and_times_are_never_broken() -> None:
    columns = [TextColumn("run", [ID]), TextColumn("at", [TIME]), TextColumn("reason", [f"run {ID} still ran", "no"])]
    for width in range(92, 130):
        widths = layout(columns, width)
        assert widths is not None
        assert sum(widths.values()) + 4 <= width
        assert (widths[0], widths[1]) == (len(ID), len(TIME))
        assert widths[2] >= len(ID)
    assert layout(columns, 80) is None


def test_optional_columns_are_left_out_before_words_are_broken() -> None:
    name = "nightly-reports"
    columns = [TextColumn("name", [name]), TextColumn("worker", [ID], optional=True), TextColumn("tag", ["a" * 15])]
    assert layout(columns, 70) == {0: 15, 1: 30, 2: 15}
    assert layout(columns, 60) == {0: 15, 2: 15}
    assert layout(columns, 25) == {0: 11, 2: 12}
    assert layout(columns, 19) is None


def test_a_fingerprint_is_not_broken() -> None:
    columns = [TextColumn("group", ["a40883c45b6f"]), TextColumn("error", ["exit code 3, and more"])]
    assert layout(columns, 23) == {0: 12, 1: 9}


def test_a_relative_time_is_not_broken() -> None:
    ago = "1 h 10 min ago"
    columns = [TextColumn("at", [ago], is_time=True), TextColumn("why", ["a long text of many words"])]
    assert layout(columns, 28) == {0: len(ago), 1: 12}


def test_a_table_that_does_not_fit_is_printed_as_records(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    columns: list[Column[Row]] = [Column("run", lambda row: row[0]), Column("at", lambda row: row[1])]
    columns.append(Column("note", lambda row: row[2]))
    rows = [(ID, TIME, ""), (ID, TIME, "late")]
    lines = printed(columns, rows, 60, monkeypatch, capsys)
    assert lines == [f"run  {ID}", f"at   {TIME}", "", f"run   {ID}", f"at    {TIME}", "note  late"]
    wide = printed(columns, rows, 80, monkeypatch, capsys)
    assert wide[0].split() == ["run", "at", "note"]
    assert wide[-1] == f"{ID}  {TIME}  late"


def test_lengths_of_a_second_and_more_are_in_seconds() -> None:
    assert [times.milliseconds(length) for length in (3.574, 999.0, 12_810.2, 4_000_000.0)] == [
        "3.574 ms",
        "999 ms",
        "12.8 s",
        "4,000.0 s",
    ]


def test_items_of_a_list_are_separated_by_spaces(capsys: pytest.CaptureFixture[str]) -> None:
    Output("table").table([Column[int]("tags", lambda _: ["a", "b"])], [1], nothing="")
    assert capsys.readouterr().out.splitlines()[-1].rstrip() == "a, b"
