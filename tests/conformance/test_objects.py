"""Object storage: a folder and a bucket keep the same contract (the port `object_store`)."""

import asyncio
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from tests.support.builders import job
from tests.support.history import add, finished
from tests.support.s3 import s3_server
from timeball import system
from timeball.domain import instant
from timeball.domain.errors import Invalid, Unavailable
from timeball.domain.instant import HOUR, SECOND
from timeball.object_stores.bucket import Bucket, Unopened, open_objects
from timeball.operation.storage.archive import archive_day
from timeball.operation.storage.search_archive import Archive
from timeball.ports.store.queries import RunFilter
from timeball.stores.sqlite.store import SqliteStore

pytestmark = pytest.mark.xdist_group("s3")


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with s3_server("timeball-test") as address:
        yield address


@pytest.fixture(params=["folder", "s3"])
def objects(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    if request.param == "folder":
        return open_objects(str(tmp_path / "archive"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    address = request.getfixturevalue("s3")
    return open_objects(f"s3://timeball-test/{tmp_path.name}?endpoint={address}&region=eu-central-1")


async def test_what_is_put_is_there_until_it_is_deleted(objects: Bucket) -> None:
    await objects.put({"a/2.gz": b"two", "a/1.gz": b"one", "b/3.gz": b"\0" * 100_000})

    assert await objects.get(["b/3.gz", "a/1.gz", "a/none", "a/2.gz"]) == [b"\0" * 100_000, b"one", None, b"two"]
    assert await objects.list("a/") == ["a/1.gz", "a/2.gz"]
    assert await objects.list("none/") == []

    await objects.delete(["a/1.gz", "a/never-was"])
    assert await objects.list("a/") == ["a/2.gz"]


async def test_the_same_key_is_replaced_as_a_whole(objects: Bucket) -> None:
    await objects.put({"a": b"a" * 1_000_000})
    await asyncio.gather(*(objects.put({"a": letter * 1_000_000}) for letter in (b"b", b"c", b"d")))
    (found,) = await objects.get(["a"])
    assert found in [letter * 1_000_000 for letter in (b"b", b"c", b"d")]


async def test_folders_are_the_next_parts_of_keys(objects: Bucket) -> None:
    await objects.put({"deep/2026/11/15/x": b"1", "deep/2026/12/01/y": b"2", "deep/2025/z": b"3", "deep/plain": b"4"})
    assert await objects.folders("deep/") == ["deep/2025/", "deep/2026/"]
    assert await objects.folders("deep/2026/") == ["deep/2026/11/", "deep/2026/12/"]
    assert await objects.folders("none/") == []


async def test_a_place_that_nobody_has_used_is_not_even_made(tmp_path: Path) -> None:
    objects = Unopened(str(tmp_path / "new"))
    assert await objects.get(["a/b"]) == [None]
    assert await objects.list("a/") == await objects.folders("a/") == []
    await objects.delete(["a/b"])
    assert not (tmp_path / "new").exists()
    await objects.put({"a/b": b"1"})
    assert await objects.get(["a/b"]) == [b"1"]


async def test_many_are_listed_in_order(objects: Bucket) -> None:
    await objects.put({f"many/{number:04}": b"" for number in range(60)})
    assert await objects.list("many/") == [f"many/{number:04}" for number in range(60)]


async def test_a_day_of_runs_goes_there_and_is_found_again(objects: Bucket, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "timeball.db", wall=system.wall, monotonic=system.monotonic)
    await store.open()
    noon = instant.parse("2026-03-02T12:00:00Z")
    made = job(noon - HOUR)
    rows = [finished(made, noon + at * SECOND, at, result=f'{{"at": {at}}}') for at in range(300)]
    await add(store, rows)
    await archive_day(store, objects, date(2026, 3, 2))
    await store.close()

    archive = Archive(objects)
    page = await archive.list_runs(RunFilter(tenant="default", job_id=made.id), None, 100)
    assert [run.id for run in page.items] == [row.id for row in rows[:199:-1]]
    found = await archive.run("default", rows[7].id)
    assert found is not None
    assert bytes(found.run.result or b"") == b'{"at": 7}'


async def test_a_bucket_finds_its_server_in_the_environment(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3)
    objects = open_objects("s3://timeball-test/from-the-environment")
    await objects.put({"a": b"1"})
    assert await objects.get(["a"]) == [b"1"]


async def test_what_cannot_be_reached_is_unavailable(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    objects = open_objects(f"s3://no-such-bucket/x?endpoint={s3}")
    with pytest.raises(Unavailable, match="object storage"):
        await objects.put({"a": b"1"})


async def test_a_full_or_forbidden_folder_is_unavailable(tmp_path: Path) -> None:
    objects = open_objects(str(tmp_path / "archive"))
    (tmp_path / "archive/a").write_text("a file where a folder should be")
    with pytest.raises(Unavailable, match="object storage"):
        await objects.put({"a/b": b"1"})


def test_an_address_that_means_nothing_is_refused() -> None:
    with pytest.raises(Invalid, match="cannot be used"):
        open_objects("s3://bucket/prefix?endpint=http://127.0.0.1:1")
