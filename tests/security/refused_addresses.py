"""Ways to write addresses that a tenant may not call, and the calls to them in a network that carries every address.

`python -m tests.security.refused_addresses` makes the calls, twice: with the guard, and with the guard switched off.
"""

from __future__ import annotations

import asyncio
import sys
from ipaddress import IPv6Address, ip_address
from typing import Any, Final

import msgspec
import pytest
from msgspec import Struct

from tests.support.open_network import serve_names
from tests.unit.executing import RecordedAttempt
from timeball.domain.network.address_policy import AddressPolicy
from timeball.domain.run.lifecycle import Failed
from timeball.domain.task.task import Http
from timeball.executors.http.executor import HttpExecutor

PORT: Final = 8080
PUBLIC: Final = "93.184.215.14"
"""The address of `public.test`, from which a tenant may be redirected."""
TENANT: Final = "acme"

LOOPBACK = """127.0.0.1 127.0.0.2 127.255.255.254 127.1 127.0.1 2130706433 0x7f000001 0x7f.1 0x7f.0.0.1 0X7F.0X0.0X0.0X1
 0177.0.0.1 0177.0.0.01 017700000001 127.0x0.1 127.0.0.1. 127.1. 0x7f000001. localhost LOCALHOST localhost. [::1]
 [0:0:0:0:0:0:0:1] [::0001] [0000::1] 0 0.0.0.0 0x0 00 0.0.0.0. 0.0.0.1 0.1.2.3 [::] [0::0]"""
CARRIED = """[::ffff:127.0.0.1] [::ffff:7f00:1] [::FFFF:7F00:0001] [0:0:0:0:0:ffff:127.0.0.1] [::ffff:10.0.0.1]
 [::ffff:169.254.169.254] [::ffff:a9fe:a9fe] [::ffff:0.0.0.0] [::127.0.0.1] [::7f00:1] [::10.0.0.1]
 [::ffff:0:127.0.0.1] [64:ff9b::127.0.0.1] [64:ff9b::7f00:1] [64:ff9b::10.0.0.1] [64:ff9b::169.254.169.254]
 [64:ff9b:1::127.0.0.1] [64:ff9b:1::93.184.215.14] [2002:7f00:1::] [2002:a00:1::1] [2002:a9fe:a9fe::1]
 [2001:0:7f00:1::] [2001:0:5db8:d70e:0:0:80ff:fffe] [2600:1::5efe:127.0.0.1] [2600:1::200:5efe:10.0.0.1]"""
PRIVATE = """10.0.0.1 10.1 10.255.255.255 0xa000001 167772161 012.0.0.1 172.16.0.1 172.31.255.254 192.168.0.1 192.168.1
 3232235521 0xc0.0xa8.0.1 100.64.0.1 100.127.255.254 [fc00::1] [fd00::1] [fec0::1] [fe80::1] [fe80::1%25lo]
 [fe80::1%lo]"""
METADATA = """169.254.169.254 169.254.169.254. 2852039166 0xa9fea9fe 0251.0376.0251.0376 169.16689662 169.254.170.2
 169.254.170.23 169.254.0.1 168.63.129.16 0xa83f8110 100.100.100.200 192.0.0.192 [fd00:ec2::254] [fd00:ec2::23]
 [fd20:ce::254] [fd00:42::42]"""
OTHERS = """192.0.0.1 192.0.2.1 198.51.100.1 203.0.113.1 198.18.0.1 198.19.255.254 192.88.99.1 224.0.0.1 239.255.255.250
 240.0.0.1 255.255.255.255 [2001:db8::1] [3fff::1] [2001:2::1] [2001:10::1] [100::1] [5f00::1] [4000::1]
 [ff02::1]"""
DIGITS = """①②⑦.⓪.⓪.① 127。0。0。1 １２７．０．０．１ ①②⑦。① ⓛⓞⓒⓐⓛⓗⓞⓢⓣ %31%32%37.0.0.1 %6c%6f%63%61%6c%68%6f%73%74"""
NAMES = """hosts.test private.test upper.PRIVATE.test private.test. metadata.test mixed.test mixed6.test loop6.test
 mapped.test nat64.test many.test carrier.test"""
WITH_USER = """user@127.0.0.1 public.test@127.0.0.1 public.test:80@10.0.0.1 public.test%40@127.0.0.1 a:b@[::1]
 public.test%2f@169.254.169.254"""

