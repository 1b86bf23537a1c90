"""The stores that the contract suite runs on."""

import contextlib
import functools
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from highwater.controller.store.factory import etcd_store
from highwater.controller.store.memory import MemoryStore
from highwater.controller.store.port import MetadataStore
from highwater.controller.store.sqlite import SqliteStore
from tests.support.etcd import VERSIONS, EtcdMemberProcess, etcd_missing, etcd_server

ETCD_VERSIONS = [pytest.param(version, marks=pytest.mark.etcd) for version in VERSIONS]


def skip_without(version: str) -> None:
    """Skips the test if that etcd version is missing; `make full` has all of them."""
    if why := etcd_missing(version):
        pytest.skip(why)


@pytest.fixture(scope="session")
def etcd_of(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[str], EtcdMemberProcess]]:
    """One server of each version for all tests, started on first use."""
    with contextlib.ExitStack() as running:

        @functools.cache
        def start(version: str) -> EtcdMemberProcess:
            skip_without(version)
            directory = tmp_path_factory.mktemp(version)
            return running.enter_context(etcd_server(directory, version=version))

        yield start


@pytest.fixture(params=ETCD_VERSIONS)
def etcd(
    request: pytest.FixtureRequest, etcd_of: Callable[[str], EtcdMemberProcess]
) -> EtcdMemberProcess:
    """The server of each version."""
    return etcd_of(request.param)


_numbers = itertools.count()


@pytest.fixture(params=["memory", "sqlite", *ETCD_VERSIONS])
async def store(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    etcd_of: Callable[[str], EtcdMemberProcess],
) -> AsyncIterator[MetadataStore]:
    """One empty store of each kind; those in etcd share one server."""
    made: MetadataStore
    if request.param == "memory":
        made = MemoryStore()
    elif request.param == "sqlite":
        made = SqliteStore(tmp_path / "metadata.sqlite")
    else:
        made = etcd_store(
            [etcd_of(request.param).endpoint],
            prefix=f"/contract-{next(_numbers)}/",
            client_id="test",
            call_timeout_ms=1_000,
        )
    await made.start()
    yield made
    await made.close()
