"""A process that executes runs of Python functions, one after the other: started by `executors.python.warm.child` with
`python -m timeball.executors.python.warm.child_program`.

It reads orders from its descriptor 3, and sends messages there. Before a run it sets the variables of the run. After a
run it empties its working folder and compares its state (`process_state`) with that before the run. If the run has left
something behind, the process ends, and the worker reports the end of the run after the process and all its descendants
are gone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from contextvars import copy_context
from io import BufferedReader, FileIO

import msgspec

from timeball.executors import results
from timeball.executors.python.child import WORDS, ChildReports, MessageChannel, call
from timeball.executors.python.child_protocol import ChildMessage, Order
from timeball.executors.python.warm import process_state
from timeball.executors.python.warm.source_files import SourceFiles

_decode = msgspec.json.Decoder(Order).decode


class WarmProgram:
    def __init__(self, channel: MessageChannel) -> None:
        self._channel = channel
        self._folder = os.getcwd()
        self._sources: SourceFiles | None = None
        self._state: process_state.State | None = None
        """The state after the import of the module; None before."""
        self._variables: tuple[str, ...] = ()
        """Names of the environment variables of the last run."""

    def serve(self) -> None:
        """Execute orders until the worker sends no more, or until a run leaves something behind."""
        orders = BufferedReader(FileIO(WORDS, "rb", closefd=False))
        self._channel.send(ChildMessage(ready=True))
        with contextlib.suppress(ConnectionError):  # the worker is gone
            while line := orders.readline():
                order = _decode(line)
                if order.deadline is not None and time.monotonic_ns() // 1_000 >= order.deadline:
                    self._channel.send(ChildMessage(refused="late"))
                elif self._sources is not None and self._sources.have_changed():
                    self._channel.send(ChildMessage(refused="changed"))
                    return
                elif not self._execute(order):
                    return

    def _execute(self, order: Order) -> bool:
        """Execute a run and send its outcome. Return True if the process may execute another one."""
        self._set_variables(order.environment)
        if self._state is not None:
            self._state = process_state.with_environment(self._state)
        reports = ChildReports(self._channel)
        outcome = copy_context().run(call, order, reports, lambda: self._imported(order.module))
        reports.ended = True
        left = self._tidy(reports)
        self._channel.send(ChildMessage(outcome=outcome, left=left))
        if signal.getsignal(signal.SIGTERM) == reports.cancel:
            # The worker sends no order after a signal, so a signal that comes from here on ends no other run.
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        return not left

    def _set_variables(self, variables: dict[str, str]) -> None:
        for name in self._variables:
            if name not in variables:
                os.environ.pop(name, None)
        for name, value in variables.items():  # the locale may be unable to encode the text
            os.environb[name.encode()] = value.encode()
        self._variables = tuple(variables)

    def _imported(self, module: str) -> None:
        if self._state is None:
            self._sources = SourceFiles(module)
            self._sources.note()
            with contextlib.suppress(OSError, KeyError, ValueError):  # an old kernel does not show all parts
                self._state = process_state.read()

    def _tidy(self, reports: ChildReports) -> str:
        """Empty the working folder. Return what else the run left behind, in words; empty if nothing."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        if self._state is None or self._sources is None:
            return "an import that failed, or a process whose state cannot be read"
        try:
            _empty(self._folder)
            if left := process_state.left_behind(self._state, {signal.SIGTERM: reports.cancel}):
                return left
        except Exception as error:  # whatever it is, the function has returned
            return f"a state that cannot be read or restored ({results.words(error)})"
        self._sources.note()
        return ""


def _empty(folder: str) -> None:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                import shutil  # imported here, because most runs do not need it and the import takes 6 ms

                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)


def main() -> None:
    os.environ.pop("PYTHONPATH", None)
    WarmProgram(MessageChannel()).serve()


if __name__ == "__main__":
    main()
