"""The contract of every metadata store driver; see `highwater.controller.store.port`."""

import asyncio
import contextlib

import pytest

from highwater.controller.store.port import (
    OPERATIONS_MAX,
    TXN_BYTES_MAX,
    CompactedError,
    CreateRevisionIs,
    Delete,
    DeletePrefix,
    LeaseLostError,
    MetadataStore,
    ModRevisionIs,
    Put,
    WatchBatch,
    WatchEvent,
    chunks,
)

WAIT_S = 5.0


async def take(store: MetadataStore, prefix: str, start: int, events: int) -> list[WatchBatch]:
    """Reads batches of a watch until they hold that many events."""
    batches: list[WatchBatch] = []
    async with asyncio.timeout(WAIT_S), contextlib.aclosing(store.watch(prefix, start)) as watch:
        async for batch in watch:
            batches.append(batch)
            if sum(len(b.events) for b in batches) >= events:
                break
    return batches


async def test_an_empty_range_has_a_revision(store: MetadataStore) -> None:
    snapshot = await store.range("topics/")
    assert snapshot.entries == ()
    assert snapshot.revision >= 1


async def test_put_and_read_back_in_key_order(store: MetadataStore) -> None:
    await store.txn((), [Put(key="topics/b", value=b"2"), Put(key="topics/a", value=b"1")])
    await store.txn((), [Put(key="nodes/1", value=b"x")])
    snapshot = await store.range("topics/")
    assert [(e.key, e.value) for e in snapshot.entries] == [("topics/a", b"1"), ("topics/b", b"2")]
    assert len((await store.range("")).entries) == 3


async def test_a_transaction_is_one_revision(store: MetadataStore) -> None:
    first = await store.txn((), [Put(key="a", value=b"1"), Put(key="b", value=b"1")])
    second = await store.txn((), [Put(key="a", value=b"2")])
    assert first.succeeded
    assert second.revision > first.revision
    by_key = {entry.key: entry for entry in (await store.range("")).entries}
    assert by_key["a"].create_revision == first.revision
    assert by_key["a"].mod_revision == second.revision
    assert by_key["b"].mod_revision == first.revision


async def test_compares_decide(store: MetadataStore) -> None:
    absent = (CreateRevisionIs(key="a", revision=0),)
    made = await store.txn(absent, [Put(key="a", value=b"1")])
    again = await store.txn(absent, [Put(key="a", value=b"2")])
    assert (made.succeeded, again.succeeded) == (True, False)
    stale = (ModRevisionIs(key="a", revision=made.revision - 1),)
    assert not (await store.txn(stale, [Put(key="a", value=b"3")])).succeeded
    current = (ModRevisionIs(key="a", revision=made.revision),)
    both = (*current, CreateRevisionIs(key="other", revision=7))
    assert not (await store.txn(both, [Put(key="a", value=b"4")])).succeeded
    assert (await store.txn(current, [Put(key="a", value=b"5")])).succeeded
    assert (await store.range("a")).entries[0].value == b"5"


async def test_a_deleted_key_is_created_anew(store: MetadataStore) -> None:
    first = await store.txn((), [Put(key="a", value=b"1")])
    await store.txn((), [Delete(key="a"), Delete(key="never-there")])
    assert (await store.range("")).entries == ()
    second = await store.txn((CreateRevisionIs(key="a", revision=0),), [Put(key="a", value=b"1")])
    assert second.succeeded
    assert (await store.range("")).entries[0].create_revision == second.revision > first.revision


async def test_delete_prefix_leaves_neighbours(store: MetadataStore) -> None:
    keys = ["p/1/00000", "p/1/00001", "p/10/00000", "p/2/00000"]
    await store.txn((), [Put(key=key, value=b"") for key in keys])
    await store.txn((), [DeletePrefix(prefix="p/1/")])
    assert [e.key for e in (await store.range("p/")).entries] == ["p/10/00000", "p/2/00000"]


async def test_the_largest_transaction(store: MetadataStore) -> None:
    size = TXN_BYTES_MAX // OPERATIONS_MAX - 6
    puts = [Put(key=f"k/{i:04d}", value=bytes(size)) for i in range(OPERATIONS_MAX)]
    (whole,) = chunks(puts)
    await store.txn((), [Put(key="k/0007", value=b"")])
    done = await store.txn((ModRevisionIs(key="k/0001", revision=0),), whole)
    entries = (await store.range("k/")).entries
    assert len(entries) == OPERATIONS_MAX
    assert {entry.mod_revision for entry in entries} == {done.revision}, "all at one revision"
    refused = await store.txn((ModRevisionIs(key="k/0001", revision=0),), whole)
    assert not refused.succeeded
    gone = await store.txn((), [Delete(key=entry.key) for entry in entries])
    assert gone.revision == done.revision + 1
    assert (await store.range("k/")).entries == ()


