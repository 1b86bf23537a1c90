"""Topics as a shard's consumer groups see them, changed by hand."""

from __future__ import annotations

from collections.abc import Iterable

from highwater.model.authorization import TopicView
from highwater.model.ids import InstanceId, TopicId
from highwater.partition.groups.consumer.assignors.types import SubscribedTopic
from highwater.partition.groups.consumer.topics import MayDescribe


class FakeTopics:
    """Topics of all instances; the id of "t" is sixteen times "t"."""

    def __init__(self, **partitions: int) -> None:
        self.revision = 1
        self._topics: dict[str, SubscribedTopic] = {}
        self.hidden: dict[str, set[str]] = {}
        """The topics that a principal's name may not describe."""
        for name, count in partitions.items():
            self.set(name, count)

    def set(self, name: str, partitions: int) -> None:
        self.revision += 1
        self._topics[name] = SubscribedTopic(topic_id(name), name, partitions, ())

    def delete(self, name: str) -> None:
        self.revision += 1
        del self._topics[name]

    def by_name(self, instance: InstanceId, name: str) -> SubscribedTopic | None:
        return self._topics.get(name)

    def by_id(self, instance: InstanceId, topic_id: TopicId) -> SubscribedTopic | None:
        return next((t for t in self._topics.values() if t.topic_id == topic_id), None)

    def names(self, instance: InstanceId) -> Iterable[str]:
        return list(self._topics)

    def described_by(self, instance: InstanceId, view: TopicView | None) -> MayDescribe | None:
        if view is None:
            return None
        return lambda name: name not in self.hidden.get(view.principal.name, ())


def topic_id(name: str) -> TopicId:
    return TopicId((name.encode() * 16)[:16])
