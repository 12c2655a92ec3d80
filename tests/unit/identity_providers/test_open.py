"""From settings to a provider: which combinations are refused, and what each one opens."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.tokens import SECRET, signing_key
from timeball import config, system
from timeball.config import InvalidSetting
from timeball.domain.instant import HOUR
from timeball.identity_providers.open import open_identity_provider

ISSUER = "https://id.example.org/realm"
KEYS = "https://id.example.org/keys"


def configured(folder: Path, **settings: str) -> config.ServerConfig:
    environ = {f"TIMEBALL_{name.upper()}": value for name, value in settings.items()}
    return config.server({"data_dir": str(folder)}, {"HOME": str(folder), **environ})


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"jwt_audience": "timeball"}, "need jwt_issuer"),
        ({"oidc_client_id": "ui"}, "need jwt_issuer"),
        ({"jwt_issuer": ISSUER, "jwt_audience": "timeball", "oidc_name": "Example"}, "need oidc_client_id"),
        ({"jwt_issuer": ISSUER, "jwt_audience": "timeball", "oidc_client_secret": "x" * 32}, "need oidc_client_id"),
        ({"jwt_issuer": ISSUER, "oidc_client_id": "ui", "oidc_session_lifetime": "30d"}, "7d"),
        ({"jwt_issuer": ISSUER}, "jwt_issuer needs jwt_audience"),
        ({"jwt_issuer": "id.example.org", "jwt_audience": "timeball"}, "discovery document"),
        ({"jwt_issuer": "http://id.example.org", "jwt_audience": "timeball"}, "https"),
        ({"jwt_issuer": "name", "jwt_audience": "timeball", "jwt_secret": "x" * 32, "oidc_client_id": "ui"}, "discov"),
        ({"jwt_issuer": ISSUER, "jwt_audience": "timeball", "jwt_secret": "x" * 31}, "32 or more"),
        ({"jwt_issuer": ISSUER, "jwt_audience": "timeball", "jwt_secret": "x" * 32, "jwt_keys": KEYS}, "exclude"),
        ({"jwt_issuer": ISSUER, "jwt_audience": "timeball", "jwt_keys": "http://10.0.0.1/keys"}, "https"),
        ({"jwt_issuer": ISSUER, "jwt_audience": "timeball", "jwt_keys": "file:///etc/passwd"}, "https"),
        ({"jwt_issuer": ISSUER, "jwt_audience": "timeball", "jwt_lifetime": "0"}, "jwt_lifetime"),
        ({"jwt_issuer": ISSUER, "jwt_audience": "timeball", "jwt_lifetime": "30d"}, "7d"),
        ({"jwt_issuer": ISSUER, "jwt_audience": "timeball", "jwt_roles": "admins"}, "VALUE=ROLE"),
        ({"jwt_issuer": ISSUER, "jwt_audience": "timeball", "jwt_roles": "admins=root"}, "viewer"),
        ({"jwt_issuer": ISSUER, "jwt_audience": "timeball", "jwt_roles": "machines=worker"}, "viewer"),
    ],
)
def test_a_wrong_combination_is_refused_with_its_reason(tmp_path: Path, settings: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        configured(tmp_path, **settings)
    assert reason in refused.value.detail
    assert "x" * 31 not in refused.value.detail


@pytest.mark.parametrize("secret", ["rsa", "p256"])
def test_a_public_key_is_not_a_secret(tmp_path: Path, secret: str) -> None:
    """The key would be known to everybody. In the environment its lines are one."""
    text = signing_key(secret).public_pem.decode().strip()
    file = tmp_path / "secret"
    file.write_text(text.replace("\n", " "), "utf-8")
    settings = {"jwt_issuer": ISSUER, "jwt_audience": "timeball", "jwt_secret_file": str(file)}
    file.chmod(0o600)
    with pytest.raises(InvalidSetting, match="jwt_secret"):
        open_identity_provider(configured(tmp_path, **settings), system.SystemClock(), system.wall, AsyncExitStack())


@pytest.mark.parametrize(
    ("settings", "tokens", "sign_in"),
    [
        ({"jwt_audience": "timeball"}, True, None),
        ({"jwt_audience": "timeball", "jwt_keys": KEYS}, True, None),
        ({"jwt_audience": "timeball", "jwt_secret": SECRET.decode()}, True, None),
        ({"oidc_client_id": "ui"}, False, "id.example.org"),
        ({"oidc_client_id": "ui", "oidc_name": "Example"}, False, "Example"),
        ({"jwt_audience": "timeball", "oidc_client_id": "ui"}, True, "id.example.org"),
    ],
)
async def test_a_provider_accepts_what_the_settings_name(
    tmp_path: Path, settings: dict[str, Any], tokens: bool, sign_in: str | None
) -> None:
    found = configured(tmp_path, jwt_issuer=ISSUER, **settings)
    async with AsyncExitStack() as stack:
        opened = open_identity_provider(found, system.SystemClock(), system.wall, stack)
        assert (opened.tokens is not None) is tokens
        assert (None if opened.sign_in is None else opened.sign_in.name) == sign_in


def test_an_installation_without_a_provider_has_no_such_setting(tmp_path: Path) -> None:
    """No default names a provider, a secret or a role."""
    found = configured(tmp_path)
    assert found.jwt_issuer is found.jwt_secret is found.jwt_roles is found.oidc_client_id is None
    assert found.oidc_session_lifetime == 12 * HOUR


def test_groups_are_mapped_to_roles(tmp_path: Path) -> None:
    found = configured(tmp_path, jwt_issuer=ISSUER, jwt_audience="a", jwt_roles="cn=platform=admin, all staff=viewer")
    assert found.jwt_roles == (("cn=platform", "admin"), ("all staff", "viewer"))


def test_secrets_are_not_printed(tmp_path: Path) -> None:
    settings = {"jwt_secret": "s" * 40, "oidc_client_secret": "c" * 40, "oidc_client_id": "ui"}
    found = configured(tmp_path, jwt_issuer=ISSUER, **settings)
    assert "s" * 40 not in repr(found)
    assert "c" * 40 not in repr(found)
