"""The key whose revision is the image's revision."""

from highwater.controller.store.head import HEAD, Head, put_head, read_head
from highwater.controller.store.memory import MemoryStore
from highwater.controller.store.port import Put


async def test_without_a_head_the_stores_revision_counts() -> None:
    store = MemoryStore()
    assert await read_head(store) == Head(revision=1)
    await store.txn((), [Put(key="election/c", value=b"")])
    assert await read_head(store) == Head(revision=2)


async def test_only_changes_of_the_metadata_move_it() -> None:
    store = MemoryStore()
    put = await store.txn((), [put_head(controller_epoch=3, raise_epochs=9)])
    await store.txn((), [Put(key="election/c", value=b""), Put(key=HEAD + "s", value=b"")])
    expected = Head(
        revision=put.revision, mod_revision=put.revision, controller_epoch=3, raise_epochs=9
    )
    assert await read_head(store) == expected
    put = await store.txn((), [put_head(controller_epoch=3)])
    assert (await read_head(store)).raise_epochs == 0
