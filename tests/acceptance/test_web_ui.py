"""The web UI as users get it: installed from a wheel, opened by a link on a terminal, and at the addresses of the
guide."""

from __future__ import annotations

import os
import re
import shlex
import stat
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import httpx2
import pytest

from tests.support.certificates import Authority
from tests.support.processes import KEY, Api, Process, data_dir, free_port, running_up, until
from tests.support.terminal import Terminal

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"https?://\S+/#/sign-in\?token=(tb_[\w-]+)")
JSON = {"Content-Type": "application/json"}


def sign_in(url: str, token: str) -> httpx2.Response:
    return httpx2.post(f"{url}/v1/sign-in", json={"token": token}, headers={"Origin": url, **JSON}, timeout=30)


# --- the link -------------------------------------------------------------------------------------------------------


def test_up_prints_a_link_on_a_terminal_that_signs_in_once(tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with Terminal(tmp_path, ["up", "--port", str(port), "--data-dir", str(data_dir(tmp_path))]) as up:
        link = until(lambda: LINK.search(up.output), "the link")
        assert link[0].startswith(f"{url}/#")
        first = sign_in(url, link[1])
        assert first.status_code == 200, first.text
        assert f"timeball_{port}=" in first.headers["set-cookie"]
        second = sign_in(url, link[1])
        assert second.status_code == 401
        assert "set-cookie" not in second.headers


def test_up_prints_no_link_into_a_log(tmp_path: Path) -> None:
    with running_up(tmp_path) as (process, _):
        until(lambda: "Timeball is up" in process.output, "the greeting")
        assert "sign-in" not in process.output
        assert "token" not in process.output


# --- timeball open --------------------------------------------------------------------------------------------------


@pytest.fixture
def browser(tmp_path: Path) -> Path:
    """A program that records what it is started with."""
    program = tmp_path / "browser"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >> {tmp_path}/opened\n')
    program.chmod(0o755)
    return program


def test_open_leads_a_browser_to_the_link_without_showing_it_to_other_users(tmp_path: Path, browser: Path) -> None:
    with running_up(tmp_path) as (_, api):
        environment = {"TIMEBALL_URL": api.url, "TIMEBALL_TOKEN": KEY, "BROWSER": str(browser)}
        with Terminal(tmp_path, ["open"], environment) as command:
            assert command.wait() == 0, command.output
        (printed,) = LINK.finditer(command.output)
        opened = until(lambda: (tmp_path / "opened").read_text(), "the browser")
        assert printed[1] not in opened, "the arguments of a process are visible to all users"
        page = Path(opened.strip().removeprefix("file://"))
        assert stat.S_IMODE(page.stat().st_mode) == 0o600
        assert printed[0] in page.read_text()
        assert page.is_relative_to(data_dir(tmp_path)), "jobs cannot read the data folder"
        assert sign_in(api.url, printed[1]).status_code == 200


@pytest.mark.parametrize("arguments", [["open", "--no-browser"], ["open", "-o", "json"]])
def test_open_starts_no_browser_where_it_should_not(tmp_path: Path, browser: Path, arguments: list[str]) -> None:
    with running_up(tmp_path) as (_, api):
        environment = {"TIMEBALL_URL": api.url, "TIMEBALL_TOKEN": KEY, "BROWSER": str(browser)}
        with Terminal(tmp_path, arguments, environment) as command:
            assert command.wait() == 0, command.output
        assert len(LINK.findall(command.output)) == 1
        piped = subprocess.run(
            [sys.executable, "-m", "timeball", "open"],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
        )
        assert LINK.fullmatch(piped.stdout.strip())
        assert not (tmp_path / "opened").exists()


def test_open_uses_the_address_of_a_tunnel(tmp_path: Path) -> None:
    """Without a public URL, the server cannot know under which address a browser reaches it."""
    with running_up(tmp_path) as (_, api):
        url = api.url.replace("127.0.0.1", "localhost")
        command = [sys.executable, "-m", "timeball", "open", "--url", url]
        done = subprocess.run(command, env={**os.environ, "TIMEBALL_TOKEN": KEY}, capture_output=True, text=True)
        link = LINK.fullmatch(done.stdout.strip())
        assert link is not None, done.stderr
        assert link[0].startswith(f"{url}/#")
        assert sign_in(url, link[1]).status_code == 200


# --- the guide ------------------------------------------------------------------------------------------------------

GUIDE = (ROOT / "docs/howto/web.md").read_text("utf-8")
SERVERS = re.findall(r"^timeball server .+$", GUIDE, re.MULTILINE)


@pytest.mark.parametrize("command", SERVERS)
def test_the_servers_of_the_guide_start_and_sign_browsers_in_at_their_public_url(tmp_path: Path, command: str) -> None:
    arguments = shlex.split(command)[1:]
    public_url = arguments[arguments.index("--public-url") + 1]
    authority = Authority(tmp_path)
    authority.issue(tmp_path / "cert.pem", tmp_path / "key.pem")
    port = free_port()
    arguments += ["--port", str(port), "--data-dir", str(data_dir(tmp_path))]
    scheme = "https" if "--tls-cert" in arguments else "http"
    with Process(tmp_path, arguments, cwd=tmp_path) as process, Api(f"{scheme}://127.0.0.1:{port}") as api:
        api.await_ready(process)
        assert "refuses sign-in" not in process.output
        link = LINK.fullmatch(api.call("POST", "/v1/sign-in-links", expect=201)["url"])
        assert link is not None
        assert link[0].startswith(f"{public_url}/#")
        own = httpx2.URL(public_url)
        page = {"Host": own.netloc.decode(), "Origin": f"{own.scheme}://{own.netloc.decode()}", **JSON}
        answer = api.http.post("/v1/sign-in", json={"token": link[1]}, headers={**page, "Authorization": ""})
        assert answer.status_code == 200, answer.text
        assert ("; Secure" in answer.headers["set-cookie"]) == (own.scheme == "https")


def test_a_server_that_other_machines_reach_over_http_warns_and_refuses_sign_in(tmp_path: Path) -> None:
    port = free_port()
    arguments = ["server", "--host", "0.0.0.0", "--port", str(port), "--data-dir", str(data_dir(tmp_path))]
    with Process(tmp_path, arguments) as process, Api(f"http://127.0.0.1:{port}") as api:
        api.await_ready(process)
        assert "refuses sign-in" in process.output
        answer = api.http.post("/v1/sign-in", json={"apiKey": KEY}, headers={"Origin": api.url})
        assert (answer.status_code, answer.json()["code"]) == (403, "sign_in_refused")
        assert "set-cookie" not in answer.headers
        assert api.call("GET", "/v1/jobs")["items"] == []


# --- the wheel ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of an environment that has the wheel and what it depends on, and nothing from the source folder."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "env", with_pip=False)
    python = folder / "env/bin/python"
    site = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    # Dependencies come from the environment of the tests. Its own `.pth` files, with the source folder, are not read.
    (Path(site) / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return python


def test_an_installed_wheel_serves_the_web_ui_without_node(installed: Path, tmp_path: Path) -> None:
    port = free_port()
    found = subprocess.run(
        [installed, "-c", "import timeball; print(timeball.__file__)"], cwd=tmp_path, capture_output=True, text=True
    )
    assert str(installed.parents[1]) in found.stdout, found.stderr
    environment = {"PATH": str(installed.parent), "PYTHONPATH": ""}
    arguments = ["up", "--port", str(port), "--data-dir", str(data_dir(tmp_path))]
    with (
        Process(tmp_path, arguments, environment, str(installed), cwd=tmp_path) as process,
        Api(f"http://127.0.0.1:{port}") as api,
    ):
        api.await_ready(process)
        page = api.http.get("/", headers={"Authorization": "", "Accept": "text/html"})
        assert page.status_code == 200
        assert '<base href="/"' in page.text
        assert "__TIMEBALL" not in page.text
        assets = [found.removeprefix("./") for found in re.findall(r'(?:src|href)="(\./[^"]+)"', page.text)]
        assert any(name.endswith(".js") for name in assets)
        for name in assets:
            answer = api.http.get(f"/{name}", headers={"Accept-Encoding": "gzip"})
            assert answer.status_code == 200
            assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
