"""The page `docs/reference/errors.md`: every error code with its status, its meaning and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from timeball import config
from timeball.api import app, problems
from timeball.cli.output import failures
from timeball.domain.errors import TimeballError

assert app.ROUTES, "importing the API and the settings defines every class of error"
assert config.SETTINGS


class Explained(NamedTuple):
    meaning: str
    remedy: str


SESSION_LOST: Final = "session_lost"
INTERNAL: Final = "internal"

EXPLAINED: Final[dict[str, Explained]] = {
    "malformed": Explained(
        "The body is not JSON, a header is repeated, or the request cannot be parsed.",
        "Correct the request. `detail` names the position. The same request fails again.",
    ),
    "unauthorized": Explained(
        "The request has no key, or a key that is unknown or revoked.",
        "Send `Authorization: Bearer KEY`. The first key is in `admin.key`, in the server's data folder.",
    ),
    "cross_site": Explained(
        "A page of another site sent the request with the cookie of a session, or a header that browsers send is"
        " missing.",
        "Use the web UI at the server's own address. Other clients send an API key instead of the cookie.",
    ),
    "quota_exceeded": Explained(
        "The tenant has used up its [quota](../howto/tenants.md#quotas) of jobs. `detail` names it.",
        "Cancel jobs that are not needed, or ask an operator of the installation for a higher quota.",
    ),
    "sign_in_refused": Explained(
        "Browsers cannot sign in at this address: it is not the server's own, or cookies would be sent over HTTP.",
        "Use the address in `detail`, or set [`--public-url`](../howto/web.md).",
    ),
    "forbidden": Explained(
        "The key is valid and does not have the permission of the route.",
        "Use a key with that role: `timeball keys create --role admin`. Worker keys are valid for the worker protocol"
        " only.",
    ),
    "not_found": Explained(
        "The path, job, run, task, calendar, workflow, backfill or key does not exist, or belongs to another tenant.",
        "Check the id. A finished run may have left the database by its [retention](../howto/retention.md).",
    ),
    "method_not_allowed": Explained(
        "The path exists, the method does not.", "Use a method of the `Allow` header in the answer."
    ),
    "conflict": Explained(
        "The state of the job or run does not allow the request: a run that has ended is cancelled, a calendar that"
        " jobs use is deleted.",
        "Read the job or run again. `detail` names the state and what is possible.",
    ),
    SESSION_LOST: Explained(
        "The lease of a worker's session has lapsed, or the server does not know the session.",
        "Nothing: a worker registers again by itself, and stops the attempts of the old session.",
    ),
    "precondition_failed": Explained(
        "`If-Match` names a version that is not the current one: another request made a change.",
        "Read it again, apply the change to the new version, and send its `ETag`.",
    ),
    "too_large": Explained(
        "A body, a batch or a value exceeds its limit.",
        "Split the batch, or pass a reference instead of the value. The limits are in"
        " [what one request can cost](../howto/fleet.md#what-one-request-can-cost).",
    ),
    "unsupported_encoding": Explained("The body is compressed.", "Send it without `Content-Encoding`."),
    "invalid": Explained(
        "One or more values are wrong. Nothing was changed.",
        "Correct the values. `errors` has a JSON pointer and a sentence for each.",
    ),
    "invalid_schedule": Explained(
        "A cron expression, interval, date or time zone is wrong.",
        "Try the expression with `timeball next` or `POST /v1/schedules:preview`.",
    ),
    "idempotency_mismatch": Explained(
        "The idempotency key was used for a request with another body.",
        "Use a new key for a new request, and the same body for a repeated one.",
    ),
    "daily_quota_exceeded": Explained(
        "The tenant has used up its [quota](../howto/tenants.md#quotas) of runs for this day, in UTC.",
        "Wait until midnight, UTC: `Retry-After` has the seconds. Or ask an operator for a higher quota.",
    ),
    "rate_limited": Explained(
        "The key or its tenant sends more requests than its [limit](../howto/tenants.md#rates-of-requests) allows.",
        "Wait for the seconds of `Retry-After`, and send it again. `RateLimit` in every answer says how many requests"
        " are left.",
    ),
    "too_many_requests": Explained("A limit was reached.", "Wait for the seconds of `Retry-After`, and send it again."),
    "unavailable": Explained(
        "The store, the object storage or the server cannot do this now: it does not answer, takes too long, is"
        " stopping, or lacks memory, descriptors or disk space. Nothing was accepted, except if the connection to the"
        " database broke during the commit: then it is unknown.",
        "Wait for the seconds of `Retry-After`, and send the request again with the same idempotency key. `/readyz` and"
        " the log name the cause.",
    ),
    "not_ready": Explained(
        "`/readyz`: the server starts or stops, or a check fails. `checks` names it.",
        "Send requests to another server. [Is it ready?](../howto/fleet.md#is-it-ready) lists the checks.",
    ),
    INTERNAL: Explained(
        "A defect of the server.",
        "Search the server's log for the `incident` of the answer, and report it with the lines around it.",
    ),
    "invalid_setting": Explained(
        "A flag, an environment variable or a key of `timeball.toml` is wrong. The command does not start.",
        "Correct the value. The message names its source; [settings](settings.md) lists what is accepted.",
    ),
    "clock_refused": Explained(
        "The wall clock is too far from the store's time to start.",
        "Correct the clock, or start once with `--accept-clock`: [clocks that step](../howto/clock.md).",
    ),
}

INTRODUCTION: Final = """\
<!-- Generated from src/timeball/domain/errors.py and src/timeball/api/problems.py by `make reference`. -->
# Errors

