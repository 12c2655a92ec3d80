"""Decides how a worker keeps its process jobs from files and privileges that they must not have, and logs a warning
about each of these protections that is missing.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import structlog

from timeball.config import InvalidSetting, WorkerRoleConfig
from timeball.executors.sandbox import landlock
from timeball.executors.sandbox.confinement import Confinement
from timeball.executors.sandbox.job_domain import is_within
from timeball.job_user import JobUser

_log = structlog.get_logger()


def confine(config: WorkerRoleConfig) -> Confinement:
    """Return the confinement that the settings ask for, as far as the kernel supports it."""
    confinement = Confinement(
        landlock=config.job_landlock and landlock.abi() > 0,
        no_new_privs=config.no_new_privs,
        signals=config.job_signals,
        cgroups=config.job_cgroups,
        protected=[str(path) for path in config.protected],
        readable=[str(config.scripts_dir)],
        user=config.job_user,
    )
    if confinement.landlock:
        _check_temporary_folder(config)
    if config.job_user is not None:
        _open_scripts(config, config.job_user)
    if not confinement.landlock and confinement.user is None:
        _log.warning(_what_jobs_can_read(config))
    if not confinement.no_new_privs:
        _log.warning(_what_jobs_can_become())
    closed = confinement.closed_folders()
    if closed:
        _log.info(
            "jobs cannot create, remove or rename entries directly in these folders, because they contain files of"
            " Timeball; a --data-dir elsewhere changes that",
            folders=" ".join(closed),
        )
    return confinement


def _check_temporary_folder(config: WorkerRoleConfig) -> None:
    """Raise `InvalidSetting` if the folder for temporary files is one that jobs must not read, because each job works
    in a folder there."""
    temporary = Path(tempfile.gettempdir()).resolve()
    for path in config.protected:
        if temporary.is_relative_to(path.resolve()):
            raise InvalidSetting(
                f"the folder for temporary files {temporary}, in which jobs work, is inside {path}, which jobs must not"
                " read: name another folder with TMPDIR or --data-dir"
            )


def _what_jobs_can_read(config: WorkerRoleConfig) -> str:
    """Return a warning about what jobs can read if they run as the worker's own user, without a Landlock domain."""
    why = "this kernel has no Landlock (ABI 2 or later)" if config.job_landlock else "job_landlock is off"
    if os.geteuid() == 0:
        return (
            f"shell and script jobs can read everything on this machine, the keys of Timeball included: {why},"
            " and they run as root; set --job-user"
        )
    files = ", ".join(str(path) for path in config.protected if path.exists())
    return (
        f"shell and script jobs can read the key files and the data of Timeball ({files}): {why}, and they run as the"
        " worker's own user; its memory, environment, arguments and descriptors stay closed to them"
    )


def _what_jobs_can_become() -> str:
    """Return a warning about the privileges that jobs can gain with programs such as sudo."""
    may = "process jobs may gain privileges, as by sudo (no_new_privs is off)"
    if os.geteuid() == 0:
        return f"{may}: they can become any user that the rules of such programs allow"
    return (
        f"{may}: this worker is not root, so it cannot kill processes of another user. Such a process may outlive its"
        " job, its timeout and this worker, and run beside a second attempt"
    )


def _open_scripts(config: WorkerRoleConfig, user: JobUser) -> None:
    """Give the user of jobs read access to the scripts folder, if it is inside Timeball's own folders. The folders
    above it stay closed.
    """
    folder = config.scripts_dir
    status = folder.stat()
    is_own = any(is_within(str(folder), str(path)) for path in config.protected)
    if is_own and status.st_uid == os.geteuid() and not user.may(status, os.R_OK | os.X_OK):
        os.chown(folder, -1, user.gid)
        folder.chmod(status.st_mode & 0o7777 | 0o050)
