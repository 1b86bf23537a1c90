"""The etcd driver when members are paused, killed or compacted, on real servers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import grpc
import pytest

from highwater.controller.store.etcd import EtcdStore
from highwater.controller.store.etcd_stubs import etcd3
from highwater.controller.store.port import (
    CompactedError,
    CreateRevisionIs,
    MetadataStore,
    OutcomeUnknownError,
    Put,
    StoreUnavailableError,
)
from highwater.model.errors import UsageError
from tests.support.etcd import VERSIONS, EtcdCluster, EtcdMemberProcess, etcd_missing

pytestmark = [pytest.mark.etcd, pytest.mark.slow]


@pytest.fixture(scope="module", params=list(VERSIONS))
def etcd_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EtcdCluster]:
    if why := etcd_missing(request.param):
        pytest.skip(why)
    directory = tmp_path_factory.mktemp("members")
    with EtcdCluster(directory, 3, version=request.param) as made:
        yield made


def store_on(endpoints: list[str], name: str, client_id: str = "test") -> EtcdStore:
    return EtcdStore(endpoints, prefix=f"/{name}/", client_id=client_id, call_timeout_ms=1_000)


@pytest.fixture
async def store(
    etcd_cluster: EtcdCluster, request: pytest.FixtureRequest
) -> AsyncIterator[EtcdStore]:
    made = store_on(etcd_cluster.endpoints, request.node.originalname)
    await made.start()
    yield made
    await made.close()


async def watch_into(store: MetadataStore, start: int, seen: list[str]) -> None:
    async with contextlib.aclosing(store.watch("w/", start)) as watch:
        async for batch in watch:
            seen += [event.key for event in batch.events]


async def until(condition: Callable[[], bool], timeout_s: float) -> float:
    """Waits for the condition; returns how many seconds it took."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    while not condition():
        assert loop.time() - start < timeout_s, "the condition did not come true in time"
        await asyncio.sleep(0.02)
    return loop.time() - start


async def test_the_connected_member_is_paused(etcd_cluster: EtcdCluster, store: EtcdStore) -> None:
    writer = store_on(etcd_cluster.endpoints[1:], "test_the_connected_member_is_paused", "writer")
    await writer.start()
    seen: list[str] = []
    start = (await store.range("")).revision + 1
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(watch_into(store, start, seen))
        await writer.txn((), [Put(key="w/before", value=b"")])
        await until(lambda: seen == ["w/before"], 5.0)
        etcd_cluster.members[0].pause()
        try:
            await writer.txn((), [Put(key="w/after", value=b"")])
            took_s = await until(lambda: seen == ["w/before", "w/after"], 10.0)
            assert took_s < 5.0
            # The store's own calls find another member too.
            result = await store.txn((), [Put(key="w/own", value=b"")])
            assert result.succeeded
            await until(lambda: seen[-1] == "w/own", 5.0)
        finally:
            etcd_cluster.members[0].resume()
        watching.cancel()
    await writer.close()
    etcd_cluster.wait_healthy()


async def test_the_connected_member_is_killed_and_restarted(
    etcd_cluster: EtcdCluster, store: EtcdStore
) -> None:
    seen: list[str] = []
    start = (await store.range("")).revision + 1
    lease = await store.grant(10_000)
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(watch_into(store, start, seen))
        expected = []
        for i in range(30):
            if i == 10:
                etcd_cluster.members[0].kill()
            if i == 20:
                etcd_cluster.members[0].start()
            key = f"w/{i:02d}"
            result = await store.txn(
                (CreateRevisionIs(key=key, revision=0),), [Put(key=key, value=b"")]
            )
            assert result.succeeded, "carried out once and only once"
            assert await store.keep_alive(lease) > 0
            expected.append(key)
        await until(lambda: len(seen) >= len(expected), 10.0)
        assert seen == expected
        watching.cancel()
    etcd_cluster.wait_healthy()


@pytest.mark.parametrize(
    "revisions", [1_000, pytest.param(20_000, marks=[pytest.mark.full, pytest.mark.timeout(300)])]
)
async def test_catching_up_is_contiguous_across_a_kill(
    etcd_cluster: EtcdCluster, store: EtcdStore, revisions: int
) -> None:
    start = (await store.range("")).revision + 1
    for i in range(revisions):
        await store.txn((), [Put(key=f"w/{i:05d}", value=bytes(100))])
    seen: list[str] = []
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(watch_into(store, start, seen))
        await until(lambda: len(seen) > 0, 10.0)
        etcd_cluster.members[0].kill()
        await until(lambda: len(seen) >= revisions, 60.0)
        watching.cancel()
    assert seen == [f"w/{i:05d}" for i in range(revisions)]
    etcd_cluster.members[0].start()
    etcd_cluster.wait_healthy()


