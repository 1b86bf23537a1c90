"""etcd is restored to an older state, under drivers and controllers that know a newer one."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from highwater.controller.store.etcd import EtcdStore
from highwater.controller.store.port import Put, StoreUnavailableError, StoreWentBackError
from tests.support.etcd import EtcdCluster, etcd_missing

pytestmark = [pytest.mark.etcd, pytest.mark.slow]

TTL_MS = 10_000
DETECTED_S_MAX = 20.0


@pytest.fixture
def etcd_alone(tmp_path: Path) -> Iterator[EtcdCluster]:
    if why := etcd_missing():
        pytest.skip(why)
    with EtcdCluster(tmp_path, 1) as made:
        yield made


@pytest.fixture
async def store(etcd_alone: EtcdCluster) -> AsyncIterator[EtcdStore]:
    made = store_on(etcd_alone, "one")
    await made.start()
    yield made
    await made.close()


def store_on(etcd: EtcdCluster, client_id: str) -> EtcdStore:
    return EtcdStore(etcd.endpoints, prefix="/w/", client_id=client_id, call_timeout_ms=1_000)


async def write(store: EtcdStore, count: int) -> None:
    for number in range(count):
        assert (await store.txn((), [Put(key=f"k/{number}", value=b"")])).succeeded


async def restore(etcd: EtcdCluster, snapshot: Path) -> None:
    await asyncio.to_thread(etcd.restore, snapshot)


async def reached(store: EtcdStore) -> None:
    """Waits until the driver has found the restarted member."""
    async with asyncio.timeout(DETECTED_S_MAX):
        while True:
            with contextlib.suppress(StoreUnavailableError):
                await store.range("")
                return
            await asyncio.sleep(0.1)


async def test_reads_transactions_and_renewals_notice_a_restored_store(
    etcd_alone: EtcdCluster, store: EtcdStore, tmp_path: Path
) -> None:
    lease = await store.grant(TTL_MS)
    await write(store, 3)
    snapshot = tmp_path / "snapshot"
    await asyncio.to_thread(etcd_alone.save, snapshot)
    await write(store, 3)
    assert await store.keep_alive(lease) > 0
    await restore(etcd_alone, snapshot)
    with pytest.raises(StoreWentBackError, match="went back from revision"):
        await reached(store)
    with pytest.raises(StoreWentBackError):
        await store.txn((), [Put(key="k/late", value=b"")])
    with pytest.raises(StoreWentBackError):
        await store.keep_alive(lease)
    other = store_on(etcd_alone, "two")
    await other.start()
    found = {entry.key for entry in (await other.range("k/")).entries}
    assert found == {"k/0", "k/1", "k/2"}, "nothing was written"
    await asyncio.to_thread(etcd_alone.undo_restore)
    await reached(store)
    assert (await store.txn((), [Put(key="k/late", value=b"")])).succeeded
    await other.close()


async def test_a_restored_store_is_noticed_though_its_revision_has_grown(
    etcd_alone: EtcdCluster, store: EtcdStore, tmp_path: Path
) -> None:
    """Then only the token of this process shows the restore: the store has an older one."""
    await write(store, 1)
    snapshot = tmp_path / "snapshot"
    await asyncio.to_thread(etcd_alone.save, snapshot)
    await write(store, 1)
    await restore(etcd_alone, snapshot)
    other = store_on(etcd_alone, "two")
    await other.start()
    await write(other, 5)
    with pytest.raises(StoreWentBackError, match="what was written at revision"):
        await reached(store)
    with pytest.raises(StoreWentBackError):
        await store.txn((), [Put(key="k/late", value=b"")])
    assert "k/late" not in {entry.key for entry in (await other.range("k/")).entries}
    await other.close()


async def test_a_lagging_member_is_no_restored_store(store: EtcdStore) -> None:
    """A renewal may be answered from an older state than another member has shown."""
    lease = await store.grant(TTL_MS)
    note, store._history.note = store._history.note, lambda _header: False  # type: ignore[method-assign]
    assert await store.keep_alive(lease) > 0
    store._history.note = note  # type: ignore[method-assign]
    await write(store, 1)
