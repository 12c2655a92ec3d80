"""The guard's end of its socket to the worker. Messages are JSON, each after its length in four bytes.

No third-party package is imported here, because the guard process uses this module.
"""

from __future__ import annotations

import array
import json
import os
import socket
import struct
from collections import deque
from typing import Any

MAX_DESCRIPTORS = 64


class Link:
    def __init__(self, worker: socket.socket) -> None:
        self._worker = worker
        self._incoming = bytearray()
        self._descriptors: list[list[int]] = []
        """Received descriptors: one list for each message that came with some and was not returned yet."""
        self._outgoing = bytearray()
        self.inbox: deque[tuple[dict[str, Any], list[int]]] = deque()
        """Messages of the worker, each with its descriptors."""
        self.is_open = True

    def fileno(self) -> int:
        return self._worker.fileno()

    @property
    def has_unsent(self) -> bool:
        return bool(self._outgoing)

    def receive(self) -> None:
        """Put what the worker sent into the inbox. `is_open` becomes False when the worker is gone."""
        room = socket.CMSG_SPACE(MAX_DESCRIPTORS * array.array("i").itemsize)
        flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
        try:
            data, ancillary, truncated, _ = self._worker.recvmsg(1 << 16, room, flags)
        except BlockingIOError:
            return
        except OSError:
            self.is_open = False
            return
        came: list[int] = []
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                received = array.array("i")
                received.frombytes(content[: len(content) - len(content) % received.itemsize])
                if not flags:
                    for descriptor in received:
                        os.set_inheritable(descriptor, False)
                came.extend(received)
        # One call returns the descriptors of one message, and fewer if this process cannot open more.
        if came or truncated & socket.MSG_CTRUNC:
            self._descriptors.append(came)
        self.is_open = bool(data)
        self._incoming += data
        while len(self._incoming) >= 4:
            (length,) = struct.unpack_from("!I", self._incoming)
            if len(self._incoming) < 4 + length:
                break
            message = json.loads(self._incoming[4 : 4 + length])
            del self._incoming[: 4 + length]
            self.inbox.append((message, self._descriptors.pop(0) if message.get("descriptors") else []))

    def send(self, **message: Any) -> None:
        content = json.dumps(message).encode()
        self._outgoing += struct.pack("!I", len(content)) + content
        self.flush()

    def flush(self) -> None:
        try:
            sent = self._worker.send(self._outgoing)
            del self._outgoing[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self._outgoing.clear()
