"""The operating system user that executes process jobs, if it is not the user of the worker."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUser:
    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str

    def may(self, status: os.stat_result, wanted: int) -> bool:
        """Return True if the mode of a file grants this user the wanted access, a combination of `os.R_OK`, `os.W_OK`
        and `os.X_OK`.
        """
        if self.uid == 0:
            return True
        shift = 6 if status.st_uid == self.uid else 3 if status.st_gid in (self.gid, *self.groups) else 0
        return (status.st_mode >> shift) & wanted == wanted


def find(name: str) -> JobUser:
    """Return the user with this name. Raise `ValueError`, with advice, if there is no such user or if this process may
    not start processes as that user.
    """
    import pwd  # imported here, because only a worker with a job user needs it

    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise ValueError("there is no such user on this machine; create it, or name another one") from None
    if os.geteuid() != 0:
        raise ValueError(
            "only a worker that runs as root can run jobs as another user; start it as root, or leave the setting out"
        )
    if found.pw_uid == 0:
        raise ValueError("that is the worker's own user; name one without privileges")
    groups = os.getgrouplist(name, found.pw_gid)
    return JobUser(
        name=name,
        uid=found.pw_uid,
        gid=found.pw_gid,
        groups=tuple(groups),
        home=found.pw_dir,
        shell=found.pw_shell or "/bin/sh",
    )
