"""The stores that the contract suite runs on."""

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from highwater.controller.store.factory import etcd_store
from highwater.controller.store.memory import MemoryStore
from highwater.controller.store.port import MetadataStore
from highwater.controller.store.sqlite import SqliteStore
from tests.support.etcd import EtcdMemberProcess, etcd_missing, etcd_server


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdMemberProcess]:
    """One etcd server for all tests."""
    if why := etcd_missing():
        pytest.skip(why)
    with etcd_server(tmp_path_factory.mktemp("etcd")) as server:
        yield server


@pytest.fixture(scope="session")
def etcd_store_factory(etcd: EtcdMemberProcess) -> Callable[[], MetadataStore]:
    """Makes stores that share the server and nothing else."""
    numbers = itertools.count()
    return lambda: etcd_store(
        [etcd.endpoint],
        prefix=f"/contract-{next(numbers)}/",
        client_id="test",
        call_timeout_ms=1_000,
    )


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
