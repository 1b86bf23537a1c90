"""What the group coordinator knows of topics: the node's cluster image, as assignors want it.

The image never changes; when a newer one comes, groups compare the hash of the topics that they
read (KIP-1101) and begin a new epoch if it differs.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from highwater.model.acl_operations import AclOperation
from highwater.model.acls import AclTable
from highwater.model.authorization import Requester, Resource, ResourceType, TopicView
from highwater.model.cluster import ClusterImage, TopicState
from highwater.model.ids import InstanceId, NodeId, TopicId
from highwater.partition.groups.consumer.assignors.types import SubscribedTopic
from highwater.partition.groups.consumer.topic_hash import group_hash

MayDescribe = Callable[[str], bool]
"""Whether a member may describe the topic of a name."""


class Topics(Protocol):
    """The topics of the cluster at one moment; read only."""

    @property
    def revision(self) -> int:
        """Grows with every change."""
        ...

    def by_name(self, instance: InstanceId, name: str) -> SubscribedTopic | None:
        """The instance's topic of that name, or None."""
        ...

    def by_id(self, instance: InstanceId, topic_id: TopicId) -> SubscribedTopic | None:
        """The instance's topic of that id, or None."""
        ...

    def names(self, instance: InstanceId) -> Iterable[str]:
        """All topics of the instance that a regular expression may match; later changes are not in it."""
        ...

    def described_by(self, instance: InstanceId, view: TopicView | None) -> MayDescribe | None:
        """What a client of the instance may describe by the ACLs of now; None if that is all of it."""
        ...


class ImageTopics:
    """`Topics` of the newest image that it was given; lives as long as the node."""

    def __init__(self) -> None:
        """Begins without topics."""
        self._image = ClusterImage(revision=0, cluster_id="")
        self._racks: Mapping[NodeId, str] = {}
        self._seen: dict[TopicId, tuple[TopicState, SubscribedTopic]] = {}
        """What was asked for, while topic and racks stay the same."""
        self._names: dict[InstanceId, list[str]] = {}
        """What `names` has answered, while the topics stay the same."""
        self._acl_table: AclTable | None = None
        """Of the image's ACLs, once somebody has asked."""
        self.revision = 0

    def follow(self, image: ClusterImage) -> bool:
        """Takes a newer image; False if its topics, racks and ACLs are those of the last one."""
        racks = {node.node_id: node.rack for node in image.nodes.values()}
        racks_changed = racks != self._racks
        if racks_changed:
            self._racks = racks
            self._seen.clear()
        changed = racks_changed or image.topics is not self._image.topics
        acls_changed = image.acls is not self._image.acls
        if acls_changed:
            self._acl_table = None
        self._image = image
        self.revision = image.revision
        if changed:
            self._names.clear()
            topics = image.topics
            self._seen = {t: s for t, s in self._seen.items() if topics.get(t) is s[0]}
        return changed or acls_changed

    def by_name(self, instance: InstanceId, name: str) -> SubscribedTopic | None:
        """See `Topics`."""
        topic = self._image.topic(name, instance)
        return None if topic is None else self._subscribed(topic)

    def by_id(self, instance: InstanceId, topic_id: TopicId) -> SubscribedTopic | None:
        """See `Topics`."""
        topic = self._image.topics.get(topic_id)
        return None if topic is None or topic.instance != instance else self._subscribed(topic)

    def names(self, instance: InstanceId) -> Iterable[str]:
        """See `Topics`; Kafka, too, lets regular expressions match internal topics."""
        found = self._names.get(instance)
        if found is None:
            found = [name for of, name in self._image.topic_ids if of == instance]
            self._names[instance] = found
        return found

    def described_by(self, instance: InstanceId, view: TopicView | None) -> MayDescribe | None:
        """See `Topics`. As the gateways' authorizer, which has sent the view."""
        if view is None:
            return None
        if self._acl_table is None:
            self._acl_table = AclTable(self._image.acls)
        decide = self._acl_table.decide
        who = Requester(view.principal, instance, view.host)
        otherwise = view.visible_without_acl

        def may_describe(name: str) -> bool:
            decided = decide(who, AclOperation.DESCRIBE, Resource(ResourceType.TOPIC, name))
            return otherwise if decided is None else decided

        return may_describe

    def _subscribed(self, topic: TopicState) -> SubscribedTopic:
        seen = self._seen.get(topic.topic_id)
        if seen is not None and seen[0] is topic:
            return seen[1]
        made = SubscribedTopic(
            topic_id=topic.topic_id,
            name=topic.name,
            partitions=len(topic.partitions),
            racks=tuple(
                tuple(rack for node in p.replicas if (rack := self._racks.get(node)))
                for p in topic.partitions
            ),
        )
        self._seen[topic.topic_id] = topic, made
        return made


def subscribed(
    topics: Topics, instance: InstanceId, names: Iterable[str]
) -> dict[TopicId, SubscribedTopic]:
    """Those of the topics that exist, by id."""
    found = (topics.by_name(instance, name) for name in names)
    return {topic.topic_id: topic for topic in found if topic is not None}


def metadata_hash(topics: Iterable[SubscribedTopic]) -> int:
    """A number that changes when one of the topics comes, goes, grows or gets other racks; 0 for none."""
    return group_hash((topic.name, topic.hash) for topic in topics)
