"""Keeps the runs of Python's garbage collector short, however large the image of the cluster is.

An image of 100 000 partitions is more than a million objects. References alone free it, because
nothing in it refers back, but each full collection would look at all of it: a quarter of a second,
during which the event loop stands still. So what is there for long is frozen: taken out of the
collector's sight (`gc.freeze`). It is still freed when the last reference to it goes; only a cycle
among frozen objects is not, which is why there are few freezes, and thaws.
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
def at_rest() -> Iterator[None]:
    """Nothing is collected meanwhile: for work that makes very many objects that stay."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class Permafrost:
    """Decides when to freeze and thaw, by what its owner's image becomes. As old as its owner."""

    def __init__(
        self,
        freeze: Callable[[], None] = gc.freeze,
        thaw: Callable[[], None] = gc.unfreeze,
    ) -> None:
        self._freeze = freeze
        self._thaw = thaw
        self._new = 0
        self._removed = 0

    def took(self, *, new: int, removed: int = 0) -> None:
        """So many partitions of the owner's image are new or changed, and so many are gone."""
        self._removed += removed
        if self._removed >= THAW_PARTITIONS:
            self._removed = 0
            self._thaw()
        self._new += new
        if self._new >= FREEZE_PARTITIONS:
            self._new = 0
            self._freeze()
