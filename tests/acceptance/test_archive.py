"""Maintenance moves old history to the archive, where requests still find it."""

import asyncio
from pathlib import Path

from tests.support.builders import job
from tests.support.history import add, finished
from tests.support.processes import Api, data_dir, running_up, until
from timeball import system
from timeball.domain.instant import DAY, SECOND
from timeball.stores.sqlite.store import SqliteStore

DAYS = (33, 35)
RUNS = 700


async def history(path: Path) -> set[str]:
    """A store with runs of some old days, and one of yesterday; the ids of the old ones."""
    path.parent.mkdir(parents=True)
    store = SqliteStore(path, wall=system.wall, monotonic=system.monotonic)
    await store.open()
    now = store.now()
    made = job(now - 50 * DAY)
    old = [finished(made, now - day * DAY - at * SECOND, day * RUNS + at) for day in DAYS for at in range(RUNS)]
    await add(store, [*old, finished(made, now - DAY, 1)])
    await store.close()
    return {row.id for row in old}


def listed(api: Api, path: str) -> list[str]:
    found: list[str] = []
    cursor = ""
    while True:
        page = api.call("GET", f"{path}&limit=1000{cursor}")
        found += [run["runId"] for run in page["items"]]
        if page["nextCursor"] is None:
            return found
        cursor = f"&cursor={page['nextCursor']}"


def test_old_history_goes_to_the_archive_by_itself(tmp_path: Path) -> None:
    old = asyncio.run(history(data_dir(tmp_path) / "timeball.db"))
    with running_up(tmp_path, None, "--archive", "local") as (_, api):
        until(lambda: len(listed(api, "/v1/runs?status=succeeded")) == 1, "the old days to leave the store")
        archived = listed(api, "/v1/runs?archived=true")
        assert (len(archived), set(archived)) == (len(old), old)
        assert api.call("GET", f"/v1/runs/{archived[-1]}")["archived"] is True