async def test_a_transaction_whose_answer_is_lost_is_not_repeated(
    store: EtcdStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transaction takes effect, its answer is lost: the driver does not repeat it."""
    answers: list[Any] = []
    original = store._attempt

    def lose_first_answer(*args: Any) -> Any:
        answers.append(original(*args))
        # Without the answer, the driver knows only the former token.
        store._token_revision = before
        raise etcd3.exceptions.ConnectionTimeoutError

    before = store._token_revision
    monkeypatch.setattr(store, "_attempt", lose_first_answer)
    compare = (CreateRevisionIs(key="once", revision=0),)
    result = await store.txn(compare, [Put(key="once", value=b"1")])
    monkeypatch.undo()
    assert len(answers) == 1
    assert (result.succeeded, result.revision) == (True, answers[0].revision)
    entry = (await store.range("once")).entries[0]
    assert entry.mod_revision == result.revision
    assert (await store.txn((), [Put(key="next", value=b"")])).succeeded


async def test_a_late_transaction_is_fenced_off(
    store: EtcdStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The network delays the transaction; when it arrives after all, it has no effect."""
    delayed: list[tuple[Any, ...]] = []
    token_then: list[int] = []
    original = store._attempt

    def delay_first(*args: Any) -> Any:
        if not delayed:
            delayed.append(args)
            token_then.append(store._token_revision)
            raise etcd3.exceptions.ConnectionTimeoutError
        return original(*args)

    monkeypatch.setattr(store, "_attempt", delay_first)
    assert (await store.txn((), [Put(key="k", value=b"late")])).succeeded
    assert (await store.txn((), [Put(key="k", value=b"newer")])).succeeded
    monkeypatch.undo()
    now = store._token_revision
    store._token_revision = token_then[0]
    with pytest.raises(StoreUnavailableError):
        original(*delayed[0])
    store._token_revision = now
    assert (await store.range("k")).entries[0].value == b"newer"


@pytest.mark.full
async def test_without_a_majority_the_outcome_is_unknown(
    etcd_cluster: EtcdCluster, store: EtcdStore
) -> None:
    for member in etcd_cluster.members[1:]:
        member.pause()
    try:
        with pytest.raises(OutcomeUnknownError):
            await store.txn((), [Put(key="w/x", value=b"")])
        with pytest.raises(StoreUnavailableError):
            await store.range("")
    finally:
        for member in etcd_cluster.members[1:]:
            member.resume()
    etcd_cluster.wait_healthy()
    assert len((await store.range("w/")).entries) <= 1


async def test_a_watch_from_compacted_history_fails(etcd: EtcdMemberProcess) -> None:
    store = store_on([etcd.endpoint], "compaction")
    await store.start()
    first = (await store.txn((), [Put(key="w/0", value=b"")])).revision
    for i in range(1, 10):
        last = (await store.txn((), [Put(key=f"w/{i}", value=b"")])).revision
    await asyncio.to_thread(etcd.compact, last)
    with pytest.raises(CompactedError) as raised:
        await watch_into(store, first, [])
    assert raised.value.compact_revision == last
    # Recovery: read the range, then watch from the revision after it.
    snapshot = await store.range("w/")
    assert len(snapshot.entries) == 10
    seen: list[str] = []
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(watch_into(store, snapshot.revision + 1, seen))
        await store.txn((), [Put(key="w/next", value=b"")])
        await until(lambda: seen == ["w/next"], 5.0)
        watching.cancel()
    await store.close()


async def test_a_refused_compaction_raises_and_blames_no_member(
    etcd: EtcdMemberProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    class RefusedError(grpc.RpcError):
        def code(self) -> grpc.StatusCode:
            return grpc.StatusCode.PERMISSION_DENIED

    def refuse(_revision: int) -> None:
        raise RefusedError

    store = store_on([etcd.endpoint, "127.0.0.1:1"], "refused")
    await store.start()
    member = store._members.pick()
    monkeypatch.setattr(member.client(), "compact", refuse)
    with pytest.raises(StoreUnavailableError, match="does not let its user"):
        await store.compact(1)
    assert store._members.pick() is member
    await store.close()


async def test_a_large_range_is_read_in_pages_at_one_revision(etcd: EtcdMemberProcess) -> None:
    store = store_on([etcd.endpoint], "pages")
    await store.start()
    for start in range(0, 2_500, 100):
        keys = [f"p/{i:05d}" for i in range(start, start + 100)]
        await store.txn((), [Put(key=key, value=key.encode()) for key in keys])
    snapshot = await store.range("p/")
    assert [e.key for e in snapshot.entries] == [f"p/{i:05d}" for i in range(2_500)]
    assert snapshot.revision >= max(e.mod_revision for e in snapshot.entries)
    await store.close()


async def test_two_processes_with_one_id_are_noticed(etcd: EtcdMemberProcess) -> None:
    one, two = store_on([etcd.endpoint], "twins"), store_on([etcd.endpoint], "twins")
    await one.start()
    await two.start()
    with pytest.raises(StoreUnavailableError, match="id"):
        await one.txn((), [Put(key="k", value=b"1")])
    assert (await one.range("k")).entries == ()
    await one.close()
    await two.close()


async def test_an_unreachable_etcd_is_an_operator_error() -> None:
    store = store_on(["127.0.0.1:1"], "nobody")
    with pytest.raises(UsageError, match="etcd"):
        await store.start()
    await store.close()
