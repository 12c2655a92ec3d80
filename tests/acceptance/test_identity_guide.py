"""The settings and commands of the guide to identity providers, against real servers and a provider over real HTTP."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.support.identity_provider import CLIENT_SECRET, provider_in_a_thread
from tests.support.processes import Api, Process, data_dir, free_port

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "identity.md").read_text("utf-8")
PROVIDER = "https://id.example.org/realms/main"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@contextmanager
def running_with(folder: Path, settings: str) -> Iterator[Api]:
    """`timeball up` with this `timeball.toml`."""
    file = folder / "settings.toml"
    file.write_text(settings, "utf-8")
    port = free_port()
    arguments = ["up", "--port", str(port), "--data-dir", str(data_dir(folder))]
    environment = {"TIMEBALL_CONFIG": str(file)}
    with Process(folder, arguments, environment, cwd=folder) as process, Api(f"http://127.0.0.1:{port}") as api:
        api.await_ready(process)
        yield api


def run(folder: Path, api: Api, command: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "TIMEBALL_TOKEN"}
    environment |= {"TIMEBALL_URL": api.url, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def test_a_token_of_the_provider_is_used_as_the_guide_says(tmp_path: Path) -> None:
    accept, mapping, *_ = blocks("toml")
    commands = [line for line in blocks("sh")[0].splitlines() if line]
    with (
        provider_in_a_thread() as provider,
        running_with(tmp_path, (accept + mapping).replace(PROVIDER, provider.url)) as api,
    ):
        groups = {"realm_access": {"roles": ["offline", "staff", "on-call"]}}
        (tmp_path / "token.jwt").write_text(provider.issue("timeball", tenant=None, role=None, **groups), "utf-8")
        assert len(commands) == 2
        printed = [run(tmp_path, api, command) for command in commands]
        assert '"role":"operator"' in printed[1]
        log = next(tmp_path.glob("up-*.log")).read_text()
    assert "eyJ" not in log


def test_a_browser_signs_in_as_the_guide_says(tmp_path: Path) -> None:
    _, mapping, sign_in, _ = blocks("toml")
    (public_url,) = re.findall('^public_url = "(.*)"$', sign_in, re.MULTILINE)
    (secret := tmp_path / "client.secret").write_text(CLIENT_SECRET, "utf-8")
    secret.chmod(0o600)
    page = {"host": urlsplit(public_url).netloc, "origin": public_url, "content-type": "application/json"}
    with (
        provider_in_a_thread() as provider,
        running_with(tmp_path, (sign_in + mapping).replace(PROVIDER, provider.url)) as api,
    ):
        provider.user = {"sub": "user-1", "name": "Ada", "realm_access": {"roles": ["staff", "platform"]}}
        assert api.http.get("/v1/sign-in/provider").json() == {"name": "Example ID"}
        begun = api.http.post("/v1/sign-in/provider", headers=page)
        back = urlsplit(provider.authorize(begun.json()["url"]))
        assert f"`{back.scheme}://{back.netloc}{back.path}`" in PAGE, "the page names the redirect URI to register"
        answer = {name: values[0] for name, values in parse_qs(back.query).items()}
        cookie = begun.headers["set-cookie"].partition(";")[0]
        signed_in = api.http.post("/v1/sign-in", headers={**page, "cookie": cookie}, json={"provider": answer})
        assert (signed_in.status_code, signed_in.json()["role"], signed_in.json()["name"]) == (200, "admin", "Ada")


def test_a_shared_secret_is_used_as_the_guide_says(tmp_path: Path) -> None:
    run(tmp_path, Api("http://127.0.0.1:1"), blocks("sh")[1])
    with running_with(tmp_path, blocks("toml")[3]) as api:
        (tmp_path / "issue.py").write_text(blocks("python")[0], "utf-8")
        run(tmp_path, api, f"{sys.executable} issue.py")
        assert '"role":"operator"' in run(tmp_path, api, blocks("sh")[0].splitlines()[1])
