from collections.abc import AsyncIterator

import pytest

from tests.support.still import World


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    await world.store.open()
    yield world
    await world.store.close()
