"""A network of its own, in which every address leads to one listener: for tests that count connections. It has its own
hosts file, and a name server whose answers the test decides.

The network is a namespace of the kernel, made by `unshare`, in which the loopback device has the route of all
addresses. Nothing leaves the machine.
"""

from __future__ import annotations

import shutil
import socket
import struct
import subprocess
import sys
import threading
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import Final

DNS: Final = "127.0.0.53"
Answers = dict[str, list[list[str]]]
"""The addresses of names. Each question for one kind of address gets the next list, and the last one repeats."""

_A, _AAAA = 1, 28
_SETUP: Final = """
set -e
ip link set lo up
ip addr add 10.77.0.1/24 dev lo
ip -6 addr add fd77::1/64 dev lo nodad
ip route add local 0.0.0.0/0 dev lo
ip -6 route add local ::/0 dev lo
for file in hosts resolv.conf nsswitch.conf; do mount --bind "$FILES/$file" "/etc/$file"; done
exec "$@"
"""


@cache
def unshare() -> list[str] | None:
    """Return the command that runs another one in a network of its own; None: this machine does not allow it."""
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return None
    for flags in (["-n", "-m"], ["-U", "-r", "-n", "-m"]):
        command = ["unshare", *flags]
        if (
            subprocess.run([*command, "ip", "link", "set", "lo", "up"], capture_output=True, check=False).returncode
            == 0
        ):
            return command
    return None


def run_inside(module: str, folder: Path, hosts: str = "") -> str:
    """Run a module in a network of its own, and return what it prints."""
    command = unshare()
    assert command is not None
    (folder / "hosts").write_text(f"127.0.0.1 localhost\n::1 localhost\n{hosts}")
    (folder / "resolv.conf").write_text(f"nameserver {DNS}\noptions timeout:2 attempts:1\n")
    (folder / "nsswitch.conf").write_text("hosts: files dns\n")
    done = subprocess.run(
        [*command, "sh", "-c", _SETUP, "sh", sys.executable, "-m", module],
        env={"FILES": str(folder), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def serve_names(answers: Answers) -> None:
    """Answer questions for names until the process ends."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((DNS, 53))
    threading.Thread(target=_serve, args=(server, answers), daemon=True).start()


def _serve(server: socket.socket, answers: Answers) -> None:
    asked: dict[tuple[str, int], int] = {}
    while True:
        question, client = server.recvfrom(512)
        name, kind = _question(question)
        known = answers.get(name, [[]])
        turn = asked[name, kind] = asked.get((name, kind), -1) + 1
        version = 6 if kind == _AAAA else 4
        found = [ip_address(each).packed for each in known[min(turn, len(known) - 1)] if f"{version}" == _version(each)]
        code = 0 if name in answers else 3
        head = question[:2] + struct.pack(">HHHHH", 0x8180 | code, 1, len(found), 0, 0)
        records = [b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 0, len(each)) + each for each in found]
        server.sendto(head + question[12 : 12 + len(name) + 6] + b"".join(records), client)


def _version(address: str) -> str:
    return str(ip_address(address).version)


def _question(packet: bytes) -> tuple[str, int]:
    labels: list[str] = []
    at = 12
    while packet[at]:
        labels.append(packet[at + 1 : at + 1 + packet[at]].decode())
        at += 1 + packet[at]
    return ".".join(labels).lower(), int.from_bytes(packet[at + 1 : at + 3])
