"""The API over real HTTP, for clients with sockets of their own."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from pathlib import Path

import uvicorn

from tests.support.api import FakeWorker, running_api


class LiveServer:
    """The API on a loopback port, in a thread with its own event loop, with a worker that executes a few simple
    commands.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ready = threading.Event()
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()))
        self.url = ""

    def __enter__(self) -> LiveServer:
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            async with running_api(self._folder) as api:
                http = uvicorn.Server(
                    uvicorn.Config(api.app, log_config=None, access_log=False, lifespan="off", ws="none")
                )
                serving = asyncio.create_task(http.serve([listener]))
                working = asyncio.create_task(self._work(FakeWorker(api)))
                self._ready.set()
                await self._stopping.wait()
                working.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await working
                http.should_exit = True
                await serving

    async def _work(self, worker: FakeWorker) -> None:
        await worker.hello()
        beating = asyncio.create_task(self._beat(worker))
        try:
            while True:
                assigned = await worker.take()
                command = assigned["spec"].get("task", {}).get("command")
                if command == "false":
                    await worker.fail(assigned, "exit code 1")
                else:
                    await worker.write(assigned, f"did {command}\n", "and ended\n")
                    await worker.succeed(assigned, {"did": command})
        finally:
            beating.cancel()

    @staticmethod
    async def _beat(worker: FakeWorker) -> None:
        while True:
            await asyncio.sleep(3)
            await worker.send("beat", {"session": worker.session, "held": []})
