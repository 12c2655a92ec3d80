"""The command `timeball`: its subcommands, and its exit codes."""

from __future__ import annotations

from typing import Any

import click

from timeball import __version__
from timeball.cli.lazy_group import LazyGroup
from timeball.cli.output import failures
from timeball.domain.errors import TimeballError

_COMMANDS = {
    "up": "timeball.cli.serve.processes:up",
    "server": "timeball.cli.serve.processes:server",
    "worker": "timeball.cli.serve.processes:worker",
    "jobs": "timeball.cli.jobs.jobs:jobs",
    "runs": "timeball.cli.runs.runs:runs",
    "workflows": "timeball.cli.jobs.workflows:workflows",
    "backfills": "timeball.cli.jobs.backfills:backfills",
    "next": "timeball.cli.inspect.next:next_command",
    "why": "timeball.cli.inspect.why:why",
    "audit": "timeball.cli.inspect.audit:audit",
    "audit-log": "timeball.cli.inspect.audit_log:audit_log",
    "stats": "timeball.cli.inspect.stats:stats",
    "slo": "timeball.cli.inspect.slo:slo",
    "top": "timeball.cli.inspect.top:top",
    "forecast": "timeball.cli.inspect.forecast:forecast",
    "capacity": "timeball.cli.tools.capacity:capacity",
    "dead": "timeball.cli.runs.dead_letters:dead",
    "plan": "timeball.cli.declare.manifests:plan_command",
    "apply": "timeball.cli.declare.manifests:apply_command",
    "export": "timeball.cli.declare.manifests:export_command",
    "import": "timeball.cli.declare.importing:import_group",
    "tasks": "timeball.cli.jobs.tasks:tasks",
    "calendars": "timeball.cli.jobs.calendars:calendars",
    "workers": "timeball.cli.inspect.workers:workers",
    "events": "timeball.cli.inspect.events:events",
    "keys": "timeball.cli.tools.keys:keys",
    "users": "timeball.cli.tools.users:users",
    "tenants": "timeball.cli.tools.tenants:tenants",
    "usage": "timeball.cli.inspect.usage:usage",
    "open": "timeball.cli.tools.open:open_command",
    "sessions": "timeball.cli.tools.sessions:sessions",
    "clock": "timeball.cli.tools.clock:clock",
    "migrate": "timeball.cli.serve.migrate:migrate",
    "schema": "timeball.cli.serve.schema:schema",
    "backup": "timeball.cli.serve.backup:backup",
    "restore": "timeball.cli.serve.backup:restore",
    "bench": "timeball.cli.tools.bench:bench",
    "chaos": "timeball.cli.tools.chaos:chaos",
    "doctor": "timeball.cli.tools.doctor:doctor",
    "completion": "timeball.cli.tools.completion:completion",
    "version": "timeball.cli.tools.version:version",
}

_INSTEAD = {
    "--preview": "`timeball next EXPR` shows the next fires of a cron expression, `timeball plan` those of a manifest"
}
"""Hints for options that users may expect, but that do not exist."""


class Root(LazyGroup):
    """Converts every error of Timeball into a message and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except TimeballError as error:
            failures.tell(error)
            ctx.exit(failures.exit_code(error))
        except TimeoutError as error:
            failures.say(str(error))
            ctx.exit(failures.TIMED_OUT)
        except KeyboardInterrupt:
            ctx.exit(failures.INTERRUPTED)
        except click.NoSuchOption as error:
            if error.option_name not in _INSTEAD:
                raise
            hint = _INSTEAD[error.option_name]
            raise click.UsageError(f"there is no option {error.option_name}; {hint}", error.ctx) from None


@click.group(
    cls=Root,
    lazy=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=failures.EXIT_CODES,
)
@click.version_option(__version__, prog_name="timeball", message="%(prog)s %(version)s")
def timeball() -> None:
    """Timeball runs jobs on time, and accounts for every fire.

    \b
    Start Timeball here:     timeball up
    Run a command now:       timeball jobs create hello --shell "echo hello" --wait
    Run it every night:      timeball jobs create etl --shell "python3 etl.py" --cron "0 2 * * *" --tz Europe/Berlin
    List its runs:           timeball runs list --job etl
    Explain why it waits:    timeball why etl
    Account for every fire:  timeball audit etl --from 24h

    Commands print a table on a terminal and tab-separated text in a pipe; -o json prints the answer of the API.
    They use the server on this machine, unless TIMEBALL_URL and TIMEBALL_TOKEN_FILE, or a timeball.toml, name another
    one.
    """
