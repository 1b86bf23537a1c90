"""Watchers of the image get snapshots and deltas, and a snapshot again if they fall behind."""

import asyncio
import contextlib
from dataclasses import replace

import pytest

from highwater.controller.image import watch_hub
from highwater.controller.image.not_active import NotActiveError
from highwater.controller.image.watch_hub import WatchHub
from highwater.model.cluster import ClusterDelta, ClusterImage
from highwater.model.errors import LimitExceededError
from tests.support.controller_images import image_with, node_state, topic_state


def publish(hub: WatchHub, revision: int) -> None:
    delta = ClusterDelta(revision=revision, nodes=(replace(node_state(1), node_epoch=revision),))
    hub.publish(hub.image.apply(delta), delta)


async def take(hub: WatchHub, start: int, count: int) -> list[tuple[bool, int]]:
    """(is a snapshot, revision) of the next changes."""
    taken = []
    async with asyncio.timeout(1):
        async for change in hub.changes(start, "c"):
            taken.append((isinstance(change, ClusterImage), change.revision))
            if len(taken) == count:
                break
    return taken


async def test_a_new_watcher_begins_with_a_snapshot() -> None:
    hub = WatchHub(image_with(1))
    changes = hub.changes(0, "")
    assert await anext(changes) is hub.image
    publish(hub, 103)
    publish(hub, 105)
    assert [(await anext(changes)).revision for _ in range(2)] == [103, 105]


async def test_a_watcher_resumes() -> None:
    hub = WatchHub(image_with(1))
    for revision in (101, 104, 107):
        publish(hub, revision)
    assert await take(hub, 101, 2) == [(False, 104), (False, 107)]
    assert await take(hub, 100, 3) == [(False, 101), (False, 104), (False, 107)]
    assert await take(hub, 102, 1) == [(True, 107)], "a revision that never was an image"
    assert await take(hub, 999, 1) == [(True, 107)]


async def test_another_clusters_revision_means_nothing() -> None:
    hub = WatchHub(image_with(1))
    publish(hub, 101)
    assert (await anext(hub.changes(101, "another"))) is hub.image


async def test_history_is_bounded_by_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions of whole topics count, and changed partitions."""
    monkeypatch.setattr(watch_hub, "HISTORY_PARTITIONS_MAX", 10)
    topic = topic_state("t", [(1,)] * 4)
    hub = WatchHub(image_with(1, topics=[topic]))
    for revision in (101, 102):
        whole = ClusterDelta(revision=revision, topics=(topic,))
        hub.publish(hub.image.apply(whole), whole)
    assert await take(hub, 100, 2) == [(False, 101), (False, 102)]
    some = ClusterDelta(revision=103, partitions={topic.topic_id: topic.partitions[:2]})
    hub.publish(hub.image.apply(some), some)
    assert await take(hub, 101, 2) == [(False, 102), (False, 103)]
    assert await take(hub, 100, 1) == [(True, 103)]


async def test_history_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_hub, "HISTORY_DELTAS_MAX", 3)
    hub = WatchHub(image_with(1))
    slow = hub.changes(0, "")
    await anext(slow)
    for revision in range(101, 111):
        publish(hub, revision)
    assert await take(hub, 107, 3) == [(False, 108), (False, 109), (False, 110)]
    assert await take(hub, 106, 1) == [(True, 110)]
    assert await anext(slow) is hub.image, "whoever falls behind gets a snapshot"


async def test_the_number_of_watchers_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_hub, "WATCHERS_MAX", 2)
    hub = WatchHub(image_with(1))
    watchers = [hub.changes(0, "") for _ in range(3)]
    async with contextlib.AsyncExitStack() as stack:
        for one in watchers:
            await stack.enter_async_context(contextlib.aclosing(one))  # type: ignore[type-var]
        await anext(watchers[0])
        await anext(watchers[1])
        with pytest.raises(LimitExceededError):
            await anext(watchers[2])
    assert hub.watchers == 0
    assert await anext(hub.changes(0, "")) is hub.image


async def test_the_end_of_a_term() -> None:
    hub = WatchHub(image_with(1))
    changes = hub.changes(0, "")
    await anext(changes)
    asyncio.get_running_loop().call_soon(hub.close)
    with pytest.raises(NotActiveError):
        await asyncio.wait_for(anext(changes), 1)
