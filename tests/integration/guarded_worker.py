"""A small worker-like process for the guard's tests: starts jobs through a guard, then waits until it is killed.

    python guarded_worker.py FOLDER LEASE_MS PROGRAM

It prints the process id of the guard, whose program is PROGRAM. Each job writes its own process id into FOLDER, and one
of them detaches itself.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from timeball.executors.guard import guard as guard_module
from timeball.executors.guard.guard import ProcessGuard
from timeball.system import monotonic

DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open(sys.argv[1] + '/daemon', 'w').write(f'{os.getpid()}\\n')
        time.sleep(600)
    os._exit(0)
open(sys.argv[1] + '/parent', 'w').write(f'{os.getpid()}\\n')
time.sleep(600)
"""


async def main(folder: str, lease_ms: int, program: str) -> None:
    guard_module.PROGRAM = Path(program)  # type: ignore[misc]
    guard = ProcessGuard()
    guard.renew(monotonic() + lease_ms * 1_000)
    commands = [
        ["sh", "-c", f"trap '' TERM INT HUP; sleep 600 & echo $! > {folder}/child; echo $$ > {folder}/shell; wait"],
        [sys.executable, "-c", DAEMON, folder],
    ]
    children = [
        guard.spawn(
            command,
            env={"PATH": os.environ["PATH"], "TIMEBALL_PROCESS": f"{folder}/{token}"},
            cwd="/",
            mark=f"TIMEBALL_PROCESS={folder}/{token}",
            descriptors=[os.open(os.devnull, os.O_RDWR) for _ in range(3)],
            folder=f"{folder}/scratch",
        )
        for token, command in enumerate(commands)
    ]
    while guard.pid is None:
        await asyncio.sleep(0.01)
    print(guard.pid, flush=True)
    statuses = await asyncio.gather(*(child.exited for child in children), return_exceptions=True)
    print(*(status if isinstance(status, int) else type(status).__name__ for status in statuses), flush=True)
    await guard.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
