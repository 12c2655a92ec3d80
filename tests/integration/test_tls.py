"""A server with TLS: clients and workers trust it only if its authority is one that they were configured with."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import timeball
from tests.support.certificates import Authority
from tests.support.processes import KEY, Process, free_port, until
from timeball.domain.errors import Unavailable

SHELL = {"kind": "shell", "command": "true"}


class House:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder)
        self.cert, self.key = folder / "cert.pem", folder / "key.pem"
        self.serial = self.authority.issue(self.cert, self.key)
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.ca = str(self.authority.file)

    @contextmanager
    def serving(self, role: str = "server") -> Iterator[Process]:
        arguments = [role, "--port", str(self.port), "--data-dir", str(self.folder / "data")]
        arguments += ["--tls-cert", str(self.cert), "--tls-key", str(self.key)]
        with Process(self.folder, arguments) as process:

            def is_up() -> bool:
                assert process.popen.poll() is None, process.output
                return "Timeball is up" in process.output

            until(is_up, "the server to be up")
            yield process

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.ca)

    def shown_serial(self) -> int:
        with (
            socket.create_connection(("127.0.0.1", self.port), timeout=10) as plain,
            self.context().wrap_socket(plain, server_hostname="127.0.0.1") as secure,
        ):
            shown: Any = secure.getpeercert()
            return int(shown["serialNumber"], 16)

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        home = self.folder / "home"
        return subprocess.run(
            [sys.executable, "-m", "timeball", *arguments],
            env={**os.environ, "HOME": str(home), "TIMEBALL_ADMIN_KEY": KEY, **environment},
            capture_output=True,
            text=True,
            timeout=60,
        )


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


async def test_clients_trust_the_authority_they_were_told(house: House) -> None:
    with house.serving() as process:
        assert house.url in process.output
        with timeball.Client(house.url, KEY, ca=house.ca) as client:
            jobs = [client.create_job(f"tls-{number}", shell="true", at="2099-01-01T00:00:00Z") for number in range(3)]
            assert len({job.job_id for job in jobs}) == 3
        async with timeball.AsyncClient(house.url, KEY, ca=house.ca) as client:
            assert (await client.job(jobs[0].job_id)).name == "tls-0"
        found = house.run("jobs", "list", "--url", house.url, "--ca", house.ca)
        assert (found.returncode, "tls-1" in found.stdout) == (0, True), found.stderr
        found = house.run("jobs", "list", "--url", house.url, TIMEBALL_CA=house.ca)
        assert (found.returncode, "tls-1" in found.stdout) == (0, True), found.stderr


async def test_an_authority_that_was_not_told_is_not_trusted(house: House) -> None:
    other = str(Authority(house.folder, "other").file)
    with house.serving():
        for ca in (None, other):
            with timeball.Client(house.url, KEY, ca=ca, retries=0) as client, pytest.raises(Unavailable) as refusal:
                client.job("j_0000000000000000000000000000")
            assert "certificate" in str(refusal.value)
            async with timeball.AsyncClient(house.url, KEY, ca=ca, retries=0) as waiting:
                with pytest.raises(Unavailable) as refusal:
                    await waiting.job("j_0000000000000000000000000000")
            assert "certificate" in str(refusal.value)


def test_a_worker_works_over_tls(house: House) -> None:
    with ExitStack() as stack:
        stack.enter_context(house.serving())
        arguments = ["worker", "--server", house.url, "--ca", house.ca, "--slots", "2"]
        worker = stack.enter_context(Process(house.folder, arguments, {"TIMEBALL_TOKEN": KEY}))
        client = stack.enter_context(timeball.Client(house.url, KEY, ca=house.ca))
        for number in range(5):
            job = client.create_job(f"tls-{number}", shell="true")
            until(lambda job=job: client.job(job.job_id).status == "completed", "the job to be done")  # type: ignore[misc]
        assert worker.popen.poll() is None


def test_a_renewed_certificate_is_shown_without_a_restart(house: House) -> None:
    with house.serving() as process:
        assert house.shown_serial() == house.serial
        house.key.write_text("half of a new key")
        assert house.shown_serial() == house.serial
        renewed = house.authority.issue(house.cert, house.key)
        until(lambda: house.shown_serial() == renewed, "the new certificate")
        assert process.popen.poll() is None


def test_old_protocols_and_plain_http_are_refused(house: House) -> None:
    with house.serving():
        old = house.context()
        old.minimum_version = ssl.TLSVersion.TLSv1_2
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with socket.create_connection(("127.0.0.1", house.port), timeout=10) as plain:
            old.wrap_socket(plain, server_hostname="127.0.0.1").close()
        with socket.create_connection(("127.0.0.1", house.port), timeout=10) as plain:
            plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert not plain.recv(1_000).startswith(b"HTTP/")
        found = house.run("jobs", "list", "--url", house.url.replace("https", "http"))
        assert found.returncode != 0
        assert "https://" in found.stderr


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--tls-cert", "{cert}"], "tls_key"),
        (["--tls-key", "{key}"], "tls_cert"),
        (["--tls-cert", "/no/such.pem", "--tls-key", "{key}"], "/no/such.pem"),
        (["--tls-cert", "{cert}", "--tls-key", "/no/key.pem"], "/no/key.pem"),
        (["--tls-cert", "{key}", "--tls-key", "{key}"], "{key}"),
    ],
)
def test_what_cannot_be_used_is_named(house: House, flags: list[str], said: str) -> None:
    names = {"cert": str(house.cert), "key": str(house.key)}
    given = [flag.format(**names) for flag in flags]
    found = house.run("server", "--port", "0", "--data-dir", str(house.folder / "data"), *given)
    assert found.returncode != 0
    assert said.format(**names) in found.stderr
    assert "Traceback" not in found.stderr
