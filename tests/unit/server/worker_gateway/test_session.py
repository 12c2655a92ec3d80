"""The transitions of a session, without a gateway or a store."""

from __future__ import annotations

import asyncio
import random

import pytest

from timeball.domain.job.large_values import LARGE
from timeball.domain.run.lifecycle import Succeeded
from timeball.ports.store.runs import Claim
from timeball.ports.worker_protocol import Assignment, Ended, LogChunk, PollResponse
from timeball.server.worker_gateway.session import RETURN_TIME, PendingPoll, SpareSlots, WorkerSession

NOTHING = PollResponse()


class Scene:
    """A session, and the tables that it enters and leaves."""

    def __init__(self, *, key: str | None = "k_1", in_doubt: bool = False) -> None:
        self.polling: dict[str, PendingPoll] = {}
        self.expected: dict[str, SpareSlots] = {}
        self.session = WorkerSession(
            "w_1", "worker", key, polling=self.polling, expected=self.expected, now=0, in_doubt=in_doubt
        )

    def poll(self, seq: int, *held: int, free: int = 3) -> asyncio.Future[PollResponse]:
        """A poll that finds nothing to be answered with, and waits."""
        assert self.session.poll_arrived(seq, held) == []
        assert self.session.orders() is None
        return self.session.wait(seq, free, asyncio.get_running_loop().create_future()).answer

    def deliver(self, poll: int, *tokens: int, slots: int = 1) -> bool:
        return self.session.deliver(poll, [claim(token, poll, slots) for token in tokens], now=0, steady_now=0)


def claim(token: int, poll: int, slots: int = 1) -> Claim:
    return Claim(
        run_id=f"r_{token}",
        job_id="j_1",
        attempt=1,
        token=token,
        serial=False,
        session="w_1",
        poll=poll,
        fire_time=0,
        eligible_at=0,
        spec=b"{}",
        task=None,
        slots=slots,
    )


def ended(token: int) -> Ended:
    return Ended(run_id=f"r_{token}", job_id="j_1", attempt=1, token=token, serial=False, outcome=Succeeded())


def tokens(answer: asyncio.Future[PollResponse]) -> list[int]:
    return [each.token for each in answer.result().assignments]


# --- polls --------------------------------------------------------------------------------------------------------


async def test_claims_answer_the_pending_poll() -> None:
    scene = Scene()
    answer = scene.poll(1)
    assert list(scene.polling) == ["w_1"]
    assert scene.deliver(1, 7, 8)
    assert tokens(answer) == [7, 8]
    assert not scene.polling


async def test_a_newer_poll_ends_the_older_one() -> None:
    scene = Scene()
    older, newer = scene.poll(1), scene.poll(2)
    assert older.result() == NOTHING
    assert not newer.done()
    assert scene.polling["w_1"].seq == 2


async def test_a_poll_that_a_newer_one_overtook_changes_nothing() -> None:
    scene = Scene()
    newer = scene.poll(2)
    assert scene.session.poll_arrived(1, [7]) is None
    assert scene.session.poll_arrived(2, [7]) is None, "nor does the same one that was sent twice"
    assert not newer.done()
    assert scene.session.is_newest(2)
    assert scene.deliver(2, 7)
    assert tokens(newer) == [7]


async def test_the_timer_of_an_older_poll_does_not_answer_the_newer_one() -> None:
    scene = Scene()
    scene.poll(1)
    older = scene.polling["w_1"]
    newer = scene.poll(2)
    scene.session.answer(NOTHING, older)
    scene.session.stop_waiting(older)
    assert not newer.done()
    assert scene.polling["w_1"].seq == 2


async def test_a_request_that_is_over_leaves_no_pending_poll() -> None:
    scene = Scene()
    answer = scene.poll(1)
    assert not scene.session.is_silent_since(1), "its poll is pending"
    answer.cancel()
    assert not scene.deliver(1, 7), "the worker would not get it"
    scene.session.stop_waiting(scene.polling["w_1"])
    assert not scene.polling
    assert scene.session.is_silent_since(1)


async def test_a_report_changes_the_free_slots_of_its_poll_only() -> None:
    scene = Scene()
    scene.poll(1, free=3)
    assert not scene.session.slots_changed(2, 5)
    assert scene.polling["w_1"].free == 3
    assert scene.session.slots_changed(1, 5)
    assert not scene.session.slots_changed(1, 5), "no news"
    assert not scene.session.slots_changed(1, 0), "no slot"
    assert scene.polling["w_1"].free == 0


