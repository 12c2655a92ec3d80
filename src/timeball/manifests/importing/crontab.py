"""Translates crontabs into declared jobs, line by line as cron reads them (crontab(5) of Debian and of cronie).

- `NAME = value` applies to the lines below it. Cron itself uses `SHELL`, `PATH`, `HOME`, `CRON_TZ`, `RANDOM_DELAY` and
  `MAILTO`. `PATH`, `HOME` and all other names are in the environment of the commands.
- The first `%` of a command ends it. The rest is its standard input, in which each further `%` is a line break. `\\%`
  is a percent sign.
- A comment directly above a line is the name and the description of its job, unless the comment is a disabled crontab
  line.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from timeball.domain.errors import Invalid
from timeball.domain.schedule import cron, zone
from timeball.manifests.importing.translation import Translated, Translation, slug, unique

AS_CRON_DOES: Final = {"retry": {"maxRetries": 0}, "overlap": "allow", "catchUp": "none"}
"""The behaviour of cron: no retries, overlapping runs, and no catch-up of missed fires."""

SYSTEM_FILES: Final = re.compile(r"/etc/(?:crontab|cron\.d/[^/]+)$")
"""The paths of system crontabs, which have a column with the user."""

_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_SHELLS: Final = ("/bin/sh", "sh")
_ENTRY: Final = re.compile(r"""(?:"(?P<quoted>[^"=]+)"|(?P<name>[A-Za-z_][A-Za-z0-9_]*))\s*=\s*(?P<value>.*)$""")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_MACRO: Final = re.compile(r"(@\w+)\s+(.*)$")
_FIELDS: Final = re.compile(r"((?:\S+\s+){4}\S+)\s+(.*)$")
_USER: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*\$?(?::[\w.-]+)?)\s+(.*)$")
_CRON_WORD: Final = re.compile(r"[\d*/,?A-Za-z~-]+$", re.ASCII)
_PERCENT: Final = re.compile(r"(?<!\\)%")
_LEGEND: Final = re.compile(r"m(?:in(?:ute)?)?\s+h(?:our)?\s+d(?:om|ay)", re.IGNORECASE)
_RELATIVE: Final = re.compile(r"(?:^|[\s;&|(])\.{1,2}/")
_INTO_HOME: Final = re.compile(r""">\s*"?(?:~|\$HOME|\$\{HOME\})/[^/\s"]+(?=["\s;&|)]|$)""")
_PREFIXES: Final = frozenset(
    {"cd", "test", "[", "export", "set", "source", ".", "umask", "ulimit", "sleep", "true", ":"}
)
_WRAPPERS: Final[dict[str, tuple[int, str]]] = {
    **dict.fromkeys(("exec", "command", "nohup", "time", "setsid", "env", "chronic", "cronic"), (0, "")),
    "nice": (0, "n"),
    "ionice": (0, "cn"),
    "sudo": (0, "ug"),
    "timeout": (1, "ks"),
    "flock": (1, "wE"),
}
"""Programs that run another program: how many arguments come before that program, and which options take a value."""
_PRIVILEGED: Final = frozenset(
    (
        *("sudo", "su", "doas", "pkexec", "sg", "newgrp", "passwd", "at", "batch", "crontab"),
        *("mount", "umount", "fusermount", "fusermount3", "ping", "ping6", "traceroute"),
        *("mail", "mailx", "sendmail", "exim", "exim4", "podman"),
    )
)
"""Programs that are, or start, a file with a setuid or setgid bit or with capabilities on common systems."""
_PARTS: Final = re.compile(r"&&|\|\||[;|&(){}`]")
_INTERPRETERS: Final = re.compile(r"(?:ba|da|z|k)?sh|python[\d.]*|perl|ruby|php[\d.]*|node")
_KEYWORDS: Final = frozenset({"!", "if", "then", "elif", "else", "while", "until", "do"})
_ABOUT_MAIL: Final = ("MAILTO", "MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING")


@dataclass(slots=True)
class _Surroundings:
    """The settings of the lines that were read so far."""

    timezone: str
    env: dict[str, str] = field(default_factory=dict)
    shell: str = ""
    jitter: str | None = None
    wrong_zone: str = ""
    """The reason why the current `CRON_TZ` cannot be used; empty if it can be used."""


def translate(text: str, *, user_column: bool = False, timezone: str = "UTC") -> Translation:
    """Translate a crontab. `timezone` is the time zone of cron, until a line sets `CRON_TZ`. Bytes that are not UTF-8
    must be decoded with `surrogateescape`; only the lines with such bytes are lost.
    """
    return _Translator(user_column, timezone).translate(text)


