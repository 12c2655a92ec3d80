"""`timeball tenants`: creates, lists and changes tenants."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from timeball.cli import listing
from timeball.cli.lazy_group import LazyGroup
from timeball.cli.output.output import Column
from timeball.cli.session import CliSession, connected

if TYPE_CHECKING:
    from timeball.client.models.registry import DeletionProgress, Tenant

_LIMITS: Final[dict[str, str]] = {
    "weight": "weight",
    "concurrent_runs": "concurrentRuns",
    "jobs": "jobs",
    "runs_per_day": "runsPerDay",
    "stored_bytes": "storedBytes",
    "requests_per_second": "requestsPerSecond",
    "request_burst": "requestBurst",
    "requests_per_second_per_key": "requestsPerSecondPerKey",
    "request_burst_per_key": "requestBurstPerKey",
    "max_priority": "maxPriority",
    "allow_addresses": "allowAddresses",
    "deny_addresses": "denyAddresses",
}
"""Options of limits, and the fields of the API that they set."""
_LISTS: Final = ("allow_addresses", "deny_addresses")


_WAIT_SECONDS: Final = 0.5


def _limits(command: Any) -> Any:
    described = {
        "weight": "Its share of the workers, compared to 1.",
        "concurrent_runs": "Maximum number of running runs.",
        "jobs": "Maximum number of jobs that may still fire.",
        "runs_per_day": "Maximum number of runs in a day, in UTC.",
        "stored_bytes": "Maximum number of bytes stored for it: specs, output and results.",
        "requests_per_second": "Maximum rate of requests, on each server.",
        "request_burst": "Requests at once, before the rate counts.",
        "requests_per_second_per_key": "Maximum rate of requests with one key, on each server.",
        "request_burst_per_key": "Requests at once with one key, before the rate counts.",
        "max_priority": "Highest priority of its runs, 0 to 9.",
        "allow_addresses": "Ranges to which its HTTP jobs may connect, such as 10.1.0.0/16,fd00:1::/32.",
        "deny_addresses": "Ranges to which its HTTP jobs may not connect.",
    }
    for name, text in reversed(described.items()):
        metavar = "RANGES|none" if name in _LISTS else "N|none"
        command = click.option(f"--{name.replace('_', '-')}", name, metavar=metavar, help=text)(command)
    price = click.option(
        "--price",
        "prices",
        multiple=True,
        metavar="NAME=PRICE",
        help="A price, such as attemptSecond=0.0001. Repeatable.",
    )
    command = click.option("--description", metavar="TEXT", help="A description.")(price(command))
    return click.option("--name", metavar="NAME", help="A name for people.")(command)


@click.group(cls=LazyGroup)
def tenants() -> None:
    """Manage tenants: the owners of jobs, keys and users, with limits and prices."""


@tenants.command("create")
@click.argument("tenant_id", metavar="TENANT")
@_limits
@connected
def create(session: CliSession, tenant_id: str, **flags: Any) -> None:
    """Create a tenant. It can be used once it has a key (second example).

    \b
    Examples:
      timeball tenants create acme --name "ACME Ltd." --weight 2 --concurrent-runs 40
      timeball keys create --tenant acme --role admin --name first
    """
    from timeball.client.requests import tenants as requests

    answer = session.ask(requests.create_tenant(tenant_id, _changed({}, flags)))
    if answer is not None:
        session.output.done(tenant_id, f"Created the tenant {tenant_id}.")


@tenants.command("update")
@click.argument("tenant_id", metavar="TENANT")
@_limits
@connected
def update(session: CliSession, tenant_id: str, **flags: Any) -> None:
    """Change a tenant. Limits and prices that are not given stay as they are; `none` removes one.

    \b
    Examples:
      timeball tenants update acme --jobs 1000 --runs-per-day none
      timeball tenants update acme --allow-addresses 10.1.0.0/16,10.2.0.7
      timeball tenants update acme --price run=0.0001 --price cpuSecond=0.00002
    """
    from timeball.client.requests import tenants as requests

    found = session.client.ask(requests.tenant(tenant_id))
    change = _changed(found.limits, flags)
    if not change:
        raise click.UsageError("give what to change, such as --jobs 1000")
    if session.ask(requests.update_tenant(tenant_id, change, version=found.version)) is not None:
        session.output.done(tenant_id, f"Changed the tenant {tenant_id}.")


@tenants.command("list")
@listing.limits
@connected
def list_tenants(session: CliSession, *, limit: int, everything: bool) -> None:
    """List tenants."""
    from timeball.client.requests import tenants as requests

    listing.show(
        session,
        lambda cursor: requests.tenants(limit=limit, cursor=cursor),
        _COLUMNS,
        everything=everything,
        nothing="No tenants.",
    )


@tenants.command("show")
@click.argument("tenant_id", metavar="TENANT")
@connected
def show(session: CliSession, tenant_id: str) -> None:
    """Show a tenant with its limits, what it uses of its quotas, and its prices."""
    from timeball.client.requests import tenants as requests

    answer = session.ask(requests.tenant(tenant_id))
    if answer is not None:
        session.output.table(_COLUMNS, [answer], nothing="")


@tenants.command("delete")
@click.argument("tenant_id", metavar="TENANT")
@click.option("--yes", is_flag=True, help="Do not ask for the id again.")
@click.option("--wait", is_flag=True, help="Wait until nothing is left of the tenant.")
@connected
def delete(session: CliSession, tenant_id: str, *, yes: bool, wait: bool) -> None:
    """Delete a tenant with everything it owns, for good: jobs, runs, output, users and keys.

    Its credentials are refused at once, and its runs are cancelled. The rest is deleted in the background; `tenants
    show` prints how far it is. The id cannot be used again.

    \b
    Examples:
      timeball tenants delete acme
      timeball tenants delete acme --yes --wait
    """
    from timeball.client.requests import tenants as requests

    if not yes and click.prompt(f"Enter the id of the tenant to delete ({tenant_id})", err=True) != tenant_id:
        raise click.UsageError("this is another id; nothing was deleted")
    answer = session.ask(requests.delete_tenant(tenant_id))
    if answer is None:
        return
    if wait:
        _await_deletion(session, tenant_id)
        session.output.done(tenant_id, f"Deleted the tenant {tenant_id}.")
    else:
        session.output.done(tenant_id, f"The tenant {tenant_id} is being deleted.")


def _await_deletion(session: CliSession, tenant_id: str) -> None:
    from timeball.client.requests import tenants as requests
    from timeball.domain.errors import NotFound

    while True:
        try:
            session.client.ask(requests.tenant(tenant_id))
        except NotFound:
            return
        time.sleep(_WAIT_SECONDS)


def _changed(limits: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields to send. The limits are sent as a whole, if one of them is given."""
    change = {name: flags[name] for name in ("name", "description") if flags[name] is not None}
    given = {field: _limit(name, flags[name]) for name, field in _LIMITS.items() if flags[name] is not None}
    prices = dict(map(_price, flags["prices"]))
    if given or prices:
        merged = {**limits, **given, "prices": {**limits.get("prices", {}), **prices}}
        merged["prices"] = {name: price for name, price in merged["prices"].items() if price != "none"}
        change["limits"] = {name: value for name, value in merged.items() if value != "none"}
    return change


