"""Hands the image and its deltas to watchers. A watcher that falls behind gets a new snapshot.

No watcher has a queue: each one reads the shared, bounded history at its own revision.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from typing import Final

from highwater.controller.image.not_active import NotActiveError
from highwater.model.cluster import ClusterDelta, ClusterImage
from highwater.model.errors import LimitExceededError

HISTORY_DELTAS_MAX: Final = 1_000
HISTORY_PARTITIONS_MAX: Final = 200_000
"""Bounds the partitions that the history keeps alive."""

WATCHERS_MAX: Final = 1_000
"""Tens of nodes and gateways are planned for."""


class WatchHub:
    """The active controller's image and its recent past. One loop, from election to loss."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._history: OrderedDict[int, ClusterDelta] = OrderedDict()
        """Deltas by the revision of the image that they apply to, in order."""
        self._partitions = 0
        self._changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._closed = False
        self.watchers = 0

    @property
    def image(self) -> ClusterImage:
        """The present image."""
        return self._image

    def publish(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """Takes the next image, which is the present image with the delta applied."""
        assert image.revision > self._image.revision
        self._history[self._image.revision] = delta
        self._partitions += _size(delta)
        while len(self._history) > HISTORY_DELTAS_MAX or (
            self._partitions > HISTORY_PARTITIONS_MAX and len(self._history) > 1
        ):
            self._partitions -= _size(self._history.popitem(last=False)[1])
        self._image = image
        self._wake()

    def close(self) -> None:
        """Ends all watches with NotActiveError."""
        self._closed = True
        self._wake()

    async def changes(
        self, from_revision: int, cluster_id: str
    ) -> AsyncIterator[ClusterImage | ClusterDelta]:
        """Snapshots and deltas, beginning after `from_revision` if the history still has it.

        Raises LimitExceededError if there are WATCHERS_MAX others; NotActiveError after `close`.
        """
        if self.watchers >= WATCHERS_MAX:
            raise LimitExceededError(f"{WATCHERS_MAX} watch the metadata already")
        self.watchers += 1
        try:
            async for change in self._changes(from_revision, cluster_id):
                yield change
        finally:
            self.watchers -= 1

    async def _changes(
        self, from_revision: int, cluster_id: str
    ) -> AsyncIterator[ClusterImage | ClusterDelta]:
        revision = from_revision if cluster_id == self._image.cluster_id else 0
        while True:
            if self._closed:
                raise NotActiveError
            image = self._image
            if revision == image.revision:
                await asyncio.shield(self._changed)
                continue
            delta = self._history.get(revision)
            change = image if delta is None else delta
            revision = change.revision
            yield change

    def _wake(self) -> None:
        self._changed.set_result(None)
        self._changed = asyncio.get_running_loop().create_future()


def _size(delta: ClusterDelta) -> int:
    return 1 + delta.partition_count
