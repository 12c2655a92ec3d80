"""Error messages, and the exit codes that report them to scripts."""

from __future__ import annotations

from typing import Final

import click

from timeball.domain import errors
from timeball.domain.errors import Invalid, TimeballError

RUN_FAILED: Final = 1
LIMIT: Final = 7
OTHER: Final = 8
CONFIGURATION: Final = 78
"""`EX_CONFIG` of sysexits: if a supervisor restarts the command unchanged, it fails in the same way."""
TIMED_OUT: Final = 124
INTERRUPTED: Final = 130

_CODES: Final[dict[str, int]] = {
    Invalid.code: 2,
    errors.InvalidSchedule.code: 2,
    "invalid_setting": 2,
    errors.Unavailable.code: 3,
    errors.NotFound.code: 4,
    errors.Unauthorized.code: 5,
    errors.Forbidden.code: 5,
    errors.Conflict.code: 6,
    errors.PreconditionFailed.code: 6,
    errors.IdempotencyMismatch.code: 6,
    errors.TooLarge.code: LIMIT,
    errors.TooManyRequests.code: LIMIT,
    errors.RateLimited.code: LIMIT,
    errors.QuotaExceeded.code: LIMIT,
    errors.DailyQuotaExceeded.code: LIMIT,
    "clock_refused": CONFIGURATION,
}

EXIT_CODES: Final = """\
\b
Exit codes:
    0  success
    1  a run did not succeed, the ledger does not add up, an entry of the audit log was changed, not all jobs could be
       applied, a schema has to be upgraded, or the doctor found a problem
    2  wrong usage, or an invalid value
    3  the server cannot be reached, or is not available at the moment
    4  the job, run, task or key does not exist
    5  the API key is missing, unknown, or without the permission
    6  the current state does not allow the request
    7  a limit was reached
    8  any other error
   78  the wall clock is too far from the store's time to start
  124  timeout while waiting for a run
  130  interrupted
"""


def exit_code(error: TimeballError) -> int:
    return _CODES.get(error.code, OTHER)


def tell(error: TimeballError) -> None:
    """Print an error on stderr: one sentence, and a line for each further invalid value."""
    problems = error.problems if isinstance(error, Invalid) else ()
    is_same = len(problems) == 1 and problems[0].detail == error.detail
    pointer = problems[0].pointer if is_same else ""
    say(f"{error.detail} (at {pointer})" if pointer else error.detail)
    if not is_same:
        for problem in problems:
            click.echo(f"  {problem.pointer or '/'}: {printable(problem.detail)}", err=True)
    if isinstance(error, errors.Unauthorized):
        click.echo(
            "  Give a file with an API key: --token-file or TIMEBALL_TOKEN_FILE. The first key is in admin.key, in the"
            " data folder of the server.",
            err=True,
        )


def say(sentence: str) -> None:
    click.secho("Error: ", fg="red", bold=True, nl=False, err=True)
    click.secho(printable(sentence), fg="red", err=True)


def printable(text: str) -> str:
    """Replace control characters, so that text from a server or a file cannot control the terminal."""
    return "".join(character if character.isprintable() or character == "\n" else "\ufffd" for character in text)


def failure_text(kind: str, message: str) -> str:
    """Return the error of an attempt: `exit code 3`, `timeout: no result within 30 s`."""
    return message if message.startswith(kind) else f"{kind}: {message}"