async def test_a_watch_replays_history_and_goes_on(store: MetadataStore) -> None:
    start = (await store.range("")).revision + 1
    first = await store.txn((), [Put(key="w/a", value=b"1"), Put(key="other", value=b"")])
    second = await store.txn((), [Delete(key="w/a"), Put(key="w/b", value=b"2")])
    watching = asyncio.create_task(take(store, "w/", start, 4))
    await asyncio.sleep(0.05)
    third = await store.txn((), [Put(key="w/c", value=b"3")])
    batches = await watching
    events = [event for batch in batches for event in batch.events]
    assert events[0] == WatchEvent(key="w/a", value=b"1", mod_revision=first.revision)
    assert set(events[1:3]) == {
        WatchEvent(key="w/a", value=None, mod_revision=second.revision),
        WatchEvent(key="w/b", value=b"2", mod_revision=second.revision),
    }
    assert events[3] == WatchEvent(key="w/c", value=b"3", mod_revision=third.revision)
    assert batches[-1].revision == third.revision


async def test_a_watch_resumes_after_its_last_revision(store: MetadataStore) -> None:
    start = (await store.range("")).revision + 1
    for i in range(20):
        await store.txn((), [Put(key=f"w/{i:02d}", value=b"")])
    seen: list[str] = []
    while len(seen) < 20:
        (batch,) = (await take(store, "w/", start, 1))[:1]
        seen += [event.key for event in batch.events]
        start = batch.revision + 1
    assert seen == [f"w/{i:02d}" for i in range(20)]


async def test_a_watch_from_a_future_revision_waits(store: MetadataStore) -> None:
    now = (await store.range("")).revision
    watching = asyncio.create_task(take(store, "w/", now + 1, 1))
    done, _ = await asyncio.wait({watching}, timeout=0.2)
    assert not done
    await store.txn((), [Put(key="w/x", value=b"1")])
    assert (await watching)[0].events[0].key == "w/x"


async def test_compaction_removes_history_but_no_keys(store: MetadataStore) -> None:
    first = await store.txn((), [Put(key="w/a", value=b"1"), Put(key="w/old", value=b"1")])
    await store.txn((), [Put(key="w/a", value=b"2"), Delete(key="w/old")])
    third = await store.txn((), [Put(key="w/a", value=b"3")])
    before = await store.range("")
    await store.compact(third.revision)
    assert await store.range("") == before, "values and revisions stay"
    with pytest.raises(CompactedError):
        await take(store, "w/", first.revision, 1)
    await store.compact(first.revision)
    await store.compact(third.revision)
    same = (CreateRevisionIs(key="w/a", revision=first.revision),)
    fourth = await store.txn(same, [Put(key="w/a", value=b"4")])
    assert fourth.succeeded
    assert (await take(store, "w/", third.revision + 1, 1))[0].revision == fourth.revision


async def test_a_watch_that_is_up_to_date_outlives_compaction(store: MetadataStore) -> None:
    start = (await store.range("")).revision + 1
    watching = asyncio.create_task(take(store, "w/", start, 2))
    await store.txn((), [Put(key="w/a", value=b"1")])
    await asyncio.sleep(0.2)
    other = await store.txn((), [Put(key="other", value=b"1")])
    await asyncio.sleep(0.2)
    await store.compact(other.revision)
    await store.txn((), [Put(key="w/b", value=b"1")])
    assert [e.key for b in await watching for e in b.events] == ["w/a", "w/b"]


async def test_an_expired_lease_deletes_its_keys(store: MetadataStore) -> None:
    lease = await store.grant(1_000)
    held = await store.grant(60_000)
    made = await store.txn(
        (), [Put(key="l/a", value=b"", lease=lease), Put(key="l/b", value=b"", lease=held)]
    )
    batches = await take(store, "l/", made.revision + 1, 1)
    assert [(e.key, e.value) for e in batches[0].events] == [("l/a", None)]
    assert [e.key for e in (await store.range("l/")).entries] == ["l/b"]
    with pytest.raises(LeaseLostError):
        await store.keep_alive(lease)


async def test_keep_alive_keeps_alive(store: MetadataStore) -> None:
    lease = await store.grant(2_000)
    await store.txn((), [Put(key="l/a", value=b"", lease=lease)])
    for _ in range(5):
        await asyncio.sleep(0.6)
        assert 1_000 <= await store.keep_alive(lease) <= 2_000
    assert len((await store.range("l/")).entries) == 1


async def test_revoke_ends_a_lease_at_once(store: MetadataStore) -> None:
    lease = await store.grant(60_000)
    await store.txn((), [Put(key="l/a", value=b"", lease=lease)])
    await store.revoke(lease)
    assert (await store.range("l/")).entries == ()
    await store.revoke(lease)


async def test_concurrent_compare_and_sets_have_one_winner(store: MetadataStore) -> None:
    made = await store.txn((), [Put(key="c", value=b"0")])
    compare = (ModRevisionIs(key="c", revision=made.revision),)
    results = await asyncio.gather(
        *(store.txn(compare, [Put(key="c", value=b"%d" % i)]) for i in range(8))
    )
    assert sum(result.succeeded for result in results) == 1