def _limit(option: str, text: str) -> int | float | str | list[str]:
    if text == "none":
        return text
    if option in _LISTS:
        return [each.strip() for each in text.split(",")]
    try:
        number = float(text)
    except ValueError:
        raise click.BadParameter(f"--{option.replace('_', '-')} is a number or none, and not {text!r}") from None
    return int(number) if number.is_integer() else number


def _price(text: str) -> tuple[str, str]:
    name, found, price = text.partition("=")
    if not found or not name or not price:
        raise click.BadParameter(f"{text!r} is not a price; write it like attemptSecond=0.0001")
    return name, price


def _described(tenant: Tenant) -> str:
    limits = {name: _with_use(tenant, name, value) for name, value in tenant.limits.items() if name != "prices"}
    priced = {f"price {name}": price for name, price in tenant.limits.get("prices", {}).items()}
    return ", ".join(f"{name} {_shown(value)}" for name, value in {**limits, **priced}.items())


def _shown(limit: object) -> str:
    return " ".join(map(str, limit)) if isinstance(limit, list) else str(limit)


def _progress(deletion: DeletionProgress) -> str:
    done = ", ".join(f"{count:,} {kind}" for kind, count in sorted(deletion.deleted.items()))
    return f"{deletion.phase}: {done or 'nothing yet'}"


def _with_use(tenant: Tenant, name: str, limit: object) -> object:
    used = tenant.used.get(name)
    return limit if used is None else f"{used}/{limit}"


_COLUMNS: list[Column[Tenant]] = [
    Column("tenant", lambda tenant: tenant.tenant_id),
    Column("name", lambda tenant: tenant.name),
    Column("state", lambda tenant: tenant.state),
    Column("deletion", lambda tenant: "" if tenant.deletion is None else _progress(tenant.deletion)),
    Column("limits", _described),
    Column("created", lambda tenant: tenant.created_at),
]