class _Translator:
    def __init__(self, user_column: bool, timezone: str) -> None:
        self._user_column = user_column
        self._around = _Surroundings(timezone)
        self._home_zone = timezone
        self._found = Translation(defaults=AS_CRON_DOES)
        self._names: set[str] = set()
        self._users: dict[str, list[int]] = {}

    def translate(self, text: str) -> Translation:
        comments: list[str] = []
        for number, raw in enumerate(text.split("\n"), 1):
            line = raw.rstrip("\r").strip(" \t")
            if line.startswith("#"):
                said = _readable(line).lstrip("#").strip()
                comments = [] if not said or self._is_out_of_service(said) or _LEGEND.match(said) else [*comments, said]
                continue
            if line != _readable(line):
                self._found.lost(number, "it is not UTF-8; save the file as UTF-8")
            elif line and not (entry := _ENTRY.match(line)):
                self._job(number, line, comments)
            elif line and entry:
                self._entry(number, entry)
            comments = []
        for user, lines in self._users.items():
            numbers = ", ".join(map(str, lines))
            self._found.note(
                lines[0], f"cron runs it as {user} (lines {numbers}); Timeball runs it as the account of its worker"
            )
        return self._found

    def _is_out_of_service(self, comment: str) -> bool:
        """Return True if a comment is a disabled line of a crontab: a job or an entry of the environment."""
        if _ENTRY.match(comment):
            return True
        if comment.startswith("@"):
            return _MACRO.match(comment) is not None
        words = comment.split(None, 5)
        return len(words) == 6 and all(_CRON_WORD.match(word) for word in words[:5]) and _reads(" ".join(words[:5]))

    # --- the environment --------------------------------------------------------------------------------------

    def _entry(self, line: int, entry: re.Match[str]) -> None:
        name = entry["quoted"] or entry["name"]
        value = _unquoted(entry["value"].strip())
        around = self._around
        if name == "SHELL":
            around.shell = "" if value in _SHELLS else value
        elif name == "CRON_TZ":
            self._zone(line, value)
        elif name == "RANDOM_DELAY":
            self._delay(line, value)
        elif name in _ABOUT_MAIL:
            if value:
                self._found.note(line, f"{name}={value}: Timeball does not send mail; it keeps the output of every run")
        elif name.startswith("TIMEBALL_") or not _VARIABLE.fullmatch(name):
            self._found.note(line, f"{name!r} is left out: it cannot be set for a job")
        else:
            around.env = {**around.env, name: value}
            if "$" in value:
                self._found.note(line, f"{name}={value} is taken literally, as in cron: $ is not expanded")

    def _zone(self, line: int, value: str) -> None:
        around = self._around
        try:
            zone.get(value or self._home_zone)
        except Invalid as error:
            around.wrong_zone = f"CRON_TZ of line {line}: {error.detail}"
            self._found.note(line, f"CRON_TZ: {error.detail}")
        else:
            around.timezone, around.wrong_zone = value or self._home_zone, ""

    def _delay(self, line: int, value: str) -> None:
        if value.isascii() and value.isdigit() and int(value) <= 24 * 60:
            self._around.jitter = f"{int(value)}m" if int(value) else None
        else:
            self._found.note(line, f"RANDOM_DELAY={value} is left out: it is not a number of minutes up to a day")

    # --- the jobs ---------------------------------------------------------------------------------------------

    def _job(self, number: int, line: str, comments: Iterable[str]) -> None:
        silent = line.startswith("-")
        if silent:
            line = line[1:]
        parts = _MACRO.match(line) if line.startswith("@") else _FIELDS.match(line)
        if parts is None:
            self._found.lost(number, "the line is neither five fields and a command, nor NAME=value, nor a comment")
            return
        expression, rest = parts[1], parts[2]
        if expression == "@reboot":
            self._found.lost(
                number, "@reboot is not supported: a fleet does not boot; use a service of the machine instead"
            )
            return
        if self._user_column:
            user = _USER.match(rest)
            if user is None:
                self._found.lost(number, "there is no command after the user; does the file have a column of users?")
                return
            rest = user[2]
            self._users.setdefault(user[1], []).append(number)
        elif rest.split(None, 1)[0] in ("root", "www-data", "nobody") and " " in rest:
            self._found.note(number, f"{rest.split()[0]!r} looks like a user: system crontabs need --user-column")
        if reason := self._wrong(expression):
            self._found.lost(number, reason)
            return
        if silent:
            self._found.note(number, "the - before the fields is ignored; it only keeps the line out of cron's log")
        self._add(number, expression, rest, list(comments))

    def _wrong(self, expression: str) -> str:
        if self._around.wrong_zone:
            return self._around.wrong_zone
        if expression == "@every_minute":
            return ""
        try:
            cron.parse(expression, spread="check")
        except Invalid as error:
            return error.detail + ("; for a random time use H instead of ~" if "~" in expression else "")
        return ""

    def _add(self, number: int, expression: str, rest: str, comments: list[str]) -> None:
        around = self._around
        command, given = _with_input(rest)
        if not command.strip():
            self._found.lost(number, "the command is empty")
            return
        name = unique(slug(comments[0] if comments else "") or name_of(command) or f"line-{number}", self._names)
        self._names.add(name)
        if _RELATIVE.search(command) and "HOME" not in around.env:
            self._found.note(
                number,
                "cron starts it in the home folder, Timeball in a new empty folder:"
                " ./ and ../ need a HOME= line above, or absolute paths",
            )
        if _INTO_HOME.search(command):
            self._found.note(number, "jobs cannot create files directly in the home folder: write to a folder below it")
        if privileged := privileged_programs(command):
            self._found.note(
                number,
                f"{_listed(privileged)} may need privileges that jobs cannot gain: give them to the account of the"
                " worker, or start the worker with --no-job-landlock --new-privs",
            )
        self._found.jobs.append(
            Translated(
                number,
                {
                    "name": name,
                    **({"description": "\n".join(comments)} if comments else {}),
                    "task": self._task(_script(command, given)),
                    "schedule": {
                        "type": "cron",
                        "expression": "* * * * *" if expression == "@every_minute" else " ".join(expression.split()),
                        **({} if around.timezone == "UTC" else {"timezone": around.timezone}),
                    },
                    **({"jitter": around.jitter} if around.jitter else {}),
                },
            )
        )

    def _task(self, script: str) -> dict[str, Any]:
        around = self._around
        command: str | list[str] = [around.shell, "-c", script] if around.shell else script
        task: dict[str, Any] = {"kind": "shell", "command": command}
        if around.env:
            task["env"] = around.env
        if home := around.env.get("HOME"):
            task["cwd"] = home
        return task


