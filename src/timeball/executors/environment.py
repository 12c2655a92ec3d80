"""The environment of a job process: a few basic variables of the worker, those of the task, and the identity of the
attempt.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

import msgspec

from timeball.domain import instant
from timeball.domain.run.trace import context_without_trace
from timeball.job_user import JobUser
from timeball.ports.executor import ExecutorAttempt

INHERITED: Final = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MAX_PARAMETERS: Final = 100 * 1024
"""Maximum number of bytes of parameters that are put into the environment. Linux accepts at most 128 KiB per entry."""


def environment_of(attempt: ExecutorAttempt, extra: Mapping[str, str], user: JobUser | None = None) -> dict[str, str]:
    """Return the environment of a job process. Of the worker's variables it has only the basic ones. The entries of the
    task replace these, but not the identity of the attempt (`TIMEBALL_…`, `TRACEPARENT`).
    """
    env = basic_variables(user)
    env.update(extra)
    env.pop("TIMEBALL_PARAMETERS", None)
    env.update(attempt_variables(attempt))
    return env


def basic_variables(user: JobUser | None) -> dict[str, str]:
    """Return the variables that all job processes of a worker have."""
    env = {"PATH": DEFAULT_PATH}
    env.update((name, os.environ[name]) for name in INHERITED if name in os.environ)
    if user is not None:
        env.update(HOME=user.home, USER=user.name, LOGNAME=user.name, SHELL=user.shell)
    return env


def attempt_variables(attempt: ExecutorAttempt) -> dict[str, str]:
    """Return the variables with the identity and the parameters of an attempt."""
    env = {
        "TIMEBALL_JOB_ID": attempt.job_id,
        "TIMEBALL_RUN_ID": attempt.run_id,
        "TIMEBALL_ATTEMPT": str(attempt.attempt),
        "TIMEBALL_FENCING_TOKEN": str(attempt.token),
        "TIMEBALL_FIRE_TIME": instant.render(attempt.fire_time),
        "TRACEPARENT": traceparent(attempt),
        "TIMEBALL_PROCESS": f"{attempt.run_id}/{attempt.token}",
    }
    parameters = encoded_parameters(attempt)
    if len(parameters) <= MAX_PARAMETERS:
        env["TIMEBALL_PARAMETERS"] = parameters.decode()
    else:
        attempt.log(
            "system", f"TIMEBALL_PARAMETERS is not set: {len(parameters)} bytes are too large for the environment\n"
        )
    return env


def mark_of(env: Mapping[str, str]) -> str:
    """Return the environment entry by which the guard finds all processes of an attempt. It is unique to
    the attempt.
    """
    return f"TIMEBALL_PROCESS={env['TIMEBALL_PROCESS']}"


def encoded_parameters(attempt: ExecutorAttempt) -> bytes:
    return msgspec.json.encode(attempt.spec.parameters)


def traceparent(attempt: ExecutorAttempt) -> str:
    """Return the W3C trace context for the job. If the run is in no trace, that is one trace for the run, and one span
    for each attempt.
    """
    return attempt.traceparent or context_without_trace(attempt.run_id, attempt.attempt).render()
