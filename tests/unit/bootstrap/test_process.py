"""Signals that stop a process."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from timeball.bootstrap import process
from timeball.bootstrap.process import StopSignals


async def _signalled() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.sleep(0.01)


@pytest.mark.parametrize("supervised", [False, True])
async def test_the_second_signal_is_another_order_unless_the_supervisor_passes_on_the_first(
    supervised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service manager such as systemd may signal the supervisor and its processes."""
    monkeypatch.setattr(process, "SAME_ORDER_SECONDS", 60.0)
    lifeline, alive = os.pipe()
    stop = StopSignals(lifeline if supervised else None)
    try:
        await _signalled()
        assert (stop.first.is_set(), stop.second.is_set()) == (True, False)
        await _signalled()
        assert stop.second.is_set() is not supervised
        monkeypatch.setattr(process, "SAME_ORDER_SECONDS", 0.0)
        await _signalled()
        assert stop.second.is_set()
    finally:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        loop.remove_reader(lifeline)
        os.close(lifeline)
        os.close(alive)
