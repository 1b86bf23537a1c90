"""Follows the controller's watch, and keeps a local image of the cluster that is always whole.

The image starts with a snapshot and follows deltas; after a broken stream the watch resumes at its
revision or takes a new snapshot. It never goes back: a controller that offers an older image (one
that does not know yet that it has been replaced) is left for another one.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import grpc

from highwater.api.controller.v1 import cluster_pb2 as pb
from highwater.api.controller.v1 import controller_service_pb2 as service_pb
from highwater.metadata.convert import delta_from_pb_steps, snapshot_from_pb_steps
from highwater.metadata.endpoints import ControllerEndpoints
from highwater.metadata.status import ACTIVE_KEY, is_not_controller, trailing_value
from highwater.model.cluster import (
    ClusterDelta,
    ClusterImage,
    TopicState,
    freeing_topics,
    partitions_of,
    replaced_topics,
)
from highwater.model.errors import HighwaterError, UsageError
from highwater.model.steps import Steps, finish
from highwater.runtime.collector import FreezePolicy, collection_paused
from highwater.runtime.logging import Logger, silent_logger
from highwater.runtime.slices import Slices
from highwater.runtime.tasks import TaskOwner

BACKOFF_MS: Final = (20, 1_000)
"""First and longest pause between attempts. The first is short because a controller takes a closed
stream for the member's death after half a second."""

MOVED_PAUSE_MS: Final = 100
"""The longest pause before a controller that somebody else has moved to. Watches, heartbeats and calls of a
process share their endpoints; with no pause, their failures would send one another round and round."""

_STOP_TIMEOUT_S: Final = 5.0

