"""From where topics may be written and read: the lists of networks in their configs, ready to be asked.

`produce.allowed.networks` and `consume.allowed.networks` of a topic; most topics have neither.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from highwater.model.cluster import ClusterDelta, ClusterImage, TopicState
from highwater.model.ids import InstanceId, TopicId
from highwater.model.networks import Networks, networks_of_config

PRODUCE: Final = "produce.allowed.networks"
CONSUME: Final = "consume.allowed.networks"


class TopicLists(NamedTuple):
    """The lists of one topic; None is anywhere."""

    produce: Networks | None
    consume: Networks | None


class TopicNetworks:
    """Lives as long as the gateway, and follows its images."""

    def __init__(self) -> None:
        self.by_name: dict[tuple[InstanceId, str], TopicLists] = {}
        """Of the topics that have a list."""
        self._texts: dict[TopicId, tuple[InstanceId, str, str, str]] = {}
        """What `by_name` was made of."""

    def follow(self, image: ClusterImage, delta: ClusterDelta | None) -> bool:
        """Applies a new image; True if a list is another one. `delta` is None if it is not known."""
        if delta is None:
            topics: Iterable[TopicState] = image.topics.values()
            gone = self._texts.keys() - image.topics.keys()
        else:
            topics = delta.topics
            gone = self._texts.keys() & delta.removed_topics
        changed = False
        for topic_id in gone:  # First, since another topic may have the name.
            self._forget(topic_id)
            changed = True
        for topic in topics:
            if self._texts.get(topic.topic_id) == (texts := _texts(topic)):
                continue
            self._forget(topic.topic_id)
            if texts is not None:
                self._texts[topic.topic_id] = texts
                self.by_name[topic.instance, topic.name] = TopicLists(
                    _networks(texts[2]), _networks(texts[3])
                )
            changed = True
        return changed

    def _forget(self, topic_id: TopicId) -> None:
        texts = self._texts.pop(topic_id, None)
        if texts is not None:
            del self.by_name[texts[0], texts[1]]


def _texts(topic: TopicState) -> tuple[InstanceId, str, str, str] | None:
    produce, consume = topic.configs.get(PRODUCE, ""), topic.configs.get(CONSUME, "")
    return (topic.instance, topic.name, produce, consume) if produce or consume else None


def _networks(text: str) -> Networks | None:
    try:
        return networks_of_config(text)
    except (
        ValueError
    ):  # The controller has checked it; whatever it means, it does not mean everybody.
        return Networks(())
