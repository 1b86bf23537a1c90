"""The stores that the contract suite runs on."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from highwater.controller.store.memory import MemoryStore
from highwater.controller.store.port import MetadataStore
from highwater.controller.store.sqlite import SqliteStore


@pytest.fixture(params=["memory", "sqlite", pytest.param("etcd", marks=pytest.mark.etcd)])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MetadataStore]:
    """One empty store of each kind."""
    made: MetadataStore
    if request.param == "memory":
        made = MemoryStore()
    elif request.param == "sqlite":
        made = SqliteStore(tmp_path / "metadata.sqlite")
    else:
        made = request.getfixturevalue("etcd_store_factory")()
    await made.start()
    yield made
    await made.close()
