"""A search finds exactly the lines that contain the text, however the output is cut into chunks and pages."""

from collections.abc import Sequence
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeball.operation.runs import search_logs as module
from timeball.operation.runs.search_logs import PLACES, place_of, search_logs
from timeball.ports.store.queries import LogLine

Chunk = tuple[str, str]
TEXTS = st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), st.text("ax\n", min_size=1, max_size=8)), max_size=30)


class Output:
    """The output of attempts, as the store returns it."""

    def __init__(self, *attempts: Sequence[Chunk]) -> None:
        self.chunks = [
            LogLine(number, seq, stream, 0, text)
            for number, chunks in enumerate(attempts, 1)
            for seq, (stream, text) in enumerate(chunks)
        ]
        self.read = 0

    async def __call__(self, run_id: str, attempt: int | None, after: int, limit: int) -> list[LogLine]:
        found = [c for c in self.chunks if place_of(c) > after and attempt in (None, c.attempt)][:limit]
        self.read += len(found)
        return found


def lines_of(*attempts: Sequence[Chunk]) -> list[tuple[int, str, str]]:
    return sorted(
        (number, stream, line)
        for number, chunks in enumerate(attempts, 1)
        for stream in ("stdout", "stderr")
        for line in "".join(text for name, text in chunks if name == stream).split("\n")
    )


async def search(output: Output, text: str, limit: int = 1_000) -> list[LogLine]:
    found: list[LogLine] = []
    after: int | None = 0
    pages = 0
    while after is not None:
        page = await search_logs(output, "r", None, after, text, limit)
        assert page.after is None or page.after > after, "every page gets further"
        found, after, pages = found + page.lines, page.after, pages + 1
        assert pages < 200
    return found


@given(TEXTS, TEXTS)
async def test_it_finds_the_lines_of_each_stream_of_each_attempt(first: list[Chunk], second: list[Chunk]) -> None:
    found = await search(Output(first, second), "AX")
    expected = [each for each in lines_of(first, second) if "ax" in each[2]]
    assert sorted((line.attempt, line.stream, line.text) for line in found) == expected


@given(
    st.lists(st.text("ax\n", max_size=8).flatmap(lambda text: st.just(text + "\n" + text[::-1])), max_size=30),
    st.integers(1, 4),
    st.integers(1, 30),
)
async def test_pages_neither_lose_nor_repeat_a_line(texts: list[str], limit: int, size: int) -> None:
    chunks = [("stdout", text) for text in texts]
    with mock.patch.object(module, "MAX_SEARCHED", size):
        found = await search(Output(chunks), "ax", limit)
    expected = [text for *_, text in lines_of(chunks) if "ax" in text]
    assert sorted(line.text for line in found) == expected


async def test_a_page_reads_a_bounded_part_of_the_output() -> None:
    output = Output([("stdout", "x" * 60_000 + "\n")] * 400)
    page = await search_logs(output, "r", None, 0, "needle")
    assert page.lines == []
    assert page.after is not None
    assert output.read <= module.MAX_SEARCHED // 60_000 + module.CHUNKS


async def test_an_endless_line_is_searched_in_pieces() -> None:
    output = Output([("stdout", "x" * 60_000)] * 100 + [("stdout", "needle")])
    (found,) = await search(output, "needle")
    assert len(found.text) < 3 * module.MAX_LINE


async def test_a_position_is_that_of_the_store() -> None:
    page = await search_logs(Output([], [("stdout", "a\n"), ("stdout", "b\na\n")]), "r", None, 0, "a", limit=1)
    assert page.after == 2 * PLACES
    assert [line.seq for line in page.lines] == [0]


@pytest.mark.parametrize(("text", "found"), [("ERROR", ["an error"]), ("straße", ["in der STRASSE"]), ("none", [])])
async def test_case_does_not_matter(text: str, found: list[str]) -> None:
    output = Output([("stdout", "an error\nin der STRASSE\n")])
    assert [line.text for line in await search(output, text)] == found
