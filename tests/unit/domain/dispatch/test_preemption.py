"""Which attempt is preempted for which run."""

from timeball.domain.dispatch.placement import PLAIN, Need, Offer
from timeball.domain.dispatch.preemption import PreemptingRun, Running, choose
from timeball.domain.instant import SECOND

NOW = 1_000 * SECOND


def offer(session: str = "w", slots: int = 0, **fields: object) -> Offer:
    values = {"session": session, "slots": slots, "cpu": 1 << 40, "memory": 1 << 40}
    return Offer(**{**values, **fields})  # type: ignore[arg-type]


def running(name: str, priority: int = 2, session: str = "w", need: Need = PLAIN, started_at: int = 0) -> Running:
    return Running(name, session, 1, 7, priority, need, started_at)


def waiting(
    name: str, priority: int = 8, need: Need = PLAIN, profile: str | None = None, ago: int = SECOND
) -> PreemptingRun:
    return PreemptingRun(name, priority, profile, need, NOW - ago, False)


def chosen(first: list[PreemptingRun], low: list[Running], *left: Offer, slots: int = 4) -> tuple[str, str] | None:
    offers = {each.session: each for each in left}
    idle = {session: offer(session, slots, labels=each.labels) for session, each in offers.items()}
    found = choose(first, low, offers, idle, NOW)
    return None if found is None else (found[0].run_id, found[1].run_id)


def test_the_lowest_makes_room_and_among_these_who_started_last() -> None:
    low = [running("old"), running("young", started_at=5), running("medium", 5, started_at=9)]
    assert chosen([waiting("high")], low, offer()) == ("high", "young")
    assert chosen([waiting("medium", 5)], low[2:], offer()) is None


def test_nobody_does_while_there_is_room() -> None:
    assert chosen([waiting("high")], [running("low")], offer(), offer("other", 1)) is None


def test_one_that_would_still_not_fit_is_no_reason() -> None:
    assert chosen([waiting("large", need=Need(2))], [running("low")], offer()) is None
    assert chosen([waiting("large", need=Need(2))], [running("low")], offer(slots=1)) == ("large", "low")
    heavy = Need(1, 0, 500)
    assert chosen([waiting("heavy", need=heavy)], [running("low", need=heavy)], offer(memory=0)) is None


def test_only_where_the_slot_goes_to_who_is_entitled() -> None:
    """Somebody else ranks first: an aged one, or one that has not waited long enough."""
    aged = waiting("aged", 2)
    assert chosen([aged, waiting("high")], [running("low")], offer()) is None
    assert chosen([waiting("just now", ago=0), waiting("high")], [running("low")], offer()) is None
    picky = waiting("picky", 2, need=Need(1, 0, 0, frozenset({"gpu"})), profile="gpu")
    assert chosen([picky, waiting("high")], [running("low")], offer()) == ("high", "low")


def test_a_worker_that_is_kept_free_for_others_is_left_alone() -> None:
    assert chosen([waiting("high")], [running("low")], offer(reserved_for="gpu")) is None
