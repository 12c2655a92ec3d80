"""Options that define a job, for `jobs create` and `jobs update`, and a task, for `tasks set`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from timeball.cli.options.order_options import NONE, is_given, order_fields, order_options, removed_fields, whole
from timeball.cli.output import times
from timeball.domain.errors import Invalid
from timeball.domain.task.kinds import MAIN_FIELDS, OFFERED, TaskKind

if TYPE_CHECKING:
    from timeball.client.models.job import Job

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Rule:
    """A field of a job that has one option: the option, the parser of its value, and its line in `jobs show`. The value
    `none` removes the field."""

    name: str
    """Name of the option, and of the field in the client."""
    option: Callable[[Any], Any]
    label: str
    """Label of the line in `jobs show`."""
    read: Callable[[str], Any] = str
    shown: Callable[[Any], Any] = lambda value: value


def _when(text: str) -> str:
    from timeball.system import wall

    return times.when(text, wall())


def _slo(text: str) -> dict[str, Any]:
    share, _, within = text.partition("/")
    try:
        return {"objective": float(share.strip().removesuffix("%")), "startWithin": within}
    except ValueError:
        raise click.UsageError(f"--slo: {text!r} is not an objective; write 99.9/5s") from None


RULES: Final = (
    Rule(
        "start_at",
        click.option("--start-at", metavar="WHEN", help="No fire before this time; --every counts from it."),
        "from",
        read=_when,
    ),
    Rule("end_at", click.option("--end-at", metavar="WHEN", help="No fire after this time."), "to", read=_when),
    Rule(
        "max_runs",
        click.option("--max-runs", metavar="N", help="End the schedule after this many fires."),
        "at most",
        read=lambda text: whole(text, "--max-runs"),
        shown=lambda limit: f"{limit} fires",
    ),
    Rule(
        "jitter",
        click.option("--jitter", metavar="TIME", help="Delay each fire by up to this time."),
        "jitter",
        shown=lambda limit: f"up to {limit}",
    ),
    Rule(
        "start_deadline",
        click.option(
            "--start-deadline", metavar="TIME", help="Skip a run that has not started this long after its fire time."
        ),
        "start within",
    ),
    Rule(
        "result_location",
        click.option(
            "--result-location", metavar="FOLDER", help="Store all results in this folder of the object storage."
        ),
        "results in",
    ),
    Rule(
        "slo",
        click.option("--slo", metavar="PERCENT/TIME", help="Objective for starts: 99.9/5s, 99.9 % within 5 s."),
        "objective",
        read=_slo,
        shown=lambda slo: f"{slo['objective']:g} % start within {slo['startWithin']}",
    ),
)


def rule_lines(job: Job) -> list[tuple[str, Any]]:
    """Return the lines of `jobs show` for the fields of a job that have one option. The value of a line is None if the
    job does not have the field."""
    values = [(rule, getattr(job, rule.name)) for rule in RULES]
    return [(rule.label, rule.shown(value) if value else None) for rule, value in values]


def task_options(command: F) -> F:
    for option in reversed(
        (
            *(option for kind in OFFERED for option in _options_of(kind)),
            click.option(
                "--env",
                multiple=True,
                metavar="NAME=VALUE",
                help="Environment variable for --shell and --script. Repeatable.",
            ),
        )
    ):
        command = option(command)
    return command


def _options_of(kind: TaskKind) -> list[Callable[[F], F]]:
    return [click.option(f"--{kind.name}", metavar=kind.metavar, help=kind.summary), *_MORE_OPTIONS.get(kind.name, ())]


_MORE_OPTIONS: Final[dict[str, tuple[Callable[[F], F], ...]]] = {
    "shell": (click.option("--cwd", metavar="DIR", help="The folder in which --shell starts."),),
    "http": (
        click.option("--method", metavar="METHOD", help="Method of --http: GET, POST, PUT, …"),
        click.option(
            "--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="Header of --http. Repeatable."
        ),
        click.option("--body", metavar="TEXT|@FILE", help="Body of --http; JSON is sent as JSON."),
        click.option("--no-breaker", is_flag=True, help="Ignore the circuit breaker of the --http host."),
    ),
}
"""Further options of each task kind. Most kinds have none, because `--file` accepts every field."""


def job_options(command: F) -> F:
    """Add all options of a job except its name."""
    command = order_options(command)
    for option in reversed(
        (
            click.option("--task-id", metavar="ID", help="Run a task that `tasks set` has registered."),
            click.option(
                "--cron", metavar="EXPR", help="When: a cron expression with 5 fields, or 6 with seconds first."
            ),
            click.option("--every", metavar="TIME", help="When: at this interval, such as 90s, 15m, 1h30m."),
            click.option("--at", metavar="WHEN", help="When: once, at 2026-03-01T02:00:00Z, or 10m from now."),
            click.option(
                "--window",
                metavar="FROM-TO",
                help="When: once a day, at a minute in this range that the server chooses: 01:00-05:00.",
            ),
            click.option(
                "--follow", metavar="JOB", help="When: after each run of another job, given by its name or id."
            ),
            click.option(
                "--on",
                metavar="END",
                help="For --follow: after runs that succeeded, failed or finished (default: succeeded).",
            ),
            click.option(
                "--tz", metavar="ZONE", help="Time zone of --cron or --window, such as Europe/Berlin (default: UTC)."
            ),
            click.option("--param", "params", multiple=True, metavar="NAME=VALUE", help=_PARAM_HELP),
            click.option("--priority", metavar="LEVEL", help="Priority: high, medium, low, or 0 to 9."),
            click.option("--timeout", metavar="TIME", help="Stop an attempt that takes longer than this."),
            click.option(
                "--retries", type=int, metavar="N", help="Maximum number of retries after a failure (default: 3)."
            ),
            click.option("--catch-up", metavar="RULE", help="Missed fires to run after an outage: all, last, none."),
            click.option("--catch-up-window", metavar="TIME", help="How far back --catch-up looks (default: 1h)."),
            *(rule.option for rule in RULES),
            click.option("--tag", "tags", multiple=True, metavar="TAG", help="Repeatable."),
            click.option("--description", metavar="TEXT", help="A description of the job."),
            click.option("--file", "-f", metavar="FILE|-", help="The job as JSON; options override its fields."),
        )
    ):
        command = option(command)
    return task_options(command)


_PARAM_HELP = "A parameter; the value is JSON if it is valid JSON, else text. Repeatable."


def job_body(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON of a job from these options."""
    from timeball.client.job_document import amendment, document
    from timeball.client.models.job import JobOptions
    from timeball.system import wall

    body = read_json(flags["file"]) if flags.get("file") else {}
    options: dict[str, Any] = {
        "name": flags.get("name"),
        "task": task_body(flags),
        "task_id": flags["task_id"],
        "schedule": flags.get("schedule"),
        "cron": flags["cron"],
        "every": flags["every"],
        "at": times.when(flags["at"], wall()) if flags["at"] else None,
        "window": flags["window"],
        "follow": flags["follow"],
        "on": flags["on"],
        "timezone": flags["tz"],
        "parameters": _parameters(flags, body),
        "priority": _level(flags["priority"]),
        "timeout": flags["timeout"] if is_given(flags["timeout"]) else None,
        "max_retries": flags["retries"],
        "catch_up": flags["catch_up"],
        "catch_up_window": flags["catch_up_window"],
        **{rule.name: rule.read(flags[rule.name]) for rule in RULES if is_given(flags[rule.name])},
        **order_fields(flags),
        "tags": flags["tags"] or None,
        "description": flags["description"],
    }
    job = document(cast(JobOptions, options))
    if "task" in job or "taskId" in job:
        body = {name: value for name, value in body.items() if name not in ("task", "taskId")}
    gone = {name: None for name in ("timeout", *(rule.name for rule in RULES)) if flags[name] == NONE}
    return {**body, **job, **amendment(cast(JobOptions, gone)), **removed_fields(flags)}


