"""Recognises errors that mean a shortage of resources on this machine, not an error of a job or a request."""

from __future__ import annotations

import errno
import os
import socket
from typing import Final

SHORTAGES: Final = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.ENOBUFS}
)


def is_shortage(error: BaseException) -> bool:
    """Return True if descriptors, memory, disk space, buffers or threads ran out."""
    match error:
        case socket.gaierror():  # it has its own error numbers
            if error.errno == socket.EAI_AGAIN:  # also the answer of a resolver that could not open a socket
                return not _can_open()
            return error.errno in (socket.EAI_MEMORY, socket.EAI_SYSTEM)
        case OSError():
            return error.errno in SHORTAGES
        case MemoryError():
            return True
        case ImportError():  # from a shared library, whose loader gives the reason only as text
            return any(os.strerror(number) in str(error) for number in (errno.EMFILE, errno.ENFILE, errno.ENOMEM))
        case RuntimeError():
            return "can't start new thread" in str(error)
        case _:
            return False


def _can_open() -> bool:
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return False
    return True
