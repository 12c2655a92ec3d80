"""Detects that this machine lacks a resource, such as memory or file descriptors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from timeball.ports.executor import OutOfResources
from timeball.resource_shortage import is_shortage


@contextmanager
def beginning() -> Iterator[None]:
    """Wraps the code that runs before an attempt begins. An error that shows a lack of resources becomes
    `OutOfResources`, which returns the run to the queue.
    """
    try:
        yield
    except (OSError, MemoryError, RuntimeError, ImportError) as error:
        if is_shortage(error):
            raise OutOfResources(str(error) or type(error).__name__) from error
        raise
