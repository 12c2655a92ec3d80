"""`timeball …` on a terminal of its own."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.support.processes import KEY, private_folder


class Terminal:
    """A command whose output is a pseudo-terminal. The command ends with the block."""

    def __init__(self, folder: Path, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        home = private_folder(folder) / "home"
        home.mkdir(parents=True, exist_ok=True)
        self._main, side = pty.openpty()
        self._printed: list[bytes] = []
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "timeball", *arguments],
            env={**os.environ, "HOME": str(home), "TIMEBALL_ADMIN_KEY": KEY, "COLUMNS": "300", **(environment or {})},
            stdin=side,
            stdout=side,
            stderr=side,
            start_new_session=True,
        )
        os.close(side)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.popen.poll() is None:
            self.popen.terminate()
        self.wait()

    @property
    def output(self) -> str:
        return b"".join(self._printed).decode().replace("\r\n", "\n")

    def wait(self) -> int:
        code = self.popen.wait(60)
        self._reader.join(60)
        return code

    def _read(self) -> None:
        try:
            while piece := os.read(self._main, 65_536):
                self._printed.append(piece)
        except OSError:  # the last process on the terminal has ended
            pass
        finally:
            os.close(self._main)
