"""Sinks that wait for batches, in tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from highwater.hop.append import (
    AppendGroup,
    AppendOwner,
    AppendRoute,
    Failure,
    TransactionalWrite,
)
from highwater.model.ids import DEFAULT_INSTANCE, LeaderEpoch, TopicId

TOPIC = TopicId(b"topic-id-16bytes")


class Sink:
    """Keeps its results in order."""

    def __init__(self) -> None:
        self.results: list[tuple[int, int, Failure | None]] = []
        self.raises: set[int] = set()
        """Indexes for which it raises an error."""
        self.errors: list[Exception] = []

    def append_done(
        self, index: int, base_offset: int, group: AppendGroup, failure: Failure | None
    ) -> None:
        if index in self.raises:
            raise RuntimeError(f"a bug at {index}")
        self.results.append((index, base_offset, failure))

    def append_broken(self, error: Exception) -> None:
        self.errors.append(error)

    @property
    def offsets(self) -> dict[int, int]:
        """Base offsets by index."""
        return {index: offset for index, offset, _ in self.results}

    @property
    def codes(self) -> dict[int, int]:
        """Error codes by index, 0 for those appended."""
        return {index: failure.error_code if failure else 0 for index, _, failure in self.results}


class Owner:
    """Takes every result of its groups and passes it on; nobody hears it if no one is named."""

    def __init__(
        self, heard: Callable[[list[int], Mapping[int, Failure] | None], object] | None = None
    ) -> None:
        self.heard = heard

    def take_result(
        self, group: AppendGroup, base_offsets: list[int], failures: Mapping[int, Failure] | None
    ) -> bool:
        if self.heard is not None:
            self.heard(base_offsets, failures)
        return True


def route(partition: int = 0, *, epoch: int = 0, topic_id: TopicId = TOPIC) -> AppendRoute:
    return AppendRoute(
        topic_id=topic_id,
        partition=partition,
        leader_epoch=LeaderEpoch(epoch),
        instance=DEFAULT_INSTANCE,
    )


def group_of(
    *batches: Any,
    partition: int = 0,
    epoch: int = 0,
    acks: int = 1,
    sink: Sink | None = None,
    topic_id: TopicId = TOPIC,
    deadline_ms: int = 0,
    owner: AppendOwner | None = None,
    transaction: TransactionalWrite | None = None,
) -> AppendGroup:
    made = AppendGroup(topic_id, partition, epoch, acks, DEFAULT_INSTANCE, owner)
    for index, batch in enumerate(batches):
        made.batches.append(batch)
        made.sinks.append(sink or Sink())
        made.indexes.append(index)
        made.nbytes += len(batch)
    made.deadline_ms = deadline_ms
    made.transaction = transaction
    return made
