"""Which new runs get an ordering key, without a database."""

from typing import Any

import pytest

from tests.support.builders import job, run
from timeball.domain.instant import HOUR, SECOND
from timeball.domain.run.ledger import Origin
from timeball.domain.run.run import NewRun
from timeball.stores.sql.runs.ordering_keys import LiveHolder, new_holders

NOW = 1_000 * HOUR
KEY = ("default", "account-7")
JOB = job(NOW, ordering_key="account-7")


def new(fire_time: int = NOW, **fields: Any) -> NewRun:
    return run(JOB, fire_time, **fields)


def holder(fire_time: int, *, can_wait: bool) -> dict[str, LiveHolder]:
    return {"r_holder": LiveHolder("r_holder", fire_time, int(can_wait), "j_other")}


def test_a_free_key_goes_to_the_earliest_run() -> None:
    late, early = new(NOW), new(NOW - SECOND)
    assert new_holders({KEY: [late, early]}, {KEY: None}, {}) == ({KEY: early.id}, {})


def test_a_run_that_is_held_by_a_worker_keeps_the_key() -> None:
    earlier = new(NOW - SECOND)
    assert new_holders({KEY: [earlier]}, {KEY: "r_holder"}, holder(NOW, can_wait=False)) == ({}, {})


def test_an_earlier_run_takes_the_key_from_one_that_can_wait() -> None:
    earlier = new(NOW - SECOND)
    found = new_holders({KEY: [earlier]}, {KEY: "r_holder"}, holder(NOW, can_wait=True))
    assert found == ({KEY: earlier.id}, {"r_holder": KEY})


def test_a_later_run_waits() -> None:
    assert new_holders({KEY: [new(NOW + SECOND)]}, {KEY: "r_holder"}, holder(NOW, can_wait=True)) == ({}, {})


@pytest.mark.parametrize(("origin", "inherits"), [(Origin.RETRY, True), (Origin.REPLAY, False), (Origin.MANUAL, False)])
def test_only_the_retry_of_a_run_that_gave_up_inherits_its_key(origin: Origin, inherits: bool) -> None:
    earlier, follower = new(NOW - SECOND), new(NOW, origin=origin, retry_of="r_dead")
    given, displaced = new_holders({KEY: [earlier, follower]}, {KEY: "r_dead"}, {})
    assert given == ({KEY: follower.id} if inherits else {})
    assert displaced == {}
