"""Which faults `timeball chaos` causes and when: the same for the same seed, and never in all processes at once."""

import pytest

from timeball.chaos.history import KINDS
from timeball.chaos.plan import RESTING, Planned, plan

SECONDS = 600.0


def faults(seed: int = 1, kinds: tuple = KINDS, servers: int = 3, workers: int = 4) -> list[Planned]:
    return plan(seed, kinds, seconds=SECONDS, every=2.0, servers=servers, workers=workers)


def test_the_same_seed_breaks_the_same_things() -> None:
    assert faults(7) == faults(7)
    assert faults(7) != faults(8)


def test_every_kind_comes_and_hits_every_part() -> None:
    found = faults()
    assert {fault.kind for fault in found} == set(KINDS)
    assert {(fault.kind, fault.part) for fault in found if fault.kind in ("kill", "pause")} == {
        (kind, part) for kind in ("kill", "pause") for part in ("server", "worker")
    }
    assert {fault.part for fault in found if fault.kind == "cut"} == {"server", "worker", "client"}
    assert {fault.target for fault in found if fault.kind == "restart"} == {"database"}


@pytest.mark.parametrize("seed", range(20))
def test_a_server_and_a_worker_are_left_alone_and_all_is_over_in_the_end(seed: int) -> None:
    found = faults(seed)
    assert len(found) > SECONDS / 2 * 0.5
    for fault in found:
        assert 0 < fault.at <= fault.at + fault.lasts <= SECONDS
        broken = {other.target for other in found if other.at <= fault.at < other.at + other.lasts + RESTING}
        broken.add(fault.target)
        assert len([name for name in broken if name.startswith("server")]) < 3
        assert len([name for name in broken if name.startswith("worker")]) < 4


def test_what_is_alone_is_broken_nevertheless() -> None:
    assert {fault.target for fault in faults(kinds=("kill",), servers=1, workers=1)} == {"server-1", "worker-1"}


def test_without_kinds_nothing_breaks() -> None:
    assert faults(kinds=()) == []


def test_a_fault_tells_what_it_is() -> None:
    assert str(Planned(1.0, "kill", "worker", "worker-2", 0.5)) == "kill worker-2 for 0.5 s"
    assert str(Planned(1.0, "cut", "worker", "worker-2", 3.0)) == "cut worker-2 - servers for 3.0 s"
    assert str(Planned(1.0, "hang", "server", "server-1", 3.0)) == "hang server-1 - database for 3.0 s"
