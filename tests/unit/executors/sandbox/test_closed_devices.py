"""No job can open devices that lead to memory, disks or other users' screens (I31)."""

import os
import stat
from typing import cast

import pytest

from timeball.executors.sandbox.job_domain import is_closed_device


class Device:
    def __init__(self, name: str, kind: int = stat.S_IFCHR) -> None:
        self.name = name
        self._mode = kind | 0o600

    def stat(self, *, follow_symlinks: bool) -> os.stat_result:
        return os.stat_result((self._mode, *[0] * 9))


@pytest.mark.parametrize("name", ["vcs", "vcs1", "vcsa", "vcsa63", "vcsu", "vcsu2", "snapshot"])
def test_screens_and_the_image_of_a_suspended_machine_are_closed(name: str) -> None:
    assert is_closed_device(cast(os.DirEntry[str], Device(name)))


@pytest.mark.parametrize("name", ["null", "tty1", "ptmx", "memory", "urandom"])
def test_ordinary_devices_are_open(name: str) -> None:
    assert not is_closed_device(cast(os.DirEntry[str], Device(name)))
