"""Objects in a folder, or in a bucket of S3, Google Cloud or Azure. Credentials come from the environment variables of
these services.

/srv/timeball/archive          a folder
s3://bucket/prefix             AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, …, or the role of the machine
s3://bucket/prefix?endpoint=http://minio:9000&region=eu
                               a server with the S3 protocol; or AWS_ENDPOINT_URL
gs://bucket/prefix             GOOGLE_APPLICATION_CREDENTIALS
az://container/prefix          AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from timeball.domain.errors import Invalid, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from obstore.store import ObjectStore

T = TypeVar("T")

AT_ONCE: Final = 8
"""Maximum number of objects of one call that are transferred at the same time."""
REQUEST_TIMEOUT: Final = timedelta(seconds=30)
"""Timeout of one request, including its retries."""


def open_objects(place: str) -> Bucket:
    """Open the folder or the bucket at `place`, a path or a URL. A folder that is missing is created."""
    if "://" in place:
        return Bucket(_remote(place))
    from obstore.store import LocalStore

    folder = Path(place)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Folder(LocalStore(folder), folder)


class Bucket:
    """Implements `timeball.ports.object_store.Objects` in a bucket. Its subclass `Folder` also syncs files to the
    disk."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def put(self, objects: Mapping[str, bytes]) -> None:
        with _translated_errors():
            await _few_at_once(self._put(key, content) for key, content in objects.items())

    async def get(self, keys: Sequence[str]) -> list[bytes | None]:
        with _translated_errors():
            return await _few_at_once(self._get(key) for key in keys)

    async def folders(self, prefix: str) -> list[str]:
        with _translated_errors():
            found = await self._store.list_with_delimiter_async(prefix.rstrip("/"))
        return sorted(f"{each}/" for each in found["common_prefixes"])

    async def list(self, prefix: str) -> list[str]:
        found: list[str] = []
        with _translated_errors():
            async for some in self._store.list(prefix.rstrip("/")):
                found += [each["path"] for each in some]
        return sorted(found)

    async def delete(self, keys: Sequence[str]) -> None:
        with _translated_errors():
            await _few_at_once(self._delete(key) for key in keys)

    async def _put(self, key: str, content: bytes) -> None:
        await self._store.put_async(key, content)

    async def _get(self, key: str) -> bytes | None:
        try:
            found = await self._store.get_async(key)
        except FileNotFoundError:
            return None
        return bytes(await found.bytes_async())

    async def _delete(self, key: str) -> None:
        try:
            await self._store.delete_async(key)
        except FileNotFoundError:
            return


class Folder(Bucket):
    """Implements `timeball.ports.object_store.Objects` in a folder. A written file is synced, because it could be lost
    in a power failure before that.
    """

    def __init__(self, store: ObjectStore, folder: Path) -> None:
        super().__init__(store)
        self._folder = folder

    async def _put(self, key: str, content: bytes) -> None:
        await super()._put(key, content)
        await asyncio.to_thread(self._sync, key)

    def _sync(self, key: str) -> None:
        """Sync the file and every folder on its path, since each may be new."""
        path = self._folder / key
        for each in (path, *path.parents):
            descriptor = os.open(each, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if each == self._folder:
                return


class Unopened:
    """Objects of a folder or bucket that is opened when it is first used: most servers never use it. Reading from a
    folder that does not exist finds nothing and does not create it.
    """

    def __init__(self, place: str) -> None:
        self._place = place
        self._opened: Bucket | None = None

    async def put(self, objects: Mapping[str, bytes]) -> None:
        await (await self._open()).put(objects)

    async def get(self, keys: Sequence[str]) -> list[bytes | None]:
        return await (await self._open()).get(keys) if self._may_have_some() else [None for _ in keys]

    async def folders(self, prefix: str) -> list[str]:
        return await (await self._open()).folders(prefix) if self._may_have_some() else []

    async def delete(self, keys: Sequence[str]) -> None:
        if self._may_have_some():
            await (await self._open()).delete(keys)

    async def list(self, prefix: str) -> list[str]:
        return await (await self._open()).list(prefix) if self._may_have_some() else []

    def _may_have_some(self) -> bool:
        return "://" in self._place or Path(self._place).is_dir()

    async def _open(self) -> Bucket:
        if self._opened is None:
            self._opened = await asyncio.to_thread(_opened, self._place)
        return self._opened


def _opened(place: str) -> Bucket:
    try:
        return open_objects(place)
    except OSError as error:
        raise Unavailable(f"the folder {place} cannot be used: {error.strerror}") from error


async def _few_at_once(work: Iterable[Awaitable[T]]) -> list[T]:
    room = asyncio.Semaphore(AT_ONCE)

    async def one(each: Awaitable[T]) -> T:
        async with room:
            return await each

    return await asyncio.gather(*map(one, work))


def _remote(url: str) -> ObjectStore:
    from obstore.exceptions import BaseError
    from obstore.store import from_url

    parts = urlsplit(url)
    options: dict[str, Any] = dict(parse_qsl(parts.query))
    try:
        return from_url(
            urlunsplit(parts._replace(query="")),
            # `allow_http`: connections are unencrypted only if the endpoint is an http:// address.
            client_options={"timeout": REQUEST_TIMEOUT, "connect_timeout": timedelta(seconds=5), "allow_http": True},
            retry_config={"max_retries": 3, "retry_timeout": REQUEST_TIMEOUT},
            **options,
        )
    except BaseError as error:
        raise Invalid(f"the archive {parts.scheme}://{parts.netloc} cannot be used: {_first_line(error)}") from None


@contextmanager
def _translated_errors() -> Iterator[None]:
    """Turn the errors of the library into `Unavailable`. That includes missing permissions: an operator has to fix
    them, nothing is lost, and the call is repeated, as for a server that cannot be reached.
    """
    from obstore.exceptions import BaseError

    try:
        yield
    except (BaseError, OSError) as error:
        raise Unavailable(f"the object storage does not answer: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    """Return the first line of an error message. The lines after it show internals of the library."""
    return next(iter(str(error).splitlines()), type(error).__name__)[:500]
