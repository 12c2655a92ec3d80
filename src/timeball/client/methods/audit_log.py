"""Methods about the audit log."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing

from timeball.client.methods.asking import Asking, AsyncAsking
from timeball.client.models.registry import AuditEntry
from timeball.client.requests import audit_log as requests
from timeball.client.requests.request import When


class AuditLogMethods(Asking):
    """Methods of `Client` about the audit log."""

    def audit_log(
        self,
        *,
        scope: str | None = None,
        actor: str | None = None,
        action: str | None = None,
        resource: str | None = None,
        since: When | None = None,
        until: When | None = None,
    ) -> Iterator[AuditEntry]:
        """Yield the entries of the audit log, newest first. `actor` is the id or the name of a credential, or the id of
        a user; `action` may end with `*`; `resource` is the id of what was changed. The scope `system` has the changes
        that belong to no tenant, and needs the permission `system`."""
        return self._pages(
            lambda cursor: requests.audit_log(
                scope=scope, actor=actor, action=action, resource=resource, since=since, until=until, cursor=cursor
            )
        )

    def export_audit_log(self, *, scope: str | None = None) -> Iterator[bytes]:
        """Yield the lines of an export of the audit log, oldest entry first, each with its newline."""
        rest = b""
        for data in self._stream(requests.export(scope=scope)):
            *lines, rest = (rest + data).split(b"\n")
            yield from (line + b"\n" for line in lines)
        if rest:
            yield rest


class AsyncAuditLogMethods(AsyncAsking):
    """Methods of `AsyncClient` about the audit log."""

    def audit_log(
        self,
        *,
        scope: str | None = None,
        actor: str | None = None,
        action: str | None = None,
        resource: str | None = None,
        since: When | None = None,
        until: When | None = None,
    ) -> AsyncIterator[AuditEntry]:
        """Yield the entries of the audit log, newest first. `actor` is the id or the name of a credential, or the id of
        a user; `action` may end with `*`; `resource` is the id of what was changed. The scope `system` has the changes
        that belong to no tenant, and needs the permission `system`."""
        return self._pages(
            lambda cursor: requests.audit_log(
                scope=scope, actor=actor, action=action, resource=resource, since=since, until=until, cursor=cursor
            )
        )

    async def export_audit_log(self, *, scope: str | None = None) -> AsyncGenerator[bytes, None]:
        """Yield the lines of an export of the audit log, oldest entry first, each with its newline."""
        rest = b""
        async with aclosing(self._stream(requests.export(scope=scope))) as parts:
            async for data in parts:
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    yield line + b"\n"
        if rest:
            yield rest