async def test_a_report_that_arrives_before_its_poll_changes_that_one() -> None:
    scene = Scene()
    scene.session.slots_changed(1, 0)
    scene.poll(1, free=3)
    assert scene.polling["w_1"].free == 0
    scene.poll(2, free=3)
    assert scene.polling["w_1"].free == 3


def test_a_message_with_the_key_of_another_worker_is_not_heard() -> None:
    session = Scene(key="k_1").session
    assert not session.heard("k_2", now=9)
    assert session.is_silent_since(5)
    assert session.heard("k_1", now=9)
    assert not session.is_silent_since(5)
    assert Scene(key=None).session.heard("k_2", now=9), "opened by a server that did not know keys"


# --- claims -------------------------------------------------------------------------------------------------------


async def test_a_poll_is_delivered_to_once() -> None:
    scene = Scene()
    answer = scene.poll(1, free=1)
    assert scene.deliver(1, 7)
    assert not scene.deliver(1, 8)
    assert tokens(answer) == [7]


async def test_claims_for_an_earlier_poll_are_refused_though_another_one_is_pending() -> None:
    scene = Scene()
    scene.poll(1)
    newer = scene.poll(2)
    assert not scene.deliver(1, 7)
    assert not newer.done()


async def test_claims_for_the_next_poll_are_kept_as_far_as_slots_were_left() -> None:
    scene = Scene()
    scene.poll(1, free=6)
    assert scene.deliver(1, 7)
    spare = scene.expected["w_1"]
    assert (spare.next_poll, spare.slots, spare.until, spare.has_claims) == (2, 5, RETURN_TIME, False)
    assert not scene.deliver(3, 8), "not the next poll"
    assert scene.deliver(2, 9, slots=3)
    assert not scene.deliver(2, 10, slots=3), "only 2 slots are left"
    assert (spare.slots, spare.has_claims) == (2, True)
    kept = scene.session.poll_arrived(2, [7])
    assert kept == [claim(9, 2, slots=3)]
    assert [each.token for each in scene.session.assign(kept, 5, 0, 0).assignments] == [9]
    assert spare.slots == 0
    assert scene.expected["w_1"].next_poll == 3


async def test_nothing_is_kept_for_a_worker_whose_slots_are_all_taken() -> None:
    scene = Scene()
    scene.poll(1, free=1)
    assert scene.deliver(1, 7)
    assert not scene.expected
    assert not scene.deliver(2, 8)


async def test_nothing_is_kept_for_a_poll_that_has_arrived() -> None:
    """It is between its arrival and its answer: the store gives back what its worker does not hold."""
    scene = Scene()
    scene.poll(1)
    assert scene.deliver(1, 7)
    assert scene.session.poll_arrived(2, [7]) == []
    assert not scene.deliver(2, 8)
    assert not scene.deliver(3, 9)


async def test_claims_that_were_kept_for_a_poll_that_never_came_are_in_doubt() -> None:
    scene = Scene()
    scene.poll(1)
    assert scene.deliver(1, 7)
    assert scene.deliver(2, 8)
    assert scene.session.poll_arrived(3, [7]) == []
    assert scene.session.in_doubt


async def test_claims_whose_poll_was_overtaken_while_the_store_was_asked_are_in_doubt() -> None:
    scene = Scene()
    scene.poll(1)
    assert scene.deliver(1, 7)
    assert scene.deliver(2, 8)
    kept = scene.session.poll_arrived(2, [7])
    assert kept
    assert scene.session.poll_arrived(3, [7]) == []
    assert not scene.session.is_newest(2)
    scene.session.drop([])
    assert not scene.session.in_doubt
    scene.session.drop(kept)
    assert scene.session.in_doubt


async def test_a_server_that_stops_hands_over_what_it_kept() -> None:
    scene = Scene()
    scene.poll(1)
    assert scene.deliver(1, 7)
    assert scene.deliver(2, 8)
    assert scene.session.close() == [claim(8, 2)]
    assert scene.session.close() == []
    assert not scene.deliver(2, 9)


