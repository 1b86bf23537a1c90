"""Log directories that were chosen for replicas which the node does not have yet (KIP-113).

As in Kafka (`LogManager.preferredLogDirs`) they are in memory only: whoever asked can see where the
replica is, and ask again.
"""

from typing import Final

from highwater.model.ids import TopicId

PREFERRED_MAX: Final = 10_000
"""How many choices are kept; the oldest goes first. A plan rarely brings a node that many replicas,
and a choice that is forgotten costs a directory, no record."""


class PreferredDirectories:
    """One of each node, used on its loop only."""

    def __init__(self, limit: int = PREFERRED_MAX) -> None:
        self._limit = limit
        self._chosen: dict[tuple[TopicId, int], int] = {}

    def __len__(self) -> int:
        """How many choices wait for their replicas."""
        return len(self._chosen)

    def remember(self, topic_id: TopicId, partition: int, index: int) -> None:
        """Chooses the directory with this index; replaces an earlier choice."""
        self._chosen.pop((topic_id, partition), None)
        self._chosen[topic_id, partition] = index
        if len(self._chosen) > self._limit:
            del self._chosen[next(iter(self._chosen))]

    def take(self, topic_id: TopicId, partition: int) -> int | None:
        """The chosen index, which is then forgotten; None if nobody has chosen."""
        return self._chosen.pop((topic_id, partition), None)
