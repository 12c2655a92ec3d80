"""Methods about tenants, users and usage."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from timeball.client.methods.asking import Asking, AsyncAsking
from timeball.client.models.registry import Tenant, UsageGroup, User
from timeball.client.requests import tenants as requests
from timeball.client.requests.tenants import Day


class TenantMethods(Asking):
    """Methods of `Client` about tenants, users and usage."""

    def tenants(self) -> Iterator[Tenant]:
        """Yield all tenants. This needs the permission `system`."""
        return self._pages(lambda cursor: requests.tenants(cursor=cursor))

    def tenant(self, tenant_id: str) -> Tenant:
        """Return a tenant: that of this client, or any other with the permission `system`."""
        return self.ask(requests.tenant(tenant_id))

    def create_tenant(
        self, tenant_id: str, *, name: str = "", description: str = "", limits: Mapping[str, Any] | None = None
    ) -> Tenant:
        """Create a tenant. `limits` are in the JSON of the API, such as `{"jobs": 100, "maxPriority": 7}`."""
        fields = {"name": name, "description": description, "limits": dict(limits or {})}
        return self.ask(requests.create_tenant(tenant_id, fields))

    def update_tenant(self, tenant_id: str, change: Mapping[str, Any], *, version: int | None = None) -> Tenant:
        """Change a tenant: `name`, `description` and `limits`, which are replaced as a whole. With a version, the
        server refuses the change if the tenant has another one."""
        return self.ask(requests.update_tenant(tenant_id, change, version=version))

    def delete_tenant(self, tenant_id: str) -> Tenant:
        """Delete a tenant with everything it owns, for good. Its credentials are refused at once. The rest follows in
        the background: `tenant` shows how far it is, and raises `NotFound` in the end."""
        return self.ask(requests.delete_tenant(tenant_id))

    def usage(
        self,
        *,
        since: Day | None = None,
        until: Day | None = None,
        by: Sequence[str] = ("tenant", "day"),
        tenant_id: str | None = None,
        user_id: str | None = None,
        job_id: str | None = None,
    ) -> Iterator[UsageGroup]:
        """Yield usage and cost, in groups `by` any of `tenant`, `user`, `job` and `day`, for the days from `since` to
        before `until`, in UTC. By default, that is the last 30 days. With the permission `system`, the usage of all
        tenants is included, unless `tenant_id` names one."""
        which = {"tenant_id": tenant_id, "user_id": user_id, "job_id": job_id}
        return self._pages(
            lambda cursor: requests.usage(since=since, until=until, by=by, **which, limit=1_000, cursor=cursor)
        )

    def users(self) -> Iterator[User]:
        """Yield all users of the tenant."""
        return self._pages(lambda cursor: requests.users(cursor=cursor))

    def user(self, user_id: str) -> User:
        """Return a user of the tenant."""
        return self.ask(requests.user(user_id))

    def create_user(
        self, user_id: str, role: str, *, name: str = "", email: str = "", subject: str | None = None
    ) -> User:
        """Create a user. `subject` is its id at the identity provider."""
        fields = {"role": role, "name": name, "email": email, "subject": subject}
        return self.ask(requests.create_user(user_id, fields))

    def update_user(self, user_id: str, change: Mapping[str, Any], *, version: int | None = None) -> User:
        """Change a user: `name`, `email`, `role`, `subject` and `state`. A change takes effect within 3 seconds."""
        return self.ask(requests.update_user(user_id, change, version=version))

    def delete_user(self, user_id: str) -> None:
        """Delete a user, and revoke its keys."""
        self.ask(requests.delete_user(user_id))


class AsyncTenantMethods(AsyncAsking):
    """Methods of `AsyncClient` about tenants, users and usage."""

    def tenants(self) -> AsyncIterator[Tenant]:
        """Yield all tenants. This needs the permission `system`."""
        return self._pages(lambda cursor: requests.tenants(cursor=cursor))

    async def tenant(self, tenant_id: str) -> Tenant:
        """Return a tenant: that of this client, or any other with the permission `system`."""
        return await self.ask(requests.tenant(tenant_id))

    async def create_tenant(
        self, tenant_id: str, *, name: str = "", description: str = "", limits: Mapping[str, Any] | None = None
    ) -> Tenant:
        """Create a tenant. `limits` are in the JSON of the API, such as `{"jobs": 100, "maxPriority": 7}`."""
        fields = {"name": name, "description": description, "limits": dict(limits or {})}
        return await self.ask(requests.create_tenant(tenant_id, fields))

    async def update_tenant(self, tenant_id: str, change: Mapping[str, Any], *, version: int | None = None) -> Tenant:
        """Change a tenant: `name`, `description` and `limits`, which are replaced as a whole. With a version, the
        server refuses the change if the tenant has another one."""
        return await self.ask(requests.update_tenant(tenant_id, change, version=version))

    async def delete_tenant(self, tenant_id: str) -> Tenant:
        """Delete a tenant with everything it owns, for good. Its credentials are refused at once. The rest follows in
        the background: `tenant` shows how far it is, and raises `NotFound` in the end."""
        return await self.ask(requests.delete_tenant(tenant_id))

    def usage(
        self,
        *,
        since: Day | None = None,
        until: Day | None = None,
        by: Sequence[str] = ("tenant", "day"),
        tenant_id: str | None = None,
        user_id: str | None = None,
        job_id: str | None = None,
    ) -> AsyncIterator[UsageGroup]:
        """Yield usage and cost, in groups `by` any of `tenant`, `user`, `job` and `day`, for the days from `since` to
        before `until`, in UTC. By default, that is the last 30 days. With the permission `system`, the usage of all
        tenants is included, unless `tenant_id` names one."""
        which = {"tenant_id": tenant_id, "user_id": user_id, "job_id": job_id}
        return self._pages(
            lambda cursor: requests.usage(since=since, until=until, by=by, **which, limit=1_000, cursor=cursor)
        )

    def users(self) -> AsyncIterator[User]:
        """Yield all users of the tenant."""
        return self._pages(lambda cursor: requests.users(cursor=cursor))

    async def user(self, user_id: str) -> User:
        """Return a user of the tenant."""
        return await self.ask(requests.user(user_id))

    async def create_user(
        self, user_id: str, role: str, *, name: str = "", email: str = "", subject: str | None = None
    ) -> User:
        """Create a user. `subject` is its id at the identity provider."""
        fields = {"role": role, "name": name, "email": email, "subject": subject}
        return await self.ask(requests.create_user(user_id, fields))

    async def update_user(self, user_id: str, change: Mapping[str, Any], *, version: int | None = None) -> User:
        """Change a user: `name`, `email`, `role`, `subject` and `state`. A change takes effect within 3 seconds."""
        return await self.ask(requests.update_user(user_id, change, version=version))

    async def delete_user(self, user_id: str) -> None:
        """Delete a user, and revoke its keys."""
        await self.ask(requests.delete_user(user_id))