def _reads(expression: str) -> bool:
    try:
        cron.parse(expression, spread="check")
    except Invalid:
        return False
    return True


def _readable(line: str) -> str:
    """Return a line unchanged if it is UTF-8, and decoded as Latin-1 if it is not."""
    if _SURROGATES.search(line) is None:
        return line
    return line.encode("utf-8", "surrogateescape").decode("latin-1")


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value


def _with_input(text: str) -> tuple[str, list[str] | None]:
    """Return the command, and the lines of its standard input; None: it has no input."""
    command, *given = (part.replace("\\%", "%") for part in _PERCENT.split(text))
    if given and not given[-1]:
        given.pop()  # cron adds the line break at the end itself
    return command, given or None


def _script(command: str, given: list[str] | None) -> str:
    """Return the command with its input. The exit status is that of the command, because it is the last in the pipe."""
    if given is None:
        return command.strip()
    lines = " ".join(shlex.quote(line) for line in given)
    return f"printf '%s\\n' {lines} | {{\n{command.strip()}\n}}"


def name_of(command: str) -> str:
    """Return a name for a job without a comment: that of the first program that is not only preparation, such as
    `backup` for `cd /srv && nice -n 19 /usr/local/bin/backup.sh --full`.
    """
    for part in re.split(r"&&|\|\||[;|]", command):
        words = _program(part.strip(" (){}"))
        if words and words[0] not in _PREFIXES:
            return slug(_called(words))
    return slug(command)


def privileged_programs(command: str) -> list[str]:
    """Return the programs of a command that gain privileges when they start, such as sudo."""
    found: dict[str, None] = {}
    for part in _PARTS.split(command):
        words = _words(part)
        while words:
            program = words[0].rpartition("/")[2]
            if program in _PRIVILEGED:
                found[program] = None
                break
            if re.match(r"[A-Za-z_]\w*=", words[0]) or program in _KEYWORDS:
                words = words[1:]
            elif program in _WRAPPERS:
                words = _without_own(words[1:], *_WRAPPERS[program])
            else:
                break
    return list(found)


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _words(part: str) -> list[str]:
    try:
        return shlex.split(part, comments=True)
    except ValueError:
        return part.split()


def _program(part: str) -> list[str]:
    """Return the words of a simple command, without variable assignments and without programs that only run another
    one, such as nice.
    """
    words = _words(part)
    while words:
        if re.match(r"[A-Za-z_]\w*=", words[0]) or words[0] in ("!", "if", "then"):
            words = words[1:]
        elif (program := words[0].rpartition("/")[2]) in _WRAPPERS:
            words = _without_own(words[1:], *_WRAPPERS[program])
        else:
            return words
    return words


def _without_own(words: list[str], own: int, with_value: str) -> list[str]:
    """Return the words of the command that a wrapper runs, after its options and its own arguments."""
    while words and words[0].startswith("-"):
        takes_next = len(words[0]) == 2 and words[0][1] in with_value
        words = words[2:] if takes_next else words[1:]
    words = words[own:]
    return words[1].split() if words[:1] == ["-c"] and len(words) > 1 else words


def _called(words: list[str]) -> str:
    """Return a name for a command: `backup` for `/opt/backup.sh`, `certbot renew` for `certbot renew -q`, `etl` for
    `python3 etl.py`.
    """
    program = words[0].rpartition("/")[2]
    others = [word for word in words[1:] if not word.startswith(("-", ">", "<", "2>", "&>", "$"))]
    if _INTERPRETERS.fullmatch(program) and others and "-c" not in words and "-m" not in words:
        return _stem(others[0])
    if program == "run-parts" and others:
        return f"run-parts-{others[-1].rpartition('/')[2]}"
    if others and re.fullmatch(r"[a-z][a-z0-9:_-]{0,20}", others[0]) and "." not in program:
        return f"{program} {others[0]}"
    return _stem(program)


def _stem(path: str) -> str:
    name = path.rstrip("/").rpartition("/")[2]
    return re.sub(r"\.(?:sh|py|pl|rb|php|js|bash)$", "", name)
