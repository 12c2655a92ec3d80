"""Checks an installation: this machine, its store and its servers. Nothing is changed, but for a probe object that is
written and deleted."""

from __future__ import annotations

from collections.abc import Iterator

from timeball.bootstrap.doctor.finding import Finding
from timeball.bootstrap.doctor.machine import check_machine
from timeball.bootstrap.doctor.server import check_servers
from timeball.bootstrap.doctor.store import check_store
from timeball.bootstrap.hardening import hide_secrets
from timeball.config import DoctorConfig

__all__ = ["Finding", "examine"]


def examine(config: DoctorConfig) -> Iterator[Finding]:
    hide_secrets()
    yield from check_machine(config)
    yield from check_store(config)
    yield from check_servers(config)
