"""Waits for the end of a guard, and removes the control groups of its jobs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import time
from typing import Final

from timeball.executors.sandbox import cgroups

GROUP_TICK_SECONDS: Final = 0.005


async def end_groups(groups: list[str], seconds: float) -> None:
    """Kill the processes that are left in control groups, and remove the groups. Give up after `seconds`."""
    until = time.monotonic() + seconds
    while groups := [group for group in groups if not cgroups.remove(group)]:
        for group in groups:
            cgroups.kill(group)
        if time.monotonic() > until:
            return
        await asyncio.sleep(GROUP_TICK_SECONDS)


async def wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait until the process has ended, at most `seconds`. No thread is used if the kernel supports process
    descriptors."""
    if process.poll() is not None:
        return
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        with contextlib.suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(process.wait, seconds)
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), seconds)
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
        process.poll()
