"""The watched image: complete, in order, never older."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from highwater.metadata import watch as module
from highwater.metadata.convert import delta_to_pb, snapshot_to_pb
from highwater.metadata.watch import ClusterWatch, Watcher, WrongClusterError
from highwater.model.cluster import ClusterDelta, ClusterImage
from highwater.model.ids import InstanceId
from highwater.model.instances import InstanceState
from highwater.model.steps import Steps
from highwater.runtime.slices import SLICE_MS, Slices
from tests.support.fake_controllers import fake_cluster, not_controller, unavailable

ATTEMPTS_MANY = 60
"""Of two watches within a second."""


def snapshot(revision: int, *, epoch: int = 1, cluster_id: str = "c") -> Any:
    return snapshot_to_pb(
        ClusterImage(revision=revision, cluster_id=cluster_id, controller_epoch=epoch)
    )


def delta(revision: int, *, epoch: int = 1) -> Any:
    instance = InstanceState(instance=InstanceId(f"i{revision}"))
    change = ClusterDelta(revision=revision, controller_epoch=epoch, instances=(instance,))
    return delta_to_pb(change, {}, {})


class Watched:
    """A watch and what its subscriber saw: (revision, whether by a delta)."""

    def __init__(self, *addresses: str, **settings: Any) -> None:
        self.endpoints, self.fakes = fake_cluster(*(addresses or ("a:1",)))
        self.watch = ClusterWatch(self.endpoints, **settings)
        self.seen: list[tuple[int, bool]] = []
        self.watch.subscribe(
            lambda image, change: self.seen.append((image.revision, change is not None))
        )

    async def at(self, revision: int) -> ClusterImage:
        return await self.watch.wait_for_revision(revision, 5)


@pytest.fixture
async def watched() -> AsyncIterator[Watched]:
    made = Watched()
    yield made
    await made.watch.stop()


async def test_a_snapshot_and_deltas(watched: Watched) -> None:
    watched.fakes["a:1"].streams = [[snapshot(10), delta(12), delta(15)]]
    watched.watch.start()
    image = await watched.at(15)
    assert watched.seen == [(10, False), (12, True), (15, True)]
    assert set(image.instances) == {"i12", "i15"}
    assert watched.watch.revision == 15


async def test_a_late_subscriber_gets_the_present_image_at_once(watched: Watched) -> None:
    watched.fakes["a:1"].streams = [[snapshot(10)]]
    watched.watch.start()
    await watched.at(10)
    late: list[int] = []
    end = watched.watch.subscribe(lambda image, _: late.append(image.revision))
    assert late == [10]
    end()


async def test_an_image_counts_as_applied_once_every_subscriber_has_taken_it(
    watched: Watched,
) -> None:
    during: list[tuple[int, int]] = []
    watched.watch.subscribe(
        lambda image, _: during.append((image.revision, watched.watch.applied_revision))
    )
    watched.fakes["a:1"].streams = [[snapshot(10), delta(12)]]
    watched.watch.start()
    await watched.at(12)
    assert during == [(10, 0), (12, 10)]
    assert watched.watch.applied_revision == 12


async def test_a_broken_stream_resumes(watched: Watched) -> None:
    fake = watched.fakes["a:1"]
    fake.streams = [[snapshot(10), delta(12), unavailable()], [delta(15)]]
    watched.watch.start()
    await watched.at(15)
    assert [(w.from_revision, w.cluster_id) for w in fake.watches] == [(0, ""), (12, "c")]
    assert watched.seen == [(10, False), (12, True), (15, True)]


async def test_a_new_snapshot_replaces_the_image(watched: Watched) -> None:
    watched.fakes["a:1"].streams = [[snapshot(10), delta(12), unavailable()], [snapshot(20)]]
    watched.watch.start()
    image = await watched.at(20)
    assert image.instances == {}
    assert watched.seen[-1] == (20, False)


async def test_the_image_never_goes_back() -> None:
    watched = Watched("a:1", "b:1")
    watched.fakes["a:1"].streams = [[snapshot(10, epoch=5), unavailable()]]
    watched.fakes["b:1"].streams = [[snapshot(8, epoch=3)], [snapshot(9, epoch=3)]]
    watched.fakes["a:1"].streams.append([snapshot(30, epoch=5)])
    watched.watch.start()
    await watched.at(30)
    assert watched.seen == [(10, False), (30, False)], "b's older images are refused"
    await watched.watch.stop()


async def test_a_former_controllers_deltas_are_refused() -> None:
    watched = Watched("a:1", "b:1")
    watched.fakes["a:1"].streams = [[snapshot(10, epoch=5), delta(11, epoch=4)]]
    watched.fakes["b:1"].streams = [[delta(12, epoch=5)]]
    watched.watch.start()
    image = await watched.at(12)
    assert set(image.instances) == {"i12"}
    await watched.watch.stop()


async def test_a_standbys_hint_is_used() -> None:
    watched = Watched("a:1", "b:1", "c:1")
    watched.fakes["a:1"].streams = [[not_controller("c:1")]]
    watched.fakes["c:1"].streams = [[snapshot(10)]]
    watched.watch.start()
    await watched.at(10)
    assert watched.fakes["b:1"].watches == []
    assert watched.endpoints.present == "c:1"
    await watched.watch.stop()


async def test_a_standby_that_names_itself_is_asked_again() -> None:
    """It is elected, but waits for its first watch."""
    watched = Watched("a:1", "b:1")
    watched.fakes["a:1"].streams = [[not_controller("a:1")], [snapshot(10)]]
    watched.watch.start()
    await watched.at(10)
    assert watched.fakes["b:1"].watches == []
    await watched.watch.stop()


async def test_the_watch_moves_when_heartbeats_find_the_active_controller() -> None:
    watched = Watched("a:1", "b:1")
    watched.fakes["a:1"].streams = [[snapshot(10)]]
    watched.fakes["b:1"].streams = [[delta(11)]]
    watched.watch.start()
    await watched.at(10)
    watched.endpoints.prefer("b:1")  # As heartbeats do when the active controller is paused.
    await watched.at(11)
    await watched.watch.stop()


async def test_a_pause_ends_when_heartbeats_find_the_active_controller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "BACKOFF_MS", (60_000, 60_000))
    watched = Watched("a:1", "b:1")
    watched.fakes["a:1"].streams = [[unavailable()], [snapshot(10)]]
    watched.watch.start()
    async with asyncio.timeout(5):
        while watched.endpoints.present == "a:1":
            await asyncio.sleep(0.001)
    await asyncio.sleep(0.02)
    assert watched.fakes["b:1"].watches == [], "it pauses first"
    watched.endpoints.prefer("a:1")
    await watched.at(10)
    await watched.watch.stop()


async def test_watches_that_share_their_endpoints_pause_while_no_controller_answers() -> None:
    """The gateway's and the node's of one process: each failure moves the other one, too."""
    endpoints, fakes = fake_cluster("a:1", "b:1")
    for fake in fakes.values():
        fake.streams = [[unavailable()] for _ in range(ATTEMPTS_MANY)]
    watches = [ClusterWatch(endpoints), ClusterWatch(endpoints)]
    for watch in watches:
        watch.start()
    await asyncio.sleep(1)
    for watch in watches:
        await watch.stop()
    attempts = sum(len(fake.watches) for fake in fakes.values())
    assert len(watches) < attempts < ATTEMPTS_MANY


async def test_a_registration_reopens_the_stream(watched: Watched) -> None:
    fake = watched.fakes["a:1"]
    fake.streams = [[snapshot(10)], [delta(11)]]
    watched.watch.start()
    await watched.at(10)
    watched.watch.set_watcher(Watcher(node_id=3, node_epoch=9))
    await watched.at(11)
    assert [(w.node_id, w.node_epoch) for w in fake.watches] == [(0, 0), (3, 9)]


@pytest.mark.parametrize("known", ["on disk", "by watching"])
async def test_another_cluster_is_refused(known: str) -> None:
    watched = Watched(cluster_id="c" if known == "on disk" else "")
    wrong = snapshot(20, cluster_id="other")
    streams = [[wrong]] if known == "on disk" else [[snapshot(10), unavailable()], [wrong]]
    watched.fakes["a:1"].streams = streams
    watched.watch.start()
    with pytest.raises(WrongClusterError):
        await asyncio.wait_for(watched.watch.failed, 5)
    assert watched.watch.revision in (0, 10)
    await watched.watch.stop()


async def test_a_subscribers_error_fails_the_watch(watched: Watched) -> None:
    def broken(_image: ClusterImage, _delta: ClusterDelta | None) -> None:
        raise ZeroDivisionError

    watched.watch.subscribe(broken)
    watched.fakes["a:1"].streams = [[snapshot(10)]]
    watched.watch.start()
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(watched.watch.failed, 5)


async def test_a_wait_for_a_revision_times_out(watched: Watched) -> None:
    watched.fakes["a:1"].streams = [[snapshot(10)]]
    watched.watch.start()
    await watched.at(10)
    with pytest.raises(TimeoutError):
        await watched.watch.wait_for_revision(11, 0.05)
    assert replace(await watched.at(5)).revision == 10


class SteppedClock:
    """Advances by a slice at every look, so that every step is a slice."""

    def __init__(self) -> None:
        self.now_ms = 0.0

    def __call__(self) -> float:
        self.now_ms += SLICE_MS / 1.5
        return self.now_ms


class SlowSubscriber:
    """Takes an image in `steps` steps and records what it sees."""

    def __init__(self, watch: ClusterWatch, steps: int = 20) -> None:
        self.watch = watch
        self.steps = steps
        self.events: list[tuple[str, int]] = []
        self.begun = asyncio.Event()

    def __call__(self, image: ClusterImage, _delta: ClusterDelta | None) -> Steps[None]:
        self.events.append(("begins", image.revision))
        self.begun.set()
        for _ in range(self.steps):
            assert self.watch.revision < image.revision or self.watch.applied_revision == 0
            yield
        self.events.append(("has", image.revision))


async def slow_watch() -> tuple[Watched, SlowSubscriber]:
    watched = Watched(slices=Slices(SteppedClock()))
    slow = SlowSubscriber(watched.watch)
    watched.watch.subscribe(slow)
    return watched, slow


async def test_a_later_image_waits_until_all_have_the_earlier_one() -> None:
    watched, slow = await slow_watch()
    watched.fakes["a:1"].streams = [[snapshot(10), delta(12), delta(15)]]
    watched.watch.start()
    await slow.begun.wait()
    assert watched.watch.image is None, "nobody sees an image that is half carried out"
    await watched.at(15)
    assert slow.events == [(what, r) for r in (10, 12, 15) for what in ("begins", "has")]
    await watched.watch.stop()


async def test_a_reopened_stream_does_not_leave_an_image_half_applied() -> None:
    watched, slow = await slow_watch()
    fake = watched.fakes["a:1"]
    fake.streams = [[snapshot(10), delta(11)], [delta(12)]]
    watched.watch.start()
    await slow.begun.wait()
    watched.watch.set_watcher(Watcher(node_id=3, node_epoch=9))
    await watched.at(12)
    assert slow.events == [(what, r) for r in (10, 12) for what in ("begins", "has")]
    assert [(w.node_id, w.from_revision) for w in fake.watches] == [(0, 0), (3, 10)]
    await watched.watch.stop()


async def test_a_subscriber_that_joins_while_an_image_is_applied_gets_it() -> None:
    watched, slow = await slow_watch()
    watched.fakes["a:1"].streams = [[snapshot(10), delta(12)]]
    watched.watch.start()
    await slow.begun.wait()
    late: list[int] = []
    watched.watch.subscribe(lambda image, _: late.append(image.revision))
    await watched.at(12)
    assert late == [10, 12]
    await watched.watch.stop()


async def test_a_subscriber_that_leaves_does_not_stop_an_image_for_others() -> None:
    watched = Watched(slices=Slices(SteppedClock()))
    slow = SlowSubscriber(watched.watch)
    leave = watched.watch.subscribe(slow)
    others: list[int] = []
    watched.watch.subscribe(lambda image, _: others.append(image.revision))
    watched.fakes["a:1"].streams = [[snapshot(10), delta(12)]]
    watched.watch.start()
    await slow.begun.wait()
    leave()
    await watched.at(12)
    assert others == [10, 12]
    await watched.watch.stop()


async def test_an_interrupted_image_is_applied_before_a_later_one() -> None:
    watched, slow = await slow_watch()
    streams: Any = [[snapshot(10), delta(12)]]
    watched.fakes["a:1"].streams = streams
    watched.watch.start()
    await slow.begun.wait()
    watched.watch.repeat(slow)
    assert watched.watch.applied_revision == 0
    await watched.at(12)
    begun = [revision for what, revision in slow.events if what == "begins"]
    assert begun in ([10, 10, 12], [10, 12, 12])
    assert slow.events[1::2] == [("has", revision) for revision in begun], "never two at once"
    assert len(begun) == 3, "who waits for a revision waits for the repetition, too"
    assert watched.watch.applied_revision == 12
    await watched.watch.stop()


async def test_an_error_in_a_later_step_fails_the_watch() -> None:
    def broken(_image: ClusterImage, _delta: ClusterDelta | None) -> Steps[None]:
        yield
        raise ZeroDivisionError

    watched = Watched(slices=Slices(SteppedClock()))
    watched.watch.subscribe(broken)
    watched.fakes["a:1"].streams = [[snapshot(10)]]
    watched.watch.start()
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(watched.watch.failed, 5)
    await watched.watch.stop()
