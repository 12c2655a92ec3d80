"""Output is bounded: its beginning and its end are kept, and a mark says what is missing."""

from __future__ import annotations

from timeball.ports.worker_protocol import MAX_CHUNK_LENGTH, LogChunk
from timeball.worker.output import LIVE, TAIL, AttemptOutput


def take(output: AttemptOutput) -> list[LogChunk]:
    return output.take("r_1", 1, 7)


def test_neighbours_of_a_stream_are_joined_and_numbered() -> None:
    output = AttemptOutput()
    for stream, text in [("stdout", "a"), ("stdout", "b"), ("stderr", "c"), ("stdout", "d")]:
        output.write(stream, text)
    assert [(c.seq, c.stream, c.text) for c in take(output)] == [
        (0, "stdout", "ab"),
        (1, "stderr", "c"),
        (2, "stdout", "d"),
    ]
    output.write("stdout", "e")
    assert [(c.seq, c.text) for c in take(output)] == [(3, "e")]
    output.close()
    assert take(output) == []


def test_a_flood_keeps_its_beginning_and_its_end_and_no_more() -> None:
    output = AttemptOutput()
    total = 0
    kept = 0
    for number in range(20_000):
        line = f"{number:09d} {'x' * 989}\n"
        total += len(line)
        output.write("stdout", line)
        chunks = take(output)
        kept += sum(len(chunk.text) for chunk in chunks)
        assert all(len(chunk.text) <= MAX_CHUNK_LENGTH for chunk in chunks)
    assert kept == LIVE
    output.close()
    marker, *end = take(output)
    assert marker.stream == "system"
    assert marker.text == f"\n[{total - LIVE - TAIL} bytes of output were dropped here]\n"
    assert sum(len(chunk.text) for chunk in end) == TAIL
    assert end[-1].text.endswith(f"{19_999:09d} {'x' * 989}\n")


def test_one_enormous_piece_and_bytes_are_counted_as_bytes() -> None:
    output = AttemptOutput()
    output.write("stdout", "é" * (LIVE + TAIL + 10))
    output.close()
    chunks = take(output)
    assert sum(len(chunk.text) for chunk in chunks if chunk.stream == "stdout") == LIVE + TAIL
    assert [chunk.text for chunk in chunks if chunk.stream == "system"] == [
        "\n[20 bytes of output were dropped here]\n"
    ]


def test_what_fits_is_complete() -> None:
    output = AttemptOutput()
    output.write("stdout", "x" * (LIVE + TAIL))
    output.close()
    chunks = take(output)
    assert {chunk.stream for chunk in chunks} == {"stdout"}
    assert sum(len(chunk.text) for chunk in chunks) == LIVE + TAIL
