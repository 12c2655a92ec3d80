"""`timeball schema`: shows and upgrades the schema of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from timeball import config
from timeball.cli.lazy_group import LazyGroup
from timeball.cli.output.failures import RUN_FAILED
from timeball.cli.output.output import Form, Output
from timeball.cli.session import output_option
from timeball.cli.setting_options import setting_options
from timeball.domain.errors import Conflict

if TYPE_CHECKING:
    from timeball.ports.store_schema import SchemaState


@click.group(cls=LazyGroup)
def schema() -> None:
    """Show or upgrade the schema of a store.

    A server upgrades the schema itself when it starts, unless it is started with --no-migrate.
    """


@schema.command("status")
@setting_options("schema")
@output_option
def status(*, form: Form | None, **flags: Any) -> None:
    """Compare the schema of a store with the one of this version. Changes nothing; servers may use the store.

    Exits with 1 if an upgrade is needed, and with 6 if this version is too old for the store.
    """
    from timeball.bootstrap.tools import schema as bootstrap

    _tell(Output(form), bootstrap.read_schema(config.schema(flags)))


@schema.command("upgrade")
@setting_options("schema")
@output_option
def upgrade(*, form: Form | None, **flags: Any) -> None:
    """Apply all missing migrations, in one transaction.

    On PostgreSQL, servers may continue to run: a migration only adds to the schema, and waits for no lock longer than
    2 s. The role must own the tables. Stop the server of an SQLite store first.

    \b
    Examples:
      timeball schema status --store postgresql://timeball@db/timeball
      timeball schema upgrade --store postgresql://owner@db/timeball
    """
    from timeball.bootstrap.tools import schema as bootstrap

    settings = config.schema(flags)
    before = bootstrap.read_schema(settings)
    if not before.is_too_new:
        bootstrap.upgrade_schema(settings)
    _tell(Output(form), bootstrap.read_schema(settings))


def _tell(output: Output, state: SchemaState) -> None:
    if output.form == "json":
        import msgspec

        found = {"schema": state.found, "newest": state.newest, "oldest": state.oldest, "missing": state.missing}
        output.json(msgspec.json.encode(found))
    else:
        output.fields(
            [
                ("schema of the store", state.found),
                ("schema of this version", state.newest),
                ("works with servers from schema", state.oldest),
                ("migrations to apply", state.missing),
            ]
        )
    if state.is_too_new:
        raise Conflict(
            f"the store has schema {state.found}, and this version knows {state.newest}. A schema is not downgraded:"
            " upgrade Timeball, or restore a backup from before the upgrade"
        )
    if state.missing:
        click.get_current_context().exit(RUN_FAILED)
