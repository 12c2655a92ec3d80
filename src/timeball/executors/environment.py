"""What a job process knows: a clean environment, and what it is executed for."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import Final

import msgspec

from timeball.domain import instant
from timeball.job_user import JobUser
from timeball.ports.executor import Attempt

INHERITED: Final = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MAX_PARAMETERS: Final = 100 * 1024
"""Bytes of parameters that go into the environment; Linux takes at most 128 KiB per entry."""


def environment_of(attempt: Attempt, extra: Mapping[str, str], user: JobUser | None = None) -> dict[str, str]:
    """Nothing of the worker's but the basics; the task's own entries win, except over `TIMEBALL_…`."""
    env = {"PATH": DEFAULT_PATH}
    env.update((name, os.environ[name]) for name in INHERITED if name in os.environ)
    if user is not None:
        env.update(HOME=user.home, USER=user.name, LOGNAME=user.name, SHELL=user.shell)
    env.update(extra)
    env["TIMEBALL_JOB_ID"] = attempt.job_id
    env["TIMEBALL_RUN_ID"] = attempt.run_id
    env["TIMEBALL_ATTEMPT"] = str(attempt.attempt)
    env["TIMEBALL_FENCING_TOKEN"] = str(attempt.token)
    env["TIMEBALL_FIRE_TIME"] = instant.render(attempt.fire_time)
    env["TRACEPARENT"] = traceparent(attempt)
    env["TIMEBALL_PROCESS"] = f"{attempt.run_id}/{attempt.token}"
    parameters = encoded_parameters(attempt)
    if len(parameters) <= MAX_PARAMETERS:
        env["TIMEBALL_PARAMETERS"] = parameters.decode()
    else:
        env.pop("TIMEBALL_PARAMETERS", None)
        attempt.log(
            "system", f"TIMEBALL_PARAMETERS is not set: {len(parameters)} bytes are too many for the environment\n"
        )
    return env


def mark_of(env: Mapping[str, str]) -> str:
    """The entry by which the guard knows a job's processes, wherever they went: no two attempts share it."""
    return f"TIMEBALL_PROCESS={env['TIMEBALL_PROCESS']}"


def encoded_parameters(attempt: Attempt) -> bytes:
    return msgspec.json.encode(attempt.spec.parameters)


def traceparent(attempt: Attempt) -> str:
    """W3C trace context: one trace for a run, one span for each attempt, the same wherever it is computed."""
    trace = hashlib.sha256(attempt.run_id.encode()).hexdigest()[:32]
    span = hashlib.sha256(f"{attempt.run_id}/{attempt.attempt}".encode()).hexdigest()[:16]
    return f"00-{trace}-{span}-01"
