"""Which errors say that this machine ran short of something, not that a job or a request did something wrong."""

from __future__ import annotations

import errno
import os
import socket
from typing import Final

SHORTAGES: Final = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.ENOBUFS}
)


def is_shortage(error: BaseException) -> bool:
    match error:
        case socket.gaierror():  # which has numbers of its own
            if error.errno == socket.EAI_AGAIN:  # the resolver says so also when it could open no socket
                return not _can_open()
            return error.errno in (socket.EAI_MEMORY, socket.EAI_SYSTEM)
        case OSError():
            return error.errno in SHORTAGES
        case MemoryError():
            return True
        case ImportError():  # of a library: its loader gives the reason in words only
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
