"""The sentences about what needs attention, most urgent first."""

from typing import Any

from msgspec.structs import replace

from timeball.domain.diagnosis.worker_match import WorkerOffer
from timeball.domain.dispatch.placement import UNLIMITED, Offer, Resources, kind_label, need, profile
from timeball.domain.instant import MINUTE, SECOND
from timeball.domain.overview.attention import (
    MAX_PER_KIND,
    AttentionFacts,
    AttentionKind,
    LostWorker,
    PausedJob,
    Trouble,
    attention,
    profiles_without_worker,
)

NOW = 1_800_000_000_000_000


def trouble(name: str, count: int = 1, since: int = NOW - MINUTE, **fields: Any) -> Trouble:
    return Trouble(job_id=f"j_{name}", job_name=name, count=count, run_id=f"r_{name}", since=since, **fields)


def worker(**fields: Any) -> WorkerOffer:
    offer = Offer(session="w", slots=4, cpu=UNLIMITED, memory=UNLIMITED)
    functions = fields.pop("functions", frozenset())
    offer = replace(offer, **fields)
    return WorkerOffer(name="w", idle=offer, left=offer, functions=functions)


def asking(slots: int = 1, cpu: float = 0.0, memory: int = 0, labels: tuple[str, ...] = ()) -> str:
    found = profile(need(Resources(slots=slots, cpu=cpu, memory_mb=memory), labels), 5)
    assert found is not None
    return found


def test_the_most_urgent_comes_first() -> None:
    facts = AttentionFacts(
        now=NOW,
        paused=[PausedJob(job_id="j_p", job_name="p", reason="", since=NOW, until=None)],
        lost=[LostWorker("w1", NOW - MINUTE)],
        waiting=[trouble("late"), trouble("gpu", profile=asking(labels=("gpu",)))],
        failing=[trouble("failing", 3)],
        dead=[trouble("dead", 2)],
        workers=[worker()],
    )
    assert [each.kind for each in attention(facts)] == [
        AttentionKind.DEAD,
        AttentionKind.FAILING,
        AttentionKind.UNPLACEABLE,
        AttentionKind.LATE,
        AttentionKind.WORKER_LOST,
        AttentionKind.PAUSED,
    ]


def test_a_kind_has_the_largest_of_many() -> None:
    dead = [trouble(str(at), at) for at in range(1, 20)]
    found = attention(AttentionFacts(now=NOW, dead=dead))
    assert [each.count for each in found] == [19, 18, 17, 16, 15]
    assert len(found) == MAX_PER_KIND
    assert (found[0].job_id, found[0].job_name, found[0].run_id) == ("j_19", "19", "r_19")


def test_one_failure_is_no_failing_job() -> None:
    facts = AttentionFacts(now=NOW, failing=[trouble("once", 1), trouble("often", 4)])
    (found,) = attention(facts)
    assert (found.job_name, found.message) == ("often", "The last 4 runs failed.")


def test_a_run_is_late_once_it_has_waited_longer_than_a_start_may() -> None:
    facts = AttentionFacts(now=NOW, waiting=[trouble("now", since=NOW - SECOND), trouble("late")], workers=[worker()])
    (found,) = attention(facts)
    assert (found.job_name, found.message) == ("late", "1 run is late, the first by 1 min.")


def test_a_run_is_unplaceable_if_no_worker_is_large_enough_or_has_its_labels_kind_or_function() -> None:
    workers = [worker(), worker(slots=1, labels=frozenset({"gpu"}), functions=frozenset({"f"}))]
    profiles = {
        asking(slots=4): True,
        asking(slots=5): False,
        asking(labels=("gpu",)): True,
        asking(slots=2, labels=("gpu",)): False,
        asking(memory=10**9): True,
    }
    assert profiles_without_worker(profiles, workers) == [each for each, fits in profiles.items() if not fits]
    only_http = [worker(kinds=frozenset({kind_label("http")}))]
    assert profiles_without_worker([asking(labels=(kind_label("shell"),))], only_http) != []
    assert profiles_without_worker([asking(labels=(kind_label("http"),))], only_http) == []
    facts = AttentionFacts(now=NOW, waiting=[trouble("f", function="f"), trouble("g", function="g")], workers=workers)
    assert [(each.kind, each.job_name) for each in attention(facts)] == [
        (AttentionKind.UNPLACEABLE, "g"),
        (AttentionKind.LATE, "f"),
    ]


def test_without_workers_every_run_is_unplaceable() -> None:
    (found,) = attention(AttentionFacts(now=NOW, waiting=[trouble("alone", 3)]))
    assert found.kind is AttentionKind.UNPLACEABLE
    assert found.message == "3 runs cannot start. There is no worker."


def test_a_pause_is_told_with_its_reason() -> None:
    paused = PausedJob(job_id="j", job_name="n", reason="the warehouse moves", since=NOW, until=None)
    facts = AttentionFacts(now=NOW, paused=[paused, replace(paused, reason="")])
    assert [each.message for each in attention(facts)] == ["Paused: the warehouse moves", "Paused without a reason."]