Subscriber = Callable[[ClusterImage, ClusterDelta | None], Steps[None] | None]
"""Applies an image at once, or in the steps that it returns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher:
    """The member whose session the watch belongs to; empty for tools."""

    node_id: int | None = None
    node_epoch: int = 0
    gateway_id: str = ""


class WrongClusterError(UsageError):
    """The controllers belong to another cluster than the data of this service."""


class _StaleControllerError(HighwaterError):
    """A controller offered an image older than ours."""


class ClusterWatch:
    """One service's copy of the metadata, from `start` to `stop`.

    Subscribers run on the loop, in the order of subscription and once per image; they get the delta
    to it, or None if they must apply the whole image. Long work is done in steps, between which the
    loop does other things; the next image waits until all subscribers have applied this one, and
    `image` is the last one that all have applied.
    """

    def __init__(
        self,
        endpoints: ControllerEndpoints,
        *,
        watcher: Watcher | None = None,
        cluster_id: str = "",
        log: Logger | None = None,
        slices: Slices | None = None,
    ) -> None:
        """`cluster_id` is the stored one, if any; metadata of another cluster is refused."""
        self._slices = slices or Slices()
        self._freezes = FreezePolicy()
        self._taking = asyncio.Lock()
        """Held while a change is converted and subscribers apply it, one change at a time."""
        self._stream_takes = False
        """True while the stream holds the lock: it must not be cancelled then."""
        self._repeats = 0
        """Subscribers that must get the current image once more."""
        self._endpoints = endpoints
        self._watcher = watcher or Watcher()
        self._cluster_id = cluster_id
        self._log = log or silent_logger()
        self._image: ClusterImage | None = None
        self._subscribers: list[Subscriber] = []
        self._waiters: dict[asyncio.Future[ClusterImage], int] = {}
        """Waiters with the revisions that they wait for."""
        self._tasks = TaskOwner(self._on_failure)
        self._streaming: asyncio.Task[None] | None = None
        self._restarting = False
        self._moved = asyncio.Event()
        """Set when the endpoints move to another controller: the next attempt begins at once."""
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Gets an exception if the watch cannot go on: wrong cluster, or a bug in a subscriber."""
        endpoints.on_change(self._restart)

    @property
    def image(self) -> ClusterImage | None:
        """The newest image that all subscribers have applied, None before the first snapshot."""
        return self._image

    @property
    def revision(self) -> int:
        """The current image's revision, 0 before the first snapshot. Safe from any thread."""
        image = self._image
        return 0 if image is None else image.revision

    @property
    def applied_revision(self) -> int:
        """The revision that all subscribers have applied, for heartbeats. Safe from any thread.

        While subscribers apply an image it is the former one's: the controller acknowledges a
        change when every node has applied it. 0 while a subscriber gets an image once more.
        """
        return 0 if self._repeats else self.revision

    @property
    def seen(self) -> service_pb.SeenImage:
        """What every message of a member says about its image. Safe from any thread."""
        image = self._image
        if image is None:
            return service_pb.SeenImage()
        return service_pb.SeenImage(
            revision=image.revision,
            controller_epoch=image.controller_epoch,
            cluster_id=image.cluster_id,
        )

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Calls `subscriber` for the current image and all later ones.

        Returns a function that ends the subscription.
        """
        # If an image is being applied now, `_publish` calls the subscriber for it, too.
        self._subscribers.append(subscriber)
        if self._image is not None and (steps := subscriber(self._image, None)) is not None:
            finish(steps)
        return lambda: self._subscribers.remove(subscriber)

    def repeat(self, subscriber: Subscriber) -> None:
        """Gives a subscriber the whole current image once more, before any later one.

        For subscribers that could not apply it when it came.
        """
        self._repeats += 1
        self._tasks.start(self._repeat(subscriber), name="cluster-watch-repeat")

    def start(self) -> None:
        """Begins to watch; the image arrives later, see `wait_for_revision`."""
        self._tasks.start(self._run(), name="cluster-watch")

    async def stop(self) -> None:
        """Ends the watch; waiters are cancelled."""
        await self._tasks.close(timeout_s=_STOP_TIMEOUT_S)
        for waiter in self._waiters:
            waiter.cancel()
        self._waiters.clear()

    def set_watcher(self, watcher: Watcher) -> None:
        """Sets the watcher's identity, after a registration; a running stream is opened again."""
        if watcher != self._watcher:
            self._watcher = watcher
            self._restart()

    async def wait_for_revision(self, revision: int, timeout_s: float) -> ClusterImage:
        """Returns the image when all have applied at least `revision`. Raises TimeoutError."""
        if self._image is not None and self.applied_revision >= revision:
            return self._image
        waiter: asyncio.Future[ClusterImage] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = revision
        try:
            async with asyncio.timeout(timeout_s):
                return await waiter
        finally:
            self._waiters.pop(waiter, None)

    async def _run(self) -> None:
        first_ms, greatest_ms = BACKOFF_MS
        backoff_ms = first_ms
        while True:
            before = self._image
            self._streaming = self._tasks.start(self._stream(), name="cluster-watch-stream")
            await asyncio.wait((self._streaming,))
            restarting, self._restarting = self._restarting, False
            if self.failed.done():
                return
            if self._image is not before:
                backoff_ms = first_ms
                if restarting:
                    continue
            await self._pause(backoff_ms * random.uniform(0.5, 1.0) / 1000, moved=restarting)
            backoff_ms = min(greatest_ms, backoff_ms * 2)

    async def _pause(self, longest_s: float, *, moved: bool) -> None:
        """Ends early if the endpoints have moved, or move meanwhile."""
        shortest_s = min(longest_s, MOVED_PAUSE_MS / 1000)
        self._moved.clear()
        await asyncio.sleep(shortest_s)
        if not moved:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(longest_s - shortest_s):
                    await self._moved.wait()

    async def _stream(self) -> None:
        request = service_pb.WatchClusterRequest(
            from_revision=self.revision,
            cluster_id=self._image.cluster_id if self._image is not None else self._cluster_id,
            node_id=self._watcher.node_id,
            node_epoch=self._watcher.node_epoch,
            gateway_id=self._watcher.gateway_id,
            seen=self.seen,
        )
        address = self._endpoints.present
        stream = self._endpoints.current().metadata.WatchCluster(request)
        try:
            async for change in stream:
                async with self._taking:
                    self._stream_takes = True
                    try:
                        await self._slices.run(self._take(change))
                    finally:
                        self._stream_takes = False
                if self._restarting:
                    self._cancel_stream()
                    await asyncio.sleep(0)  # A cancellation ends the stream here, between changes.
            self._endpoints.rotate(address)  # Closed by a controller that stops.
        except grpc.RpcError as error:
            hint = trailing_value(error, ACTIVE_KEY) if is_not_controller(error) else ""
            self._log.info("cluster_watch_broken", controller=address, error=str(error), hint=hint)
            self._endpoints.leave(address, hint)
        except _StaleControllerError as error:
            self._log.warning("cluster_watch_stale", controller=address, error=str(error))
            self._endpoints.rotate(address)

    def _take(self, change: pb.ClusterChange) -> Steps[None]:
        if change.reset:
            with collection_paused():
                snapshot = yield from snapshot_from_pb_steps(change)
                yield from self._take_snapshot(snapshot)
                self._freezes.note_partitions(new=partitions_of(snapshot.topics.values()))
            return
        image = self._image
        assert image is not None, "the first change of a watch is a snapshot"
        if change.controller_epoch < image.controller_epoch:
            raise _StaleControllerError(f"controller epoch {change.controller_epoch}")
        if change.revision <= image.revision:
            return
        delta = yield from delta_from_pb_steps(change)
        after = yield from image.applying(delta)
        replaced = replaced_topics(image, delta)
        removed = partitions_of(t for t in replaced if t.topic_id in delta.removed_topics)
        del image
        yield from self._publish(after, delta)
        self._freezes.note_partitions(new=delta.partition_count, removed=removed)
        yield from freeing_topics(replaced)

    def _take_snapshot(self, image: ClusterImage) -> Steps[None]:
        known = self._image.cluster_id if self._image is not None else self._cluster_id
        if known and image.cluster_id != known:
            raise WrongClusterError(f"cluster id is {image.cluster_id}, not {known}")
        present = self._image
        if present is not None and (
            image.revision < present.revision or image.controller_epoch < present.controller_epoch
        ):
            raise _StaleControllerError(f"revision {image.revision} after {present.revision}")
        if present is None or image.revision > present.revision:
            replaced: list[TopicState] = [] if present is None else [*present.topics.values()]
            del present
            yield from self._publish(image, None)
            yield from freeing_topics(replaced)

    def _publish(self, image: ClusterImage, delta: ClusterDelta | None) -> Steps[None]:
        told: list[Subscriber] = []
        while waiting := [s for s in self._subscribers if s not in told]:  # They come and go.
            told.append(waiting[0])
            steps = waiting[0](image, delta)
            if steps is not None:
                yield from steps
        self._image = image
        self._wake_waiters()

    def _wake_waiters(self) -> None:
        for waiter, revision in self._waiters.items():
            if self._image is not None and revision <= self.applied_revision and not waiter.done():
                waiter.set_result(self._image)

    async def _repeat(self, subscriber: Subscriber) -> None:
        try:
            async with self._taking:
                steps = None if self._image is None else subscriber(self._image, None)
                if steps is not None:
                    await self._slices.run(steps)
        finally:
            self._repeats -= 1
        self._wake_waiters()

    def _restart(self) -> None:
        if self._streaming is not None and not self._streaming.done():
            if self._streaming is asyncio.current_task():
                return  # The stream itself found the better address and ends by itself.
            self._restarting = True
            self._cancel_stream()
        else:
            self._moved.set()

    def _cancel_stream(self) -> None:
        """Cancels the stream, unless subscribers are applying its image: it then ends by itself."""
        if self._streaming is not None and not self._stream_takes:
            self._streaming.cancel()

    def _on_failure(self, name: str, error: BaseException) -> None:
        self._log.error("cluster_watch_failed", task=name, exc_info=error)
        if not self.failed.done():
            self.failed.set_exception(error)
