"""Rows of the ledger that stand for several fires."""

from tests.support.builders import job, run
from timeball.domain.run.ledger import Verdict
from timeball.stores.sql.planning.ledger_spans import Tail
from timeball.stores.sql.rows.runs import unstarted
from timeball.stores.sql.schema.runs import NewHistoryRow

JOB = job(0)


def skipped(at: int, reason: str = "busy") -> NewHistoryRow:
    return unstarted(run(JOB, at), Verdict.SKIPPED, reason, at)


def test_instants_in_a_row_share_a_row() -> None:
    tail = Tail(None)
    for at in (1, 2, 3):
        tail.add(skipped(at))
    tail.add(skipped(4, "another reason"))
    assert [(row.fire_time, row.fire_until, row.fires) for row in tail.new] == [(1, 3, 3), (4, 4, 1)]


def test_one_that_waited_while_later_ones_were_closed_has_a_row_of_its_own() -> None:
    tail = Tail("r_stored", Verdict.SKIPPED, "busy", until=5)
    tail.add(skipped(3))
    assert [(row.fire_time, row.fires) for row in tail.new] == [(3, 1)]
    tail.add(skipped(6))
    tail.add(skipped(7))
    assert tail.grown == ("r_stored", 7, 2)
    tail.add(skipped(4, "another reason"))
    tail.add(skipped(8, "another reason"))
    tail.add(skipped(9, "another reason"))
    assert [(row.fire_time, row.fires) for row in tail.new] == [(4, 1), (3, 1), (8, 2)]