The API answers an error with `application/problem+json` (RFC 9457). `code` is stable: decide by it, not by `title`
or `detail`, whose words may change.

```json
{"type": "/docs#problem-invalid", "title": "A value is wrong", "status": 422, "code": "invalid",
 "detail": "'shel' is not one of http, shell, script, python; did you mean 'shell'?",
 "errors": [{"pointer": "/task/kind",
             "detail": "'shel' is not one of http, shell, script, python; did you mean 'shell'?"}]}
```

A request that changes something can be sent again after 429, 500 and 503, and after a lost connection, if it
carries an `Idempotency-Key`: the server executes it once. The states of runs and jobs are on the page
[states](../design/states.md).

## Codes

| code | status | meaning | what to do |
|---|---|---|---|
"""


def codes() -> dict[str, int | None]:
    """Every error code, with the status of the answer; None: the code is of a command, not of an answer."""
    found: dict[str, int | None] = {}
    for kind, (status, _) in problems.STATUSES.items():
        code = kind.code if issubclass(kind, TimeballError) else SESSION_LOST
        found[code] = status
    found[INTERNAL] = problems.UNEXPECTED[0]
    for error in _descendants(TimeballError):
        if error.__module__.startswith("timeball."):
            status = next((problems.STATUSES[each][0] for each in error.__mro__ if each in problems.STATUSES), None)
            found.setdefault(error.code, status)
    found.pop(TimeballError.code, None)
    return dict(sorted(found.items(), key=lambda item: (item[1] or 999, item[0])))


def _descendants(kind: type[TimeballError]) -> Iterator[type[TimeballError]]:
    for each in kind.__subclasses__():
        yield each
        yield from _descendants(each)


def page() -> str:
    rows = [
        f"| `{code}` | {status or 'none: a command'} | {EXPLAINED[code].meaning} | {EXPLAINED[code].remedy} |\n"
        for code, status in codes().items()
    ]
    lines = re.findall(r"^ +(\d+)  (.+(?:\n {7}.+)*)$", failures.EXIT_CODES, re.MULTILINE)
    exits = "".join(f"| {number} | {' '.join(text.split())} |\n" for number, text in lines)
    return f"{INTRODUCTION}{''.join(rows)}\n## Exit codes\n\n| exit code | meaning |\n|---|---|\n{exits}"