def _parameters(flags: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any] | None:
    """Merge the parameters of the job that is updated, of the file, and of --param. Later ones override earlier ones.
    None if no --param is given."""
    given = pairs(flags["params"], "--param")
    return {**flags.get("parameters", {}), **body.get("parameters", {}), **given} if given else None


def task_body(flags: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the JSON of a task from these options; None if they define no task."""
    named = [kind for kind in OFFERED if flags[kind.name]]
    if len(named) > 1:
        raise click.UsageError(f"--{named[0].name} and --{named[1].name} both say what to run; give only one of them")
    kind = named[0].name if named else ""
    _only_for(flags, kind, ("http",), ("method", "headers", "body", "no_breaker"))
    _only_for(flags, kind, ("shell", "script"), ("env",))
    _only_for(flags, kind, ("shell",), ("cwd",))
    env = {name: str(value) for name, value in pairs(flags["env"], "--env", as_json=False).items()}
    more: dict[str, Any]
    match kind:
        case "":
            return None
        case "shell":
            more = {"cwd": flags["cwd"], "env": env or None}
        case "http":
            more = {
                "method": flags["method"].upper() if flags["method"] else None,
                "headers": _headers(flags["headers"]) or None,
                "body": _http_body(flags["body"]),
                "breaker": False if flags["no_breaker"] else None,
            }
        case "script":
            more = {"env": env or None}
        case _:
            more = {}
    given = {field: value for field, value in more.items() if value is not None}
    return {"kind": kind, MAIN_FIELDS[kind]: flags[kind], **given}


def pairs(words: Sequence[str], option: str, *, as_json: bool = True) -> dict[str, Any]:
    """Parse words of the form `NAME=VALUE`. With `as_json`, values that are valid JSON are decoded."""
    found: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{option} {word!r} is not NAME=VALUE")
        found[name] = _json_or_text(value) if as_json else value
    return found


def read_json(file: str) -> dict[str, Any]:
    """Read a JSON object from a file, or from standard input for `-`."""
    import msgspec

    try:
        text = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise click.UsageError(f"cannot read {file}: {error.strerror or error}") from None
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise Invalid(f"{'standard input' if file == '-' else file} is not a JSON object: {error}") from None


def _only_for(flags: Mapping[str, Any], kind: str, kinds: tuple[str, ...], options: tuple[str, ...]) -> None:
    for option in options:
        if flags[option] and kind not in kinds:
            shown = {"headers": "header"}.get(option, option).replace("_", "-")
            raise click.UsageError(f"--{shown} is valid only with {' or '.join(f'--{name}' for name in kinds)}")


def _level(text: str | None) -> str | int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else text


def _headers(lines: Sequence[str]) -> dict[str, str]:
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise click.UsageError(f"--header {line!r} is not 'NAME: VALUE'")
        headers[name.strip()] = value.strip()
    return headers


def _http_body(text: str | None) -> Any:
    if text is None:
        return None
    if text.startswith("@"):
        try:
            text = Path(text[1:]).read_text("utf-8")
        except (OSError, ValueError) as error:
            raise click.UsageError(f"cannot read {text[1:]}: {error}") from None
    value = _json_or_text(text)
    return value if isinstance(value, dict | list) else text


def _json_or_text(text: str) -> Any:
    import msgspec

    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return text
