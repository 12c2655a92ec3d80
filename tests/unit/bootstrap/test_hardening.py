"""I31: after a process has read its environment and arguments, no other process can read their secrets."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.ordinary_user import module_path
from timeball import config
from timeball.bootstrap import hardening

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's /proc")

FLAGS = frozenset(setting.flag.encode() for setting in config.SECRETS if setting.flag)
PROGRAM = """
import ctypes, os, subprocess, sys
from timeball.bootstrap.hardening import hide_secrets
shown = open("/proc/self/environ", "rb")  # only root may open it afterwards
hide_secrets()
print(sorted(name for name in os.environ if "TIMEBALL" in name), os.environ["AWS_SECRET_ACCESS_KEY"])
libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
print(libc.getenv(b"AWS_SECRET_ACCESS_KEY"), libc.getenv(b"TIMEBALL_TOKEN"), libc.prctl(3, 0, 0, 0, 0))
print(subprocess.run(["sh", "-c", "echo $AWS_SECRET_ACCESS_KEY"], capture_output=True).stdout)
print(shown.read().replace(b"\\0", b""))
print(open("/proc/self/cmdline", "rb").read().split(b"\\0")[3:])
print(sys.argv[1:])
"""


def test_secrets_leave_the_environment_the_arguments_and_what_the_kernel_shows_of_them() -> None:
    secrets = {setting.variable: f"value-of-{setting.name}" for setting in config.SECRETS}
    kept = {"AWS_SECRET_ACCESS_KEY": "key of a bucket", "TIMEBALL_PROCESS": "r_1/2", "TIMEBALL_NAME": "me"}
    arguments = ["worker", "--token", "given", "--store=postgresql://u:p@h/d", "--slots", "3"]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        env={"PYTHONPATH": module_path(), **secrets, **kept},
        capture_output=True,
        text=True,
        check=True,
    )
    left, in_c, child, environ, cmdline, argv = done.stdout.splitlines()
    assert left == "['TIMEBALL_NAME', 'TIMEBALL_PROCESS'] key of a bucket"
    assert in_c == "b'key of a bucket' None 0"
    assert child == r"b'key of a bucket\n'"
    assert environ == "b'TIMEBALL_PROCESS=r_1/2'"
    assert cmdline == "[b'worker', b'--token', b'*****', b'--store=********************', b'--slots', b'3', b'']"
    assert argv == str(arguments), "the program's own copy is as it was"


@pytest.mark.parametrize(
    ("words", "hidden"),
    [
        (["timeball", "up"], []),
        (["worker", "--token", "key", "--name", "n"], ["key"]),
        (["worker", "--token=key"], ["key"]),
        (["server", "--store", "--token", "--read-store", "dsn"], ["--token", "dsn"]),
        (["migrate", "--to", "dsn", "--objects=s3://a"], ["dsn", "s3://a"]),
        (["worker", "--token"], [""]),
        (["worker", "--tokens", "key"], []),
    ],
)
def test_values_of_secret_flags_are_found(words: list[str], hidden: list[str]) -> None:
    argv = b"".join(word.encode() + b"\0" for word in words)
    found = hardening._secret_words(argv, FLAGS)
    assert [argv[start:end].decode() for start, end in found] == hidden


def test_every_secret_setting_is_known() -> None:
    names = {"token", "store", "store_direct", "read_store", "admin_key", "archive", "objects", "to"}
    assert {setting.name for setting in config.SECRETS} >= names
