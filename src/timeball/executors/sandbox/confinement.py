"""What is kept from process jobs: Timeball's own files and processes, and the user that the worker runs as."""

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
    """Each job runs in a Landlock domain of its own."""
    no_new_privs: bool = True
    """No program gives a job more privileges than its user has."""
    signals: bool = False
    """A job in a domain may send signals to processes outside of its job."""
    protected: Sequence[str] = ()
    """Files and folders that are not granted to the domain."""
    readable: Sequence[str] = ()
    """Folders inside of these that may be read."""
    cgroups: bool = False
    """Jobs are in control groups, as far as the system lets the worker make some."""
    user: JobUser | None = None
    """None: the worker's own."""

    def settings(self) -> dict[str, Any]:
        """The arguments of the guard's `Confiner`."""
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
        """Folders in which a job could make entries, were they not on the way to a protected path."""
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
