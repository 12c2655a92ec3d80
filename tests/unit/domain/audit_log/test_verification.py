"""The verification of a chain tells how it was tampered with, and where."""

from collections.abc import Callable

import msgspec
import pytest

from timeball.domain.audit_log.change import AuditedChange, AuditedRequest, entry_of
from timeball.domain.audit_log.entry import NO_HASH, Actor, AuditEntry, ChainHead, head_of, with_hash
from timeball.domain.audit_log.verification import AuditProblem, ProblemKind, verify

ALICE = Actor(kind="key", id="k_1", name="alice")
Tamper = Callable[[list[AuditEntry]], list[AuditEntry]]


def chain_of(length: int, chain: str = "default") -> list[AuditEntry]:
    entries: list[AuditEntry] = []
    head = ChainHead(chain, 0, NO_HASH)
    for at in range(1, length + 1):
        request = AuditedRequest(tenant=chain, actor=ALICE, address="192.0.2.1", action="job.pause")
        change = AuditedChange("job", f"j_{at}", lambda: ({"state": "active"}, {"state": "paused"}))
        entries.append(entry_of(request, [change], head, at))
        head = head_of(entries[-1])
    return entries


def edited(entry: AuditEntry, **changes: object) -> AuditEntry:
    return msgspec.structs.replace(entry, **changes)


def problems(tamper: Tamper, head: ChainHead | None = None) -> list[tuple[str, int, int]]:
    entries = chain_of(9)
    found = verify(tamper(entries), head or head_of(entries[-1]), "default")
    return [(each.kind.value, each.seq, each.last) for each in found]


def test_a_chain_that_nobody_touched_has_no_problem() -> None:
    assert problems(lambda entries: entries) == []
    assert verify([], ChainHead("default", 0, NO_HASH), "default") == []
    assert verify([], None, "default") == []


@pytest.mark.parametrize(
    "change",
    [
        {"action": "job.resume"},
        {"at": 99},
        {"address": "192.0.2.2"},
        {"actor": Actor(kind="key", id="k_2", name="alice")},
        {"actor": Actor(kind="key", id="k_1", name="alice", user_id="u")},
        {"resource": "task"},
        {"resource_id": "j_7"},
        {"before": '{"state":"paused"}'},
        {"after": None},
        {"hash": "0" * 64},
        {"chain": "other"},
    ],
)
def test_an_edit_of_any_field_is_found(change: dict[str, object]) -> None:
    assert problems(lambda all_: [*all_[:4], edited(all_[4], **change), *all_[5:]]) == [("edited", 5, 5)]


def test_an_edit_with_a_new_hash_is_found_by_the_next_entry() -> None:
    def forge(all_: list[AuditEntry]) -> list[AuditEntry]:
        return [*all_[:4], with_hash(edited(all_[4], action="job.resume")), *all_[5:]]

    assert problems(forge) == [("replaced", 5, 5)]


def test_an_edit_of_the_last_entry_with_a_new_hash_is_found_by_the_head() -> None:
    assert problems(lambda all_: [*all_[:8], with_hash(edited(all_[8], action="x"))]) == [("replaced", 9, 9)]


@pytest.mark.parametrize(("first", "last"), [(1, 1), (5, 5), (3, 6), (1, 8)])
def test_deleted_entries_are_named(first: int, last: int) -> None:
    assert problems(lambda all_: [*all_[: first - 1], *all_[last:]]) == [("deleted", first, last)]


def test_a_chain_whose_end_is_missing_is_told_from_one_with_a_gap() -> None:
    assert problems(lambda all_: all_[:6]) == [("truncated", 7, 9)]
    assert problems(lambda all_: []) == [("truncated", 1, 9)]


def test_entries_in_another_order_are_moved() -> None:
    assert problems(lambda all_: [*all_[:4], all_[5], all_[4], *all_[6:]]) == [("moved", 5, 5)]


def test_entries_that_exchanged_their_numbers_are_moved() -> None:
    def exchange(all_: list[AuditEntry]) -> list[AuditEntry]:
        return [*all_[:3], edited(all_[6], seq=4), *all_[4:6], edited(all_[3], seq=7), *all_[7:]]

    assert problems(exchange) == [("moved", 4, 4), ("moved", 7, 7)]


def test_a_deletion_is_found_although_the_later_entries_were_renumbered() -> None:
    def renumber(all_: list[AuditEntry]) -> list[AuditEntry]:
        return [*all_[:4], *(edited(each, seq=each.seq - 1) for each in all_[5:])]

    found = problems(renumber)
    assert found == [*(("moved", at, at) for at in range(5, 9)), ("truncated", 9, 9)]


def test_a_chain_that_was_written_anew_is_found_by_the_head() -> None:
    assert problems(lambda _: chain_of(9)) == []
    assert problems(lambda _: chain_of(9), ChainHead("default", 9, "0" * 64)) == [("replaced", 9, 9)]


def test_entries_after_the_end_are_added() -> None:
    assert problems(lambda _: chain_of(11)) == [("added", 10, 11)]


def test_a_chain_without_a_head_is_not_called_whole() -> None:
    assert [each.kind for each in verify(chain_of(3), None, "default")] == [ProblemKind.HEADLESS]


def test_several_problems_are_found_at_once() -> None:
    def tamper(all_: list[AuditEntry]) -> list[AuditEntry]:
        return [all_[0], edited(all_[1], action="x"), *all_[3:8]]

    assert problems(tamper) == [("edited", 2, 2), ("deleted", 3, 3), ("truncated", 9, 9)]


def test_a_problem_is_a_sentence_with_the_numbers() -> None:
    assert AuditProblem(ProblemKind.DELETED, 3, 3).sentence == "entry 3 was deleted"
    assert AuditProblem(ProblemKind.DELETED, 3, 6).sentence == "entries 3 to 6 were deleted"


def test_a_gap_of_any_size_takes_no_memory() -> None:
    assert problems(lambda all_: [*all_[:8], edited(all_[8], seq=2**62)])[0] == ("deleted", 9, 2**62 - 1)
