"""The worker's side of a warm child.

    starting ──ready──▶ idle ──give──▶ busy ──outcome──▶ idle
        └────────end───────┴──────────────┴──▶ ending ──the process ends──▶ gone

An order that the child did not read before it died was not executed: the kernel then reports a reset of the connection,
and not its end. So such a run can be given to another child.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from enum import Enum
from typing import Final, Protocol

import msgspec

from timeball.domain.run.lifecycle import Outcome
from timeball.executors import results
from timeball.executors.guard.guard import Child, ProcessGuard
from timeball.executors.process.pipes import ReadBudget
from timeball.executors.process.process import MAX_STDERR_TAIL, remove_folder
from timeball.executors.python.child_protocol import ChildMessage
from timeball.executors.python.warm.output import OutputPipe
from timeball.executors.python.warm.run import WarmRun, failed

READ: Final = 16 * 1024
"""Maximum number of bytes of messages that are read at once. As lines of one byte, they take the event loop 15 ms."""
MAX_MESSAGE_LENGTH: Final = 2 * results.LARGEST
EXIT_TIMEOUT: Final = 5.0
"""Seconds that a process without a run gets to end by itself, for example to call functions that were registered with
`atexit`."""
MAX_REFUSALS: Final = 5
"""Maximum number of children that may die before they read the order of a run. After that, the run counts as executed.
"""
NOT_STARTED: Final = "not started: the worker's lease had lapsed"

_decode: Final = msgspec.json.Decoder(ChildMessage).decode


class ChildState(Enum):
    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    ENDING = "ending"
    """The child gets no more orders."""
    GONE = "gone"


class ChildListener(Protocol):
    """Implemented by the owner of warm children, which are processes that execute one run after the other. A
    `WarmChild` calls these methods when its state changes."""

    def child_is_idle(self, child: WarmChild) -> None:
        """Called when the child can execute its first or its next run."""
        ...

    def child_refused(self, run: WarmRun, *, changed: bool) -> None:
        """Called when the child did not begin the run that it got. `changed` is True if a source file has changed since
        the child imported it, and False if the process died before it read the order."""
        ...

    def child_is_gone(self, child: WarmChild) -> None:
        """Called when the process and all that it started have ended, and its folder is removed."""
        ...


class WarmChild:
    def __init__(self, folder: str, guard: ProcessGuard, budget: ReadBudget, listener: ChildListener) -> None:
        """`folder` is the working folder of the process, which is removed with it."""
        self.folder = folder
        self.state = ChildState.STARTING
        self.start_seconds: float | None = None
        """Seconds from the start of the process until it could execute runs; None if it has never been able to."""
        self.stderr_tail = ""
        """The end of what the process wrote to its standard error before it was ready."""
        self.runs = 0
        """Number of runs that it began to execute."""
        self.idle_since = 0.0
        self.left = ""
        """Names the changes of the process that the last run left behind; empty if there are none."""
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the process and its folder are gone."""
        self.exited: asyncio.Future[int] | None = None
        """The future with the end of the process; see `guard.Child.exited`."""
        self._guard = guard
        self._listener = listener
        self._ending: asyncio.Task[None] | None = None
        self._process: Child | None = None
        self._run: WarmRun | None = None
        self._was_reset = False
        self._unsent = b""
        self._is_writing = False
        self._received = b""
        self._has_hung_up = False
        self._killing: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._created_at = self._loop.time()
        with contextlib.ExitStack() as on_error:
            self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            on_error.callback(self._channel.close)
            on_error.callback(theirs.close)
            self.stdout, stdout_w = _pipe(self._on_stdout, budget)
            on_error.callback(self.stdout.close)
            on_error.callback(os.close, stdout_w)
            self.stderr, stderr_w = _pipe(self._on_stderr, budget)
            on_error.callback(self.stderr.close)
            on_error.callback(os.close, stderr_w)
            stdin = os.open(os.devnull, os.O_RDONLY)
            on_error.pop_all()
        self.descriptors = [stdin, stdout_w, stderr_w, theirs.detach()]
        """The descriptors 0 to 3 of the process, until it is started."""
        self._channel.setblocking(False)
        self._loop.add_reader(self._channel.fileno(), self._receive)

    @property
    def is_suspended(self) -> bool:
        return self._run is not None and self._run.is_suspended

    def started(self, process: Child) -> None:
        """Record that the guard starts the process, and owns its descriptors now."""
        self._process, self.exited, self.descriptors = process, process.exited, []
        process.exited.add_done_callback(self._process_ended)

    def not_started(self) -> None:
        """Close the descriptors and remove the folder, because the process cannot be started."""
        for descriptor in self.descriptors:
            os.close(descriptor)
        self._close()
        with contextlib.suppress(OSError):
            os.rmdir(self.folder)

    def give(self, run: WarmRun) -> None:
        """Send the order of a run to the idle process, which then executes it."""
        process = self._process
        assert self.state is ChildState.IDLE
        assert process is not None
        self._unsent = run.order(self._guard.deadline)
        process.marks.add(run.mark)
        self.state = ChildState.BUSY
        self._run = run
        self.runs += 1
        self._send()
        run.begin(process)

    def end(self) -> None:
        """Let the process end, after the run that it executes."""
        if self.state is not ChildState.GONE:
            self.state = ChildState.ENDING
            if self._run is None:
                self._hang_up()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    # --- messages ---------------------------------------------------------------------------------------------------

    def _send(self) -> None:
        """Send as much of the order as possible, and the rest when the socket is writable again."""
        try:
            sent = self._channel.send(self._unsent)
        except BlockingIOError:
            sent = 0
        except OSError:  # the process has ended, or has closed its end
            self._was_reset = True
            self._hang_up()
            sent = len(self._unsent)
        self._unsent = self._unsent[sent:]
        if bool(self._unsent) != self._is_writing:
            self._is_writing = bool(self._unsent)
            if self._is_writing:
                self._loop.add_writer(self._channel.fileno(), self._send)
            else:
                self._loop.remove_writer(self._channel.fileno())

    def _receive(self) -> bool:
        """Read messages of the process and apply them. Return False if there is nothing more to read now."""
        try:
            data = self._channel.recv(READ)
        except BlockingIOError:
            return False
        except OSError:  # the process has ended, and did not read the whole order
            self._was_reset = True
            data = b""
        if not data:
            self._loop.remove_reader(self._channel.fileno())
            if self._run is None:
                self.end()
            return False
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            with contextlib.suppress(msgspec.MsgspecError):
                self._see(_decode(line))
        if len(self._received) > MAX_MESSAGE_LENGTH:
            self._received = b""
        return True

    def _see(self, message: ChildMessage) -> None:
        run = self._run
        if run is None:
            if message.ready and self.state is ChildState.STARTING:
                self.start_seconds = self._loop.time() - self._created_at
                self._is_idle()
            return
        run.see(message)
        if message.refused == "changed":
            self._run = None
            self.end()
            self._listener.child_refused(run, changed=True)
        elif message.refused == "late":
            self._end_run(run, failed(NOT_STARTED))
        elif message.outcome is not None and message.left:
            run.outcome, self.left = message.outcome, message.left
            self.state = ChildState.ENDING
        elif message.outcome is not None and run.outcome is None:
            self._end_run(run, message.outcome)

    def _end_run(self, run: WarmRun, outcome: Outcome) -> None:
        """End a run with its outcome. The process can then execute another one, unless the run was signalled or the
        child is to end."""
        self.stdout.read_all()
        self.stderr.read_all()
        self._run = None
        if self._process is not None:
            self._process.marks.discard(run.mark)
        run.end(outcome)
        if run.was_signalled or self.state is ChildState.ENDING:
            self.end()
        else:
            self._is_idle()

    def _is_idle(self) -> None:
        self.state = ChildState.IDLE
        self.idle_since = self._loop.time()
        self._listener.child_is_idle(self)

    def _on_stdout(self, text: str) -> None:
        if self._run is not None:
            self._run.on_stdout(text)

    def _on_stderr(self, text: str) -> None:
        if self._run is not None:
            self._run.on_stderr(text)
        elif self.start_seconds is None:
            self.stderr_tail = (self.stderr_tail + text)[-MAX_STDERR_TAIL:]

    # --- the end of the process -------------------------------------------------------------------------------------

    def _hang_up(self) -> None:
        """Close the worker's side of the channel, whereupon the process ends."""
        if not self._has_hung_up:
            self._has_hung_up = True
            with contextlib.suppress(OSError):
                self._channel.shutdown(socket.SHUT_WR)
            self._killing = self._loop.call_later(EXIT_TIMEOUT, self.kill)

    def _process_ended(self, exited: asyncio.Future[int]) -> None:
        """Called when the process and all that it started have ended: read its last messages and output, then end its
        run."""
        self.state = ChildState.ENDING
        self._loop.remove_reader(self._channel.fileno())
        self._ending = self._loop.create_task(self._end_with_process(exited))

    async def _end_with_process(self, exited: asyncio.Future[int]) -> None:
        for _ in iter(self._receive, False):
            await asyncio.sleep(0)
        self.stdout.read_all()
        self.stderr.read_all()
        self._close()
        await remove_folder(self.folder, self._guard)
        self.state = ChildState.GONE
        run, self._run = self._run, None
        if run is not None and self._was_reset and not run.was_signalled and run.refusals < MAX_REFUSALS:
            run.refusals += 1
            self._listener.child_refused(run, changed=False)
        elif run is not None:
            run.end_with_process(exited)
        self._listener.child_is_gone(self)
        self.gone.set_result(None)

    def _close(self) -> None:
        self._has_hung_up = True
        if self._killing is not None:
            self._killing.cancel()
        self._loop.remove_reader(self._channel.fileno())
        self._loop.remove_writer(self._channel.fileno())
        self._channel.close()
        self.stdout.close()
        self.stderr.close()


def _pipe(on_text: Callable[[str], None], budget: ReadBudget) -> tuple[OutputPipe, int]:
    """Return the reading end of a new pipe, and the descriptor of its writing end."""
    reading_end, writing_end = os.pipe()
    try:
        return OutputPipe(reading_end, on_text, budget), writing_end
    except BaseException:
        os.close(reading_end)
        os.close(writing_end)
        raise
