"""The process of one Python function: `python -m timeball.executors.python.child`, started by
`executors.python.process`.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Final

import msgspec

from timeball.domain import instant
from timeball.domain.run.lifecycle import Failed, Failure, Succeeded
from timeball.executors import results
from timeball.executors.python.child_protocol import ChildMessage, Order
from timeball.executors.python.outcomes import line, raised, returned, step
from timeball.tasks import REGISTRY, Context

WORDS: Final = 3
"""The descriptor on which the child sends messages to the worker."""


class MessageChannel:
    """Sends messages to the worker. It is thread-safe, because functions may have threads of their own."""

    def __init__(self) -> None:
        os.set_inheritable(WORDS, False)
        self._file = os.fdopen(WORDS, "wb", buffering=0)
        self._lock = threading.Lock()

    def send(self, word: ChildMessage) -> None:
        content = msgspec.json.encode(word) + b"\n"
        with self._lock:
            while content:
                content = content[self._file.write(content) :]


class ChildReports:
    """What the context of a run reports."""

    def __init__(self, channel: MessageChannel) -> None:
        self._channel = channel
        self.cancelled = False
        self.ended = False
        """True after the run. A context that a function kept does not report for a later run."""

    def log(self, text: str) -> None:
        if not self.ended:
            self._channel.send(ChildMessage(log=results.clean(line(text))))

    def progress(self, fraction: float, note: str) -> None:
        if not self.ended and (report := step(fraction, note)) is not None:
            self._channel.send(ChildMessage(progress=report))

    def cancel(self, *_: object) -> None:
        self.cancelled = True


def call(order: Order, reports: ChildReports, imported: Callable[[], None] | None = None) -> Succeeded | Failed:
    """Import the module, call `imported`, then call the function. Return its outcome."""
    try:
        importlib.import_module(order.module)
        if imported is not None:
            imported()
        function = REGISTRY.get(order.function)
        if function is None:
            message = f"module {order.module!r} registers no task {order.function!r} when it is imported"
            return Failed(Failure(kind="worker", message=message))
        arguments = order.parameters
        if function.wants_context:
            # A function with a context can ask whether to stop, and gets time to do so. Other functions end with the
            # signal.
            signal.signal(signal.SIGTERM, reports.cancel)
            arguments = {**arguments, "ctx": _context(order, reports)}
        result = function.call(**arguments)
        if inspect.iscoroutine(result):
            import asyncio  # its import takes a third of the start of this process

            result = asyncio.run(result)
    except BaseException as error:
        return raised(error, _complain)
    return returned(order.function, result, _complain)


def _complain(stream: str, text: str) -> None:
    with contextlib.suppress(Exception):  # the function may have closed standard error
        sys.stderr.write(text)


def _context(order: Order, reports: ChildReports) -> Context:
    return Context(
        job_id=order.job_id,
        run_id=order.run_id,
        attempt=order.attempt,
        fencing_token=order.token,
        fire_time=instant.to_datetime(order.fire_time),
        parameters=order.parameters,
        say_progress=reports.progress,
        say_log=reports.log,
        ask_cancelled=lambda: reports.cancelled,
    )


def main() -> None:
    channel = MessageChannel()
    os.environ.pop("PYTHONPATH", None)
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    channel.send(ChildMessage(outcome=call(order, ChildReports(channel))))


if __name__ == "__main__":
    main()
