"""Batches are read in pieces, with the same jobs and the same errors as if they were read one by one (I28)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from timeball.api.routes.jobs import batch_body
from timeball.api.routes.jobs.batch_body import MAX_JOBS, read_batch
from timeball.domain.errors import Invalid, TimeballError, TooLarge
from timeball.jobspec import json_input
from timeball.jobspec.errors import Malformed
from timeball.jobspec.job_reader import JobBody, read_job
from timeball.system import SystemClock

CLOCK = SystemClock()
TASK = {"kind": "shell", "command": "true"}
ODD_TEXT = st.sampled_from(["},{", "]", "[{", '\\"', '"', "\\", "\n", "é", "\u2028", "", "},\n{"])
VALUE = st.recursive(
    ODD_TEXT | st.integers(-5, 5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ODD_TEXT, inner, max_size=3),
)
JOB = st.fixed_dictionaries(
    {"task": st.just(TASK), "parameters": st.dictionaries(ODD_TEXT, VALUE, max_size=4)},
    optional={"idempotencyKey": st.just("k"), "nmae": st.just(1), "priority": st.sampled_from(["HIGH", "low", "x"])},
)


async def read(raw: bytes, lines: bool = False) -> list[Any]:
    return [_plain(each) for each in (await read_batch(raw, lines, CLOCK))[0]]


def _plain(found: JobBody | TimeballError) -> Any:
    return str(found) if isinstance(found, TimeballError) else (found.spec, found.key)


def one_by_one(jobs: list[Any]) -> list[Any]:
    found: list[Any] = []
    for job in jobs:
        try:
            found.append(_plain(read_job(json.dumps(job).encode())))
        except TimeballError as error:
            found.append(str(error))
    return found


@settings(max_examples=150, deadline=None)
@given(jobs=st.lists(JOB, min_size=1, max_size=12), piece=st.integers(8, 400), indent=st.sampled_from([None, 1]))
async def test_pieces_of_any_size_are_the_same_jobs(jobs: list[Any], piece: int, indent: int | None) -> None:
    expected = one_by_one(jobs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_body, "PIECE_BYTES", piece)
        for escaped in (True, False):
            raw = json.dumps(jobs, indent=indent, ensure_ascii=escaped).encode()
            assert await read(raw) == expected
            lines = "\n".join(json.dumps(job, ensure_ascii=escaped) for job in jobs).encode()
            assert await read(lines, lines=True) == expected


@pytest.mark.parametrize(
    "raw",
    [
        b"[",
        b"[1",
        b"[1 2]",
        b"[1,]",
        b"[,1]",
        b"[1,,2]",
        b"[1]x",
        b"[1]]",
        b'["',
        b'["a]',
        b"[{]",
        b"[tru]",
        b"[ ",
        b"[1,",
    ],
)
async def test_what_is_no_array_is_refused(raw: bytes) -> None:
    with pytest.raises(Malformed):
        await read(raw)


@pytest.mark.parametrize("raw", [b"[]", b" [ ] ", b"[]\n"])
async def test_a_batch_may_be_empty(raw: bytes) -> None:
    assert await read(raw) == []


async def test_bad_bytes_are_found_at_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_body, "WINDOW_BYTES", 8)
    for begin in range(20):
        with pytest.raises(Malformed, match=f"at byte {begin + 2}"):
            await read(b'["' + b"a" * begin + b'\xff"]')
    text = "é" * 20
    assert len(await read(f'["{text}"]'.encode())) == 1


async def test_a_job_of_a_batch_is_as_large_as_any_other() -> None:
    large = {"task": TASK, "parameters": {"a": "x" * (json_input.MAX_BODY + 1)}}
    raw = json.dumps({"task": TASK}).encode()
    lines, _ = await read_batch(b"%b\n%b\n%b" % (raw, json.dumps(large).encode(), raw), True, CLOCK)
    assert [type(each) for each in lines] == [JobBody, TooLarge, JobBody]
    with pytest.raises(TooLarge, match="1 MiB"):
        await read(b"[%b]" % json.dumps(large).encode())


async def test_what_costs_too_much_in_all_jobs_together_is_refused() -> None:
    job = b'{"task":{"kind":"shell","command":"true"},"parameters":{"a":[%b]}}'
    exponents = b"[%b]" % b",".join([job % b",".join([b"1e308"] * 900)] * 20)
    with pytest.raises(Invalid, match="exponents"):
        await read(exponents)
    arrays = b"[%b]" % b",".join([job % b",".join([b"[]"] * 40_000)] * 10)
    with pytest.raises(Invalid, match="arrays and objects"):
        await read(arrays)
    texts = b"[%b]" % b",".join([job % b",".join([b'"[[[[1e308"'] * 40_000)] * 10)
    assert len(await read(texts)) == 10, "texts are only texts"


async def test_too_many_jobs_are_refused() -> None:
    with pytest.raises(TooLarge, match="10,000"):
        await read(b"[%b]" % b",".join([b"1"] * (MAX_JOBS + 1)))


def test_numbers_that_take_long_to_read_are_few() -> None:
    """I28: 1 MiB of 1e308 held the event loop for 1.7 s, five times."""
    job = b'{"task":{"kind":"shell","command":"true"},"parameters":{"a":[%b]}}'
    assert read_job(job % b",".join([b"1e308"] * 1_000)).spec.parameters["a"][0] == 1e308
    with pytest.raises(Invalid, match="1,000 numbers with exponents"):
        read_job(job % b",".join([b"1E-308"] * 1_001))
    assert len(read_job(job % b",".join([b'"\\"1e308"'] * 2_000)).spec.parameters["a"]) == 2_000