SPELLINGS: Final = [
    each for text in (LOOPBACK, CARRIED, PRIVATE, METADATA, OTHERS, DIGITS, NAMES, WITH_USER) for each in text.split()
]
WHOLE_URLS: Final = [
    f"http://127.0.0.1:{PORT}#@public.test/",
    f"http://127.0.0.1:{PORT}?@public.test/",
    f"http://127.0.0.1:{PORT}/@public.test/",
    f"HTTP://127.0.0.1:{PORT}/",
    f"http:\\\\127.0.0.1:{PORT}/",
    f"http://public.test\\@127.0.0.1:{PORT}/",
    f"http:///127.0.0.1:{PORT}/",
    f"//127.0.0.1:{PORT}/",
    f"http://127.0.0.1\t:{PORT}/",
]
"""URLs that parsers read differently."""
HOSTS: Final = "10.9.8.7 hosts.test\n"
ANSWERS: Final = {
    "public.test": [[PUBLIC]],
    "private.test": [["10.0.0.5"]],
    "upper.private.test": [["192.168.3.4"]],
    "metadata.test": [["169.254.169.254"]],
    "mixed.test": [[PUBLIC, "10.0.0.5"]],
    "mixed6.test": [[PUBLIC, "::1"]],
    "loop6.test": [["::1"]],
    "mapped.test": [["::ffff:127.0.0.1"]],
    "nat64.test": [["64:ff9b::10.0.0.5"]],
    "many.test": [[PUBLIC, "93.184.215.15", "93.184.215.16", "100.64.3.2", "93.184.215.17"]],
    "carrier.test": [["100.64.3.2"]],
    "flip.test": [[PUBLIC], ["10.0.0.5"]],
    "flop.test": [["10.0.0.5"], [PUBLIC]],
}


class CallResult(Struct):
    """What one call did."""

    connected: list[str]
    """The addresses that `connect` was called with, without the first call of `public.test` if it redirects."""
    arrived: list[str]
    """The addresses at which the listener got a connection, without the same one."""
    kind: str
    """The kind of the failure; empty: the call succeeded."""
    message: str


class Findings(Struct):
    """What all calls did, by their URL, behind a redirect as well, which is then `>` and the URL."""

    guarded: dict[str, CallResult]
    unguarded: dict[str, CallResult]
    turns: list[CallResult]
    """Calls to a name that changes its address, one after the other."""
    proxied: CallResult


def urls() -> list[str]:
    return [f"http://{each}:{PORT}/" for each in SPELLINGS] + WHOLE_URLS


class Scene:
    def __init__(self) -> None:
        self.connected: list[str] = []
        self.arrived: list[str] = []
        self.location = ""
        sys.addaudithook(self._note_connect)

    def _note_connect(self, event: str, values: tuple[Any, ...]) -> None:
        if event == "socket.connect":
            self.connected.append(_plain(values[1][0]))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request. `public.test` redirects to the location of the scene, if there is one."""
        at = _plain(writer.get_extra_info("sockname")[0])
        self.arrived.append(at)
        await reader.readuntil(b"\r\n\r\n")
        location = f"Location: {self.location}\r\n" if self.location and at == PUBLIC else ""
        status = "302 Found" if location else "200 OK"
        writer.write(f"HTTP/1.1 {status}\r\n{location}Content-Length: 0\r\nConnection: close\r\n\r\n".encode())
        writer.close()

    async def call(self, http: HttpExecutor, url: str) -> CallResult:
        self.connected.clear()
        self.arrived.clear()
        try:
            task = Http(url=url)
        except ValueError as error:
            return CallResult([], [], "invalid", str(error))
        outcome = await http.execute(RecordedAttempt(task, tenant=TENANT))
        failure = outcome.failure if isinstance(outcome, Failed) else None
        redirected = 1 if self.location else 0
        return CallResult(
            self.connected[redirected:],
            self.arrived[redirected:],
            "" if failure is None else failure.kind,
            "" if failure is None else failure.message,
        )

    async def calls(self, http: HttpExecutor) -> dict[str, CallResult]:
        results: dict[str, CallResult] = {}
        for url in urls():
            self.location = ""
            results[url] = await self.call(http, url)
            self.location = url
            results[f">{url}"] = await self.call(http, f"http://public.test:{PORT}/")
        self.location = ""
        return results


async def main() -> None:
    serve_names(ANSWERS)
    scene = Scene()
    server = await asyncio.start_server(scene.serve, "::", PORT)
    v4 = await asyncio.start_server(scene.serve, "0.0.0.0", PORT)
    async with server, v4:
        guarded = await scene.calls(HttpExecutor())
        turns = [
            await scene.call(HttpExecutor(), f"http://{name}.test:{PORT}/") for name in ["flip"] * 2 + ["flop"] * 2
        ]
        with pytest.MonkeyPatch.context() as patch:
            for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
                patch.setenv(name, f"http://10.0.0.9:{PORT}")
            proxied = await scene.call(HttpExecutor(), f"http://public.test:{PORT}/")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(AddressPolicy, "refusal", lambda policy, address: None)
            unguarded = await scene.calls(HttpExecutor())
    sys.stdout.buffer.write(msgspec.json.encode(Findings(guarded, unguarded, turns, proxied)))


def _plain(address: str) -> str:
    parsed = ip_address(address)
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return str(mapped or parsed)


if __name__ == "__main__":
    asyncio.run(main())
