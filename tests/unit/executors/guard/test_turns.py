"""A call that takes long blocks one thread, and not the work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NoReturn

import pytest

from timeball.executors.guard import turns as turns_module
from timeball.executors.guard.turns import Turns

pytestmark = pytest.mark.timeout(300)


class Work:
    """Executes what is put into it, in the thread that has the turn, until the test has ended."""

    def __init__(self) -> None:
        self.turns = Turns(self.work, lambda: None)
        self.todo: list[Callable[[], None]] = []
        self.threads: list[int] = []
        """Of each thread that executed something."""
        self.over = threading.Event()
        threading.Thread(target=self.turns.serve, daemon=True).start()

    def work(self) -> NoReturn:
        while not self.over.is_set():
            assert self.turns.has_watch()
            while self.turns.late:
                self.turns.late.popleft()()
            if self.todo:
                self.threads.append(threading.get_ident())
                self.todo.pop(0)()
            time.sleep(0.001)
        while True:
            time.sleep(60)

    def call(self, function: Callable[[], None], late: Callable[[], None] = lambda: None) -> None:
        self.todo.append(lambda: self.turns.call(function, late))

    def until(self, condition: Callable[[], object]) -> None:
        until = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < until, "it did not happen"
            time.sleep(0.001)


@pytest.fixture
def work() -> Work:
    return Work()


def test_short_calls_stay_in_one_thread(work: Work) -> None:
    done: list[int] = []
    late: list[int] = []
    for number in range(5):
        work.call(lambda number=number: done.append(number), lambda: late.append(1))  # type: ignore[misc]
    work.until(lambda: done == [0, 1, 2, 3, 4])
    assert (len(set(work.threads)), late) == (1, [])
    work.over.set()


def test_work_continues_while_calls_take_long(work: Work) -> None:
    hold, done, late = [threading.Event() for _ in range(3)], [0], [0]

    def add(counter: list[int]) -> None:
        counter[0] += 1

    for event in hold:
        work.call(lambda event=event: event.wait() and None, lambda: add(late))  # type: ignore[misc]
    work.call(lambda: add(done))
    work.until(lambda: done[0] == 1)
    assert (len(set(work.threads)), late[0]) == (4, 0)
    for count, event in enumerate(hold, 1):
        event.set()
        work.until(lambda count=count: late[0] == count)  # type: ignore[misc]
    work.over.set()


def test_threads_that_lost_their_turn_are_used_again(work: Work) -> None:
    known = threading.active_count()
    for _ in range(5):
        hold, late = threading.Event(), threading.Event()
        work.call(hold.wait, late.set)  # type: ignore[arg-type]
        work.until(lambda: not work.todo)
        done = threading.Event()
        work.call(done.set)
        work.until(done.is_set)
        hold.set()
        work.until(late.is_set)
    assert len(set(work.threads)) <= 3
    assert threading.active_count() <= known + 3
    work.over.set()


def test_a_call_after_a_long_rest_is_watched(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns_module, "LONG_SECONDS", 0.001)
    for _ in range(3):
        work.call(lambda: None)
        work.until(lambda: work.turns._asleep)
        hold, done = threading.Event(), threading.Event()
        work.call(hold.wait)  # type: ignore[arg-type]
        work.call(done.set)
        work.until(done.is_set)
        hold.set()
    work.over.set()
