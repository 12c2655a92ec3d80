"""Starts jobs with a fork. The new process does little before it executes the program, because every memory page that
it changes is copied first.

No third-party package is imported here, because the guard process uses this module.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import signal
from collections.abc import Sequence
from typing import Any, NoReturn

from timeball.executors.guard.confiner import PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG, Confiner, prctl
from timeball.executors.guard.process_table import find
from timeball.executors.sandbox import cgroups

SCRIPTS_FOLDER = 100
"""The descriptor of the scripts folder in a job whose user cannot access the folder by its path."""


def fork(
    message: dict[str, Any],
    descriptors: Sequence[int],
    *,
    groups: Sequence[str],
    confiner: Confiner,
    max_descriptors: int | None,
) -> tuple[int, int]:
    """Fork a process that becomes a job. Return its process id, and the pipe that reports an error of the start, or
    closes when the program was executed.
    """
    if len(descriptors) < message["descriptors"]:
        raise OSError(errno.EMFILE, "descriptors were lost on their way")
    guard = os.getpid()
    errors, errors_w = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        os.close(errors)
        os.close(errors_w)
        raise
    if pid == 0:
        become(
            message,
            descriptors,
            errors_w,
            guard=guard,
            groups=groups,
            confiner=confiner,
            max_descriptors=max_descriptors,
        )
    os.close(errors_w)
    return pid, errors


def become(
    message: dict[str, Any],
    descriptors: Sequence[int],
    errors: int,
    *,
    guard: int,
    groups: Sequence[str],
    confiner: Confiner,
    max_descriptors: int | None,
) -> NoReturn:
    """Execute the program of the job, or write the step that failed to `errors`. `guard` is the process id of the
    guard, and `groups` are the control groups to enter.
    """
    step = "prepare"
    try:
        os.setsid()
        # Descendants of a job that detach themselves become children of its main process. So the job of each is known,
        # and processes that become children of the guard come from ended jobs.
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:
            os._exit(127)
        for group in groups:
            cgroups.enter(group)
        # Move the descriptors out of the range that starts at 0 before they get their final numbers.
        lowest = SCRIPTS_FOLDER + 1 if message["script"] else len(descriptors)
        errors = fcntl.fcntl(errors, fcntl.F_DUPFD_CLOEXEC, lowest)
        in_own_thread = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, lowest) for each in descriptors]
        for place, descriptor in enumerate(in_own_thread):
            os.dup2(descriptor, place, inheritable=True)
        argv, script = message["argv"], message["script"]
        scripts = os.open(message["scripts"], os.O_PATH | os.O_DIRECTORY) if script else -1
        step = "confine"
        confiner.confine()
        if os.getppid() != guard:
            os._exit(127)
        if script:
            step = "script"
            argv = reach(script, message["scripts"], scripts, argv)
        step = "folder"
        os.chdir(message["cwd"])
        step = "program"
        if max_descriptors is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (max_descriptors, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        program = find(argv[0], message["env"].get("PATH", os.defpath))
        os.execve(program, argv, message["env"])
    except OSError as error:
        os.write(errors, f"{step} {error.errno or errno.EIO}".encode())
    except BaseException:
        os.write(errors, f"{step} {errno.EINVAL}".encode())
    os._exit(127)


def reach(script: str, folder: str, opened: int, argv: list[str]) -> list[str]:
    """Return the command with a path by which this user can read the script: if necessary through the descriptor of its
    folder.
    """
    if os.access(script, os.R_OK):
        return argv
    way = f"/proc/{os.getpid()}/fd/{SCRIPTS_FOLDER}/{os.path.relpath(script, folder)}"
    os.dup2(opened, SCRIPTS_FOLDER, inheritable=True)
    if not os.access(way, os.R_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return [way if word == script else word for word in argv]
