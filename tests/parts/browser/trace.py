"""Traces of Chromium: how long the tasks of a page kept its thread busy."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

CATEGORIES = ["toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline"]


class Trace:
    """What the main threads of all tabs did."""

    def __init__(self) -> None:
        self.tasks: list[float] = []
        """Milliseconds of CPU of each task. Time in which the thread had no core is not in it."""

    @property
    def longest(self) -> float:
        return max(self.tasks, default=0.0)

    def read(self, buffer: bytes) -> None:
        events = json.loads(buffer)["traceEvents"]
        names = {
            (event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"
        }
        main = [event for event in events if names.get((event["pid"], event["tid"])) == "CrRendererMain"]
        self.tasks += [event["tdur"] / 1000 for event in main if event["name"] == "RunTask" and "tdur" in event]


@contextlib.contextmanager
def tracing(context: Any, page: Any) -> Iterator[Trace]:
    """Trace until the end of the block; the trace can be read after it."""
    trace = Trace()
    context.browser.start_tracing(page=page, categories=CATEGORIES)
    try:
        yield trace
    finally:
        trace.read(context.browser.stop_tracing())


def heap_size(context: Any, page: Any) -> int:
    """Bytes of objects that are in use, after garbage was collected."""
    session = context.new_cdp_session(page)
    try:
        session.send("HeapProfiler.collectGarbage")
        return int(session.send("Runtime.getHeapUsage")["usedSize"])
    finally:
        session.detach()
