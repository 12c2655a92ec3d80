"""How process jobs are confined: which files and processes of Timeball they cannot access, and which user
they run as.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from timeball.executors.sandbox import job_domain
from timeball.job_user import JobUser


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    landlock: bool = False
    """True: each job runs in a Landlock domain of its own."""
    no_new_privs: bool = True
    """True: no program gives a job more privileges than its user has."""
    signals: bool = False
    """True: a job in a Landlock domain may send signals to processes outside of its job."""
    protected: Sequence[str] = ()
    """Files and folders that jobs cannot access."""
    readable: Sequence[str] = ()
    """Folders that jobs may read although they are in protected folders."""
    cgroups: bool = False
    """True: jobs are in control groups, if the system allows the worker to create some."""
    user: JobUser | None = None
    """The user that jobs run as; None: that of the worker."""

    def settings(self) -> dict[str, Any]:
        """Return the arguments of the guard's `Confiner`."""
        user = self.user
        return {
            "use_landlock": self.landlock,
            "no_new_privs": self.no_new_privs,
            "signals": self.signals,
            "protected": list(self.protected),
            "readable": list(self.readable),
            "user": None if user is None else (user.uid, user.gid, list(user.groups)),
        }

    def closed_folders(self) -> list[str]:
        """Return the folders in which a job cannot create entries only because they contain a protected path."""
        if not self.landlock:
            return []
        hidden = job_domain.hidden_entries(self.protected)
        carved = {folder for entry in hidden for folder in job_domain.ancestors(entry)}
        outside = {folder for folder in carved if not any(job_domain.is_within(folder, entry) for entry in hidden)}
        return sorted(folder for folder in outside if self._may_write(folder))

    def _may_write(self, folder: str) -> bool:
        try:
            if self.user is None:
                return os.access(folder, os.W_OK | os.X_OK)
            return self.user.may(os.stat(folder), os.W_OK | os.X_OK)
        except OSError:
            return False
