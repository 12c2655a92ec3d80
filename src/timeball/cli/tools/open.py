"""`timeball open`: the web UI in a browser, signed in."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from timeball.cli.session import CliSession, connected
from timeball.domain.web_address import is_loopback, parse_address

_PAGE: Final = (
    '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={link}"><title>Timeball</title>'
)
_TEXT_BROWSERS: Final = frozenset({"www-browser", "links", "elinks", "lynx", "w3m"})
"""Browsers that the command does not start: they would take over the terminal, and cannot show the web UI."""


@click.command("open")
@click.option("--no-browser", is_flag=True, help="Only print the link.")
@connected
def open_command(session: CliSession, *, no_browser: bool) -> None:
    """Open the web UI, signed in with the key that commands use.

    Prints a link that signs in once, within 10 minutes. On a terminal it also opens that link in a browser, if there
    is one.

    \b
    Examples:
      timeball open
      timeball open --no-browser
      timeball open --url https://timeball.example.org --token-file admin.key
    """
    from timeball.client.requests import sign_in as requests

    answer = session.ask(requests.create_sign_in_link())
    if answer is None:
        return
    link = _reachable(answer.url, session.settings.servers[0])
    click.echo(link)
    if session.output.pretty and not no_browser and sys.stdout.isatty() and not _open(link, session.sign_in_page):
        click.echo("No browser was found; open the link yourself.", err=True)


def _reachable(link: str, server: str) -> str:
    """Return the link. If its address is a loopback address, replace that by the address that this command uses,
    because the command may reach the server through a tunnel with another port.
    """
    base, hash_sign, token = link.partition("#")
    return f"{server}/{hash_sign}{token}" if is_loopback(parse_address(base).host) else link


def _open(link: str, page: Path) -> bool:
    """Open a link in a browser. The browser gets the name of a private file that leads to the link, because all users
    of a machine can read the arguments of its processes, and the link signs in.
    """
    import webbrowser

    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    if getattr(browser, "basename", "") in _TEXT_BROWSERS:
        return False
    try:
        _write(page, _PAGE.format(link=link))
    except OSError:
        return False
    return browser.open(page.as_uri())


def _write(path: Path, text: str) -> None:
    import os

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
