from __future__ import annotations

import click

from timeball import __version__
from timeball.cli.output.output import Form
from timeball.cli.session import output_option


@click.command()
@output_option
def version(form: Form | None) -> None:
    """Print the version of the command line."""
    click.echo(f'{{"version": "{__version__}"}}' if form == "json" else f"timeball {__version__}")
