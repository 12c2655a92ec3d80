"""Specs whose parameters are in object storage: recognized among others, and completed again."""

import msgspec
import pytest

from tests.support.builders import spec
from timeball.domain.job.job import JobSpec, OffloadedSpec, decode_spec, encode_spec, fill, is_offloaded, offloaded
from timeball.domain.schedule.schedule import CronSchedule
from timeball.domain.task.task import Http, Shell

KEY = "payloads/0000000000000001/2026/11/15/j_0194f3a1c2b79f86d081884c7d65-80a1b2c3d4e5f607.json"


@pytest.mark.parametrize(
    "whole",
    [
        spec(parameters={"a": 1}),
        spec(parameters={"parametersAt": KEY}, schedule=CronSchedule(expression="0 2 * * *"), tags=["x"], user_id="u"),
        spec(task=Http(url="http://x/a.json"), name="n", parameters={"deep": {"parametersAt": "x"}}),
    ],
)
def test_parameters_go_and_come_back(whole: JobSpec) -> None:
    kept = encode_spec(offloaded(whole, KEY))
    assert is_offloaded(kept)
    for text in (kept, kept.decode()):
        found = decode_spec(text)
        assert isinstance(found, OffloadedSpec)
        assert (found.parameters, found.parameters_at) == ({}, KEY)
        assert found.with_parameters(whole.parameters) == whole
    filled = fill(kept, msgspec.json.encode(whole.parameters))
    assert (is_offloaded(filled), decode_spec(filled)) == (False, whole)


@pytest.mark.parametrize(
    "other",
    [
        spec(task=Shell(command="cat a.json")),
        spec(parameters={"parametersAt": KEY}),
        spec(task=None, task_id=KEY),
        spec(parameters={"x": f',"parametersAt":"{KEY}'}, user_id="x.json"),
    ],
)
def test_nothing_else_passes_for_one(other: JobSpec) -> None:
    text = encode_spec(other)
    assert not is_offloaded(text)
    assert decode_spec(text) == other
    assert type(decode_spec(text.decode())) is JobSpec