async def test_a_session_that_is_over_is_neither_waiting_nor_expected() -> None:
    scene = Scene()
    scene.poll(1)
    assert scene.deliver(1, 7)
    answer = scene.poll(2, 7)
    scene.session.end()
    assert answer.result() == NOTHING
    assert not scene.polling
    assert not scene.expected


# --- doubt --------------------------------------------------------------------------------------------------------


async def test_an_uncertain_claim_ends_the_poll_and_the_next_one_is_in_doubt() -> None:
    scene = Scene()
    answer = scene.poll(1)
    scene.session.mark_uncertain()
    assert answer.result() == NOTHING
    assert scene.session.poll_arrived(2, []) == []
    assert scene.session.in_doubt
    scene.session.verified()
    assert scene.session.poll_arrived(3, []) == []
    assert not scene.session.in_doubt


async def test_an_answer_that_did_not_arrive_is_noticed_by_the_next_poll() -> None:
    scene = Scene()
    scene.poll(1)
    assert scene.deliver(1, 7, 8)
    assert scene.session.poll_arrived(2, [7]) == []
    assert scene.session.in_doubt
    scene.session.verified()
    assert scene.session.poll_arrived(3, [7]) == []
    assert not scene.session.in_doubt, "only 7 counts as assigned now"


async def test_a_worker_that_holds_what_it_was_assigned_raises_no_doubt() -> None:
    scene = Scene()
    scene.poll(1)
    assert scene.deliver(1, 7, 8)
    assert scene.session.ended([ended(8)]) == []
    assert scene.session.poll_arrived(2, [7, 9]) == []
    assert not scene.session.in_doubt


async def test_polls_that_are_missing_went_to_another_server_which_may_have_claimed() -> None:
    scene = Scene()
    scene.poll(1)
    assert scene.session.poll_arrived(3, []) == []
    assert scene.session.in_doubt


async def test_a_session_of_another_server_begins_in_doubt() -> None:
    session = Scene(in_doubt=True).session
    assert session.poll_arrived(1, []) == []
    assert session.in_doubt


async def test_a_beat_compares_what_the_worker_and_the_store_hold() -> None:
    scene = Scene()
    answer = scene.poll(1)
    scene.session.beat_arrived(held={7}, claimed={7})
    assert not answer.done()
    scene.session.beat_arrived(held={7}, claimed={7, 8})
    assert answer.result() == NOTHING
    assert scene.session.in_doubt
    scene.session.beat_arrived(held={7}, claimed={7})
    assert not scene.session.in_doubt


# --- orders -------------------------------------------------------------------------------------------------------


async def test_a_cancel_answers_the_pending_poll_and_goes_out_once() -> None:
    scene = Scene()
    answer = scene.poll(1, 7)
    scene.session.order_cancel(7, at_once=False)
    assert answer.result() == PollResponse(cancel=[7])
    again = scene.poll(2, 7)
    scene.session.order_cancel(7, at_once=False)
    assert not again.done()


async def test_a_cancel_before_the_answer_goes_out_with_the_assignments() -> None:
    scene = Scene()
    scene.poll(1)
    assert scene.deliver(1, 7)
    assert scene.deliver(2, 8)
    scene.session.order_cancel(7, at_once=False)
    scene.session.order_pause(9, 4)
    kept = scene.session.poll_arrived(2, [7])
    assert kept
    answer = scene.session.assign(kept, 3, 0, 0)
    assert ([each.token for each in answer.assignments], answer.cancel, answer.pause) == ([8], [7], [(9, 4)])
    assert scene.session.orders() is None


async def test_a_cancel_after_the_answer_goes_out_with_the_next_poll() -> None:
    scene = Scene()
    scene.poll(1)
    assert scene.deliver(1, 7)
    scene.session.order_cancel(7, at_once=False)
    scene.session.order_cancel(8, at_once=True)
    assert scene.session.poll_arrived(2, [7, 8]) == []
    assert scene.session.orders() == PollResponse(cancel=[7], kill=[8])
    assert scene.session.orders() is None


async def test_a_cancel_that_became_a_kill_goes_out_once_more() -> None:
    session = Scene().session
    sent = []
    for at_once in (False, True, True, False):
        session.order_cancel(7, at_once)
        sent.append(session.orders())
    assert sent == [PollResponse(cancel=[7]), PollResponse(kill=[7]), None, None]


async def test_a_cancel_of_an_attempt_that_ended_does_not_go_out() -> None:
    session = Scene().session
    session.order_cancel(7, at_once=False)
    session.ended([ended(7)])
    assert session.orders() is None


