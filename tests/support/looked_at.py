"""How much of an image one step of long work looks at: its length in work, not in time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Self, TypeVar

from highwater.model.cluster import ClusterImage, PartitionState
from highwater.model.steps import Steps

_R = TypeVar("_R")


class Looks:
    """Counts how often somebody takes a partition out of an image."""

    def __init__(self) -> None:
        self.count = 0

    def at(self, image: ClusterImage) -> ClusterImage:
        """The same image, whose partitions are counted when they are looked at."""
        topics = {
            topic_id: replace(topic, partitions=_Counted(topic.partitions, self))
            for topic_id, topic in image.topics.items()
        }
        return replace(image, topics=topics)


class _Counted(tuple[PartitionState, ...]):  # noqa: SLOT001 - a tuple's own slots are its items.
    looks: Looks

    def __new__(cls, partitions: tuple[PartitionState, ...], looks: Looks) -> Self:
        made = super().__new__(cls, partitions)
        made.looks = looks
        return made

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        self.looks.count += len(found) if isinstance(index, slice) else 1
        return found

    def __iter__(self) -> Iterator[PartitionState]:
        for state in super().__iter__():
            self.looks.count += 1
            yield state


def longest_step(steps: Steps[_R], work: Callable[[], int]) -> tuple[_R, int]:
    """Runs all steps; the result, and the most by which `work` grew in one of them."""
    longest, before = 0, work()
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: _R = stop.value
            return result, max(longest, work() - before)
        longest, before = max(longest, work() - before), work()
