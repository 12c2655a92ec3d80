"""`timeball completion`: prints the script that completes commands and options in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from timeball.cli.output.failures import printable

_VARIABLE = "_TIMEBALL_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes commands and options with the tab key. The shell reads it when it starts.

    \b
    Examples:
      timeball completion bash > ~/.local/share/bash-completion/completions/timeball
      timeball completion zsh > ~/.zfunc/_timeball          # with fpath+=(~/.zfunc) before compinit in ~/.zshrc
      timeball completion fish > ~/.config/fish/completions/timeball.fish
    """
    root = click.get_current_context().find_root().command
    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"there is no completion for {shell}")
    script = found(root, {}, "timeball", _VARIABLE)
    click.echo(printable(script.source_template % script.source_vars()), nl=False)
