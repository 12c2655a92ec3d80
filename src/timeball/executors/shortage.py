"""What an executor does when this machine ran short of something."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from timeball.ports.executor import OutOfResources
from timeball.resource_shortage import is_shortage


@contextmanager
def beginning() -> Iterator[None]:
    """Around what has to be there before an attempt begins."""
    try:
        yield
    except (OSError, MemoryError, RuntimeError, ImportError) as error:
        if is_shortage(error):
            raise OutOfResources(str(error) or type(error).__name__) from error
        raise
