"""What methods need of their client."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from typing import TypeVar

from timeball.client.requests.request import Page, Request

T = TypeVar("T")


class Asking(ABC):
    """The base of the methods of `Client`."""

    @abstractmethod
    def ask(self, request: Request[T]) -> T: ...

    @abstractmethod
    def _stream(self, request: Request[T]) -> Iterator[bytes]: ...

    @abstractmethod
    def _pages(self, page: Callable[[str | None], Request[Page[T]]]) -> Iterator[T]: ...


class AsyncAsking(ABC):
    """The base of the methods of `AsyncClient`. Its modules are imported by `Client`, too, which does without asyncio:
    so a method sleeps by way of its client."""

    @abstractmethod
    async def ask(self, request: Request[T]) -> T: ...

    @abstractmethod
    def _stream(self, request: Request[T]) -> AsyncGenerator[bytes, None]: ...

    @abstractmethod
    def _pages(self, page: Callable[[str | None], Request[Page[T]]]) -> AsyncIterator[T]: ...

    @abstractmethod
    async def _sleep(self, seconds: float) -> None: ...
