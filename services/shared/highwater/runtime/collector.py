"""Keeps the runs of Python's garbage collector short, however large the image of the cluster is.

An image of 100 000 partitions is more than a million objects. References alone free it, because
nothing in it refers back, but each full collection would look at all of it: a quarter of a second,
during which the event loop stands still. So objects that stay are frozen: the collector ignores them
(`gc.freeze`). They are still freed with the last reference to them, unless they are in a cycle.
Therefore freezes are rare, and objects are thawed when many partitions were deleted.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

THRESHOLDS: Final = (700, 2, 50)
"""Python's (700, 10, 10) lets the second generation gather 7 000 objects, which with the large
tuples and sets of an image take 10 ms. As many objects as there pass between two full runs."""

FREEZE_PARTITIONS: Final = 10_000
"""So many partitions that are new in an image are worth a freeze. Below that a full collection
takes some 10 ms, and those alive at a freeze that die in a cycle later are too many for the gain."""

THAW_PARTITIONS: Final = 1_000
"""When so many partitions are deleted, what belonged to them may be in cycles: logs, for example."""


@contextmanager
def collection_paused() -> Iterator[None]:
    """Collects nothing meanwhile: for work that makes very many objects that stay."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class FreezePolicy:
    """Decides when to freeze and thaw, by the changes of its owner's image. Lives as its owner."""

    def __init__(
        self,
        freeze: Callable[[], None] = gc.freeze,
        thaw: Callable[[], None] = gc.unfreeze,
    ) -> None:
        self._freeze = freeze
        self._thaw = thaw
        self._new = 0
        self._removed = 0

    def note_partitions(self, *, new: int, removed: int = 0) -> None:
        """Counts the partitions of the image that are new or changed, and those removed."""
        self._removed += removed
        if self._removed >= THAW_PARTITIONS:
            self._removed = 0
            self._thaw()
        self._new += new
        if self._new >= FREEZE_PARTITIONS:
            self._new = 0
            self._freeze()