async def test_a_cancel_whose_answer_did_not_arrive_goes_out_again() -> None:
    scene = Scene()
    scene.poll(1, 7)
    scene.session.order_cancel(7, at_once=False)
    assert scene.session.poll_arrived(3, [7]) == []
    scene.session.verified()
    scene.session.order_cancel(7, at_once=False)
    assert scene.session.orders() == PollResponse(cancel=[7])


async def test_a_cancel_that_finds_a_request_that_is_over_is_kept_for_the_next_poll() -> None:
    scene = Scene()
    scene.poll(1, 7).cancel()
    scene.session.order_cancel(7, at_once=False)
    assert scene.session.poll_arrived(2, [7]) == []
    assert scene.session.orders() == PollResponse(cancel=[7])


# --- output -------------------------------------------------------------------------------------------------------


def test_only_attempts_with_large_output_that_was_stored_are_named_at_their_end() -> None:
    session = Scene().session
    for token in (1, 2, 3):
        half = LogChunk(run_id="r", attempt=1, token=token, seq=0, stream="stdout", text="x" * (LARGE // 2))
        session.printed([half] * (3 if token != 2 else 2), stale={3})
    assert session.ended([ended(1), ended(2), ended(3)]) == [ended(1)]
    assert session.ended([ended(1)]) == []


# --- all of it ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
async def test_whatever_happens_the_invariants_hold(seed: int) -> None:
    """One poll is pending, the newest; no claim is answered twice, or to another poll than its own."""
    rng, scene = random.Random(seed), Scene()
    session, polls, claims = scene.session, dict[int, asyncio.Future[PollResponse]](), dict[int, int]()
    seq = token = 0
    kept: list[Claim] = []
    for _ in range(500):
        match rng.randrange(12):
            case 0 | 1 | 2 | 3:
                seq += rng.choice((1, 1, 1, 2))
                arrived = session.poll_arrived(seq, [each for each in claims if rng.random() < 0.9])
                assert arrived is not None
                kept += arrived
                polls[seq] = asyncio.get_running_loop().create_future()
                if arrived:
                    polls[seq].set_result(session.assign(arrived, rng.randrange(4), 0, 0))
                elif (orders := session.orders()) is not None:
                    polls[seq].set_result(orders)
                else:
                    session.wait(seq, rng.randrange(4), polls[seq])
                session.verified()
            case 4 | 5 | 6 | 7 | 8:
                token += 1
                claims[token] = poll = seq + rng.choice((-1, 0, 0, 0, 1, 1, 2))
                scene.deliver(poll, token)
            case 9:
                session.order_cancel(rng.randrange(token + 1), at_once=rng.random() < 0.5)
            case 10:
                session.mark_uncertain()
            case _:
                session.slots_changed(rng.randrange(seq + 1), rng.randrange(4))
        pending = [number for number, answer in polls.items() if not answer.done()]
        assert pending == [poll.seq for poll in scene.polling.values()]
        assert pending in ([], [seq])
    answered = [(each.token, number) for number, answer in polls.items() for each in _assignments(answer)]
    assert len(answered) == len(dict(answered)) > 20
    assert all(claims[token] == number for token, number in answered)
    assert kept
    assert {each.token for each in kept} <= dict(answered).keys()


def _assignments(answer: asyncio.Future[PollResponse]) -> list[Assignment]:
    return answer.result().assignments if answer.done() else []


async def test_a_draining_session_offers_no_slots_and_gets_what_was_kept_for_it() -> None:
    scene = Scene()
    first = scene.poll(1)
    assert scene.deliver(1, 7)
    assert tokens(first) == [7]
    assert scene.deliver(2, 8)
    scene.session.order_drain()
    assert scene.expected["w_1"].slots == 0
    assert not scene.deliver(2, 9), "what is claimed now is given back at once"
    kept = scene.session.poll_arrived(2, [7])
    assert kept is not None
    answer = scene.session.assign(kept, 2, now=0, steady_now=0)
    assert ([each.token for each in answer.assignments], answer.drain) == ([8], True)
    assert scene.poll(3, 7, 8, free=2).done() is False
    assert scene.polling["w_1"].free == 0
    assert not scene.session.slots_changed(3, 2)
    assert scene.polling["w_1"].free == 0
