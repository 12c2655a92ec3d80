"""Methods about browsers that are signed in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from timeball.client.methods.asking import Asking, AsyncAsking
from timeball.client.models.sign_in import SignInLink, WebSession
from timeball.client.requests import sign_in as requests


class SignInMethods(Asking):
    """Methods of `Client` about web sessions."""

    def create_sign_in_link(self) -> SignInLink:
        """Return a link that opens the web UI, signed in with the client's key. It works once, within 10 minutes."""
        return self.ask(requests.create_sign_in_link())

    def sessions(self) -> Iterator[WebSession]:
        """Yield the browsers that are signed in, newest first."""
        return self._pages(lambda cursor: requests.sessions(cursor=cursor))

    def revoke_session(self, session_id: str) -> None:
        """Sign a browser out."""
        self.ask(requests.revoke_session(session_id))


class AsyncSignInMethods(AsyncAsking):
    """Methods of `AsyncClient` about web sessions."""

    async def create_sign_in_link(self) -> SignInLink:
        """Return a link that opens the web UI, signed in with the client's key. It works once, within 10 minutes."""
        return await self.ask(requests.create_sign_in_link())

    def sessions(self) -> AsyncIterator[WebSession]:
        """Yield the browsers that are signed in, newest first."""
        return self._pages(lambda cursor: requests.sessions(cursor=cursor))

    async def revoke_session(self, session_id: str) -> None:
        """Sign a browser out."""
        await self.ask(requests.revoke_session(session_id))
