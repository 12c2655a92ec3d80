"""The functions of a client that its methods use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from typing import TypeVar

from timeball.client.requests.request import ApiRequest, ListPart

T = TypeVar("T")


class Asking(ABC):
    """Base class of the method classes of `Client`."""

    @abstractmethod
    def ask(self, request: ApiRequest[T]) -> T: ...

    @abstractmethod
    def _stream(self, request: ApiRequest[T]) -> Iterator[bytes]: ...

    @abstractmethod
    def _pages(self, page: Callable[[str | None], ApiRequest[ListPart[T]]]) -> Iterator[T]: ...


class AsyncAsking(ABC):
    """Base class of the method classes of `AsyncClient`. `Client` imports the same modules and must not import asyncio,
    so the methods sleep with `_sleep` of their client."""

    @abstractmethod
    async def ask(self, request: ApiRequest[T]) -> T: ...

    @abstractmethod
    def _stream(self, request: ApiRequest[T]) -> AsyncGenerator[bytes, None]: ...

    @abstractmethod
    def _pages(self, page: Callable[[str | None], ApiRequest[ListPart[T]]]) -> AsyncIterator[T]: ...

    @abstractmethod
    async def _sleep(self, seconds: float) -> None: ...
