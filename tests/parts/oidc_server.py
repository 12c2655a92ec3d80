"""A real OpenID Connect provider, oidc-provider, and a Timeball server that uses it."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx

from tests.parts.catalog import require
from tests.support.processes import Api, Process, data_dir, free_port, until

PROGRAM = Path(__file__).with_suffix(".mjs")
CLIENT_SECRET = "a-secret:of+the-clients/"


class OidcServer:
    """Users have any password: `ada` is an admin, `vera` a viewer, and others have no role."""

    def __init__(self, folder: Path, redirect_uri: str) -> None:
        self._command = [
            "node",
            PROGRAM,
            require("oidc-provider"),
            str(port := free_port()),
            redirect_uri,
            CLIENT_SECRET,
        ]
        self._log = folder / "oidc-provider.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.issuer = f"http://127.0.0.1:{port}"

    def start(self) -> None:
        """Start with new keys, and without any session."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        until(self.metadata, "the provider")

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)
            self._process = None

    def rotate_keys(self) -> None:
        self.stop()
        self.start()

    def metadata(self) -> dict[str, Any]:
        found: dict[str, Any] = httpx.get(f"{self.issuer}/.well-known/openid-configuration").json()
        return found

    def bearer_token(self) -> str:
        """The token of a program that has the role operator."""
        form = {"grant_type": "client_credentials"}
        answer = httpx.post(f"{self.issuer}/token", data=form, auth=("deploy-bot", CLIENT_SECRET.replace("+", "%2B")))
        assert answer.status_code == 200, answer.text
        token: str = answer.json()["access_token"]
        return token


@contextlib.contextmanager
def running_with_provider(folder: Path) -> Iterator[tuple[OidcServer, Api]]:
    """Start the provider, and a server whose sign-in page and bearer tokens use it."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    provider = OidcServer(folder, f"{url}/sign-in")
    (secret := folder / "client.secret").write_text(CLIENT_SECRET, "utf-8")
    secret.chmod(0o600)
    settings = {
        "JWT_ISSUER": provider.issuer,
        "JWT_AUDIENCE": "timeball",
        "OIDC_CLIENT_ID": "timeball-ui",
        "OIDC_CLIENT_SECRET_FILE": str(secret),
        "OIDC_NAME": "Example ID",
    }
    environment = {f"TIMEBALL_{name}": value for name, value in settings.items()}
    arguments = ["up", "--port", str(port), "--data-dir", str(data_dir(folder))]
    with contextlib.ExitStack() as stack:
        stack.callback(provider.stop)
        provider.start()
        process = stack.enter_context(Process(folder, arguments, environment))
        api = stack.enter_context(Api(url))
        api.await_ready(process)
        yield provider, api


def status_of(api: Api, token: str) -> int:
    """Return the status of a request with a bearer token."""
    return httpx.get(f"{api.url}/v1/me", headers={"authorization": f"Bearer {token}"}).status_code
