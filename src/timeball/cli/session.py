"""The parts that all commands share that use a server: the connection, the output, and the lookup of jobs and runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from timeball import config
from timeball.cli.output.output import Form, Output
from timeball.cli.setting_options import Wording, flag_names, setting_options
from timeball.domain.errors import Conflict, NotFound
from timeball.domain.ids import is_id

if TYPE_CHECKING:
    from pathlib import Path

    from timeball.client.client import Client
    from timeball.client.models.job import Job
    from timeball.client.requests.request import ApiRequest
    from timeball.config import ClientConfig

R = TypeVar("R")
T = TypeVar("T")

_LIVE = ("scheduled", "paused")
_CLIENT_FLAGS = flag_names("client")
_client_options = setting_options(
    "client",
    wording={
        "url": Wording("The URL of the server (TIMEBALL_URL).", metavar="URL"),
        "token": Wording("The API key; other users can see it in the list of processes (TIMEBALL_TOKEN)."),
        "ca": Wording("Certificate authorities to trust for HTTPS: a PEM file (TIMEBALL_CA)."),
    },
)


class CliSession:
    """One call of a command that uses a server."""

    def __init__(self, flags: Mapping[str, Any], form: Form | None) -> None:
        self.output = Output(form)
        self._flags = flags
        """The values of the command's options, by setting."""

    @functools.cached_property
    def settings(self) -> ClientConfig:
        """The configuration of the client: the servers and the API key."""
        return config.client(self._flags)

    @property
    def sign_in_page(self) -> Path:
        """The private HTML file that sends the browser to a one-time sign-in link."""
        return config.sign_in_page(self._flags)

    @functools.cached_property
    def client(self) -> Client:
        return self.another_client()

    def another_client(self) -> Client:
        """Return a new client with the same settings, for a thread that reads at the same time as `client`."""
        from timeball.client.client import Client

        return Client(**self._flags, retries=2, transport=make_transport())

    def ask(self, request: ApiRequest[T], *, wait: bool = False) -> T | None:
        """Send a request and return the answer for output. With `-o json`, print the answer of the API and return None,
        unless the command will `wait` for the run and print that instead."""
        from timeball.client import exchange

        body = self.client.send(request)
        if self.output.form == "json" and not wait:
            self.output.json(body)
            return None
        return exchange.read(request, body)

    def job_id(self, name_or_id: str) -> str:
        """Return the id of the job with this name or id. If several jobs have the name, prefer the one that is
        scheduled or paused, and take the newest if all of them have ended. Raise `Conflict` if several are scheduled or
        paused: a command must not guess which of them to change."""
        if is_id("j", name_or_id):
            return name_or_id
        found = [job for job in self.client.jobs(name=name_or_id) if job.name == name_or_id]
        if not found:
            raise self._unknown(name_or_id)
        live = [job for job in found if job.status in _LIVE]
        if len(live) > 1:
            raise Conflict(_ambiguous(name_or_id, live))
        return (live or found)[0].job_id  # the API lists the newest job first

    def run_id(self, run_or_job: str) -> str:
        """Return the id of a run. For a job, return the id of the run that started last, or of the next run if none has
        started. Raise `NotFound` if the job has no run."""
        if is_id("r", run_or_job):
            return run_or_job
        job_id = self.job_id(run_or_job)
        run_id = self.client.status(job_id).run_id
        if run_id is None:
            raise NotFound("run of job", run_or_job)
        return run_id

    def worker_id(self, name_or_id: str) -> str:
        """Return the id of the live worker with this name or id. Raise `NotFound` if there is none, and `Conflict` if
        several have the name."""
        found = [each.worker_id for each in self.client.workers() if name_or_id in (each.name, each.worker_id)]
        if len(found) > 1:
            raise Conflict(
                f"{len(found)} workers are called {name_or_id!r}: {', '.join(found[:5])}; say which by its id"
            )
        if not found:
            error = NotFound("live worker", name_or_id)
            error.detail += "; `timeball workers` lists them"
            raise error
        return found[0]

    def _unknown(self, name: str) -> NotFound:
        import difflib
        from itertools import islice

        known = {job.name for job in islice(self.client.jobs(), 500)}
        error = NotFound("job", name)
        if close := difflib.get_close_matches(name, known, n=1):
            error.detail += f"; did you mean {close[0]!r}?"
        return error


def _ambiguous(name: str, jobs: list[Job]) -> str:
    shown = ", ".join(f"{job.job_id} ({job.status})" for job in jobs[:5])
    more = f" and {len(jobs) - 5} more" if len(jobs) > 5 else ""
    return f"{len(jobs)} jobs have the name {name!r}: {shown}{more}; use the id of one of them"


def make_transport() -> Any:
    """Return the transport of the client; None: the client makes its own. Tests replace this function."""
    return None


def connected(command: Callable[..., R]) -> Callable[..., R]:
    """Add the options of every command that uses a server. The command gets a `CliSession` as its first argument."""

    @_client_options
    @output_option
    @functools.wraps(command)
    def wrapped(*args: Any, form: Form | None, **kwargs: Any) -> R:
        session = CliSession({name: kwargs.pop(name) for name in _CLIENT_FLAGS}, form)
        try:
            return command(session, *args, **kwargs)
        finally:
            if "client" in session.__dict__:
                session.client.close()

    return wrapped


output_option = click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["table", "plain", "json"]),
    help="Output format (default: table on a terminal, plain in a pipe).",
)
