"""The public surface: `timeball.__all__`, its types, and how little `import timeball` imports."""

import subprocess
import sys
import tomllib
from pathlib import Path

import timeball

ROOT = Path(__file__).parents[2]
HEAVY = {"aiohttp", "asyncio", "click", "httpx2", "inspect", "msgspec", "rich", "ssl", "typing"}


def test_the_surface_is_what_all_says() -> None:
    assert timeball.__all__ == sorted(timeball.__all__)
    assert len(timeball.__all__) <= 15
    assert set(dir(timeball)) == set(timeball.__all__)
    for name in timeball.__all__:
        assert getattr(timeball, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(timeball, "Scheduler")


def test_the_version_is_the_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["dynamic"] == ["version"]


def test_importing_timeball_imports_next_to_nothing() -> None:
    code = "import sys; before = set(sys.modules); import timeball; print(*(set(sys.modules) - before))"
    loaded = set(_python("-c", code).split())
    assert not loaded & HEAVY
    assert len(loaded) < 10


def test_the_synchronous_client_does_without_what_the_other_one_needs() -> None:
    code = "import sys, timeball; timeball.Client('http://127.0.0.1:9').close(); print(*sys.modules)"
    loaded = set(_python("-c", code).split())
    assert "timeball.client.client" in loaded
    assert not loaded & {"aiohttp", "asyncio", "timeball.client.async_client"}


def _python(*arguments: str) -> str:
    return subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True, cwd=ROOT).stdout
