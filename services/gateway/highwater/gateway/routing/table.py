"""Finds the leader of (instance, topic name or id, partition); follows the image.

This is the gateway's view of the cluster, as old as the last image that the controller's watch
brought. Names are mapped to topic ids here and nowhere else (decision 6).
"""

from collections.abc import Callable, Iterable
from struct import Struct
from typing import Final

from highwater.gateway.core.produce_reply import reply_struct
from highwater.gateway.routing.brokers import FencedNode, own_gateway
from highwater.gateway.routing.near_nodes import NearNodes
from highwater.hop.append import AppendRoute
from highwater.hop.ports import NodeLink, ProduceTarget
from highwater.model.cluster import ClusterDelta, ClusterImage, PartitionState, TopicState
from highwater.model.ids import NO_TOPIC_ID, InstanceId, NodeId, TopicId
from highwater.model.steps import Steps, finish

_STEP_MOVES: Final = 32
"""Partitions that get new routes in one step: with their held batches, a third of a millisecond."""

_STEP_LOOKS: Final = 512
"""Partitions of a wide topic that are compared, or whose links are looked up, in one step: a tenth of a
millisecond."""

_STEP_TOPICS: Final = 32
"""Topics that are compared, or whose links are looked up, in one step."""


class PartitionRoute(AppendRoute):
    """Where one partition's requests go. `link` is None without a leader.

    Produce goes to `target`: the link, or the holder of batches that may not go there yet.
    """

    __slots__ = ("leader", "link", "target")

    def __init__(
        self,
        *,
        topic: TopicState,
        state: PartitionState,
        link: NodeLink | None,
        target: ProduceTarget | None,
    ) -> None:
        super().__init__(
            topic_id=topic.topic_id,
            partition=state.partition,
            leader_epoch=state.leader_epoch,
            instance=topic.instance,
        )
        self.leader = state.leader
        self.link = link
        self.target = target


class TopicRoutes:
    """One topic's routes, and the layouts of its Produce replies."""

    __slots__ = (
        "gone",
        "internal",
        "name",
        "name_bytes",
        "partitions",
        "reply_structs",
        "state",
        "table",
        "topic_id",
    )

    def __init__(
        self, state: TopicState, partitions: list[PartitionRoute], table: "RoutingTable"
    ) -> None:
        self.state = state
        self.table = table
        self.topic_id = state.topic_id
        self.name = state.name
        self.name_bytes = state.name.encode()
        self.partitions = partitions
        self.internal = state.internal
        self.gone = False
        self.reply_structs: dict[int, Struct] = {}

    @property
    def key(self) -> tuple[str, bytes]:
        """(name, id), of which a version of the protocol has one."""
        return self.name, self.topic_id

    def link_for(
        self, partition: int, node: NodeId | None, near: tuple[NodeId, ...]
    ) -> NodeLink | None:
        """The link that a fetch takes: to `node`, whose port it came by, if that has a replica and is
        `near` to the client, else to the leader.
        """
        route, known = self.partitions[partition], self.state.partitions
        if (
            node is not None
            and node in near
            and node != route.leader
            and partition < len(known)
            and node in known[partition].replicas
        ):
            return self.table.link_to(node) or route.link
        return route.link

    def reply_struct(self, version: int) -> Struct:
        """The layout of a Produce reply for one partition of this topic."""
        found = self.reply_structs.get(version)
        if found is None:
            found = self.reply_structs[version] = reply_struct(version, len(self.name_bytes))
        return found


class InstanceTopics:
    """One instance's topics by encoded name and by id; the routing table keeps both current.

    A topic that was made anew under its name has another id: the former one is not found any more.
    """

    __slots__ = ("by_id", "by_name", "changes", "near")

    def __init__(self, near: NearNodes) -> None:
        self.near = near
        self.changes = 0
        """How often a route has changed; who has looked one up may have to look again."""
        self.by_name: dict[bytes, TopicRoutes] = {}
        self.by_id: dict[TopicId, TopicRoutes] = {}

    def find(self, name: str, topic_id: bytes) -> TopicRoutes | None:
        """The topic that a request names: by its id, or by its name if it has no id (KIP-516)."""
        if topic_id == NO_TOPIC_ID:
            return self.by_name.get(name.encode())
        return self.by_id.get(TopicId(topic_id))


class RoutingTable:
    """All routes. Every new image goes through `apply`, or all steps of `applying`, in order.

    Between the steps of `applying` some routes are new, while `image` is still the former one.
    """

    def __init__(
        self,
        link_to: Callable[[NodeId], NodeLink | None],
        hold: ProduceTarget | None = None,
    ) -> None:
        """`hold` takes the batches of partitions whose leader is new, gone, or unknown.

        Without it batches go to the leader's link, and are refused while there is none.
        """
        self.link_to = link_to
        self._near = NearNodes()
        self._hold = hold
        self._moves: list[tuple[NodeLink | None, PartitionRoute]] = []
        self._gone: list[TopicId] = []
        self._instances: dict[InstanceId, InstanceTopics] = {}
        self._by_id: dict[TopicId, TopicRoutes] = {}
        self.image: ClusterImage | None = None
        self._newest_revision = 0
        self.ahead: dict[tuple[TopicId, int], int] = {}
        """Leader epochs that clients know already and the image does not."""
        self.fenced: dict[NodeId, FencedNode] = {}

    @property
    def revision(self) -> int:
        """The revision of the image that was applied last; -1 before the first."""
        return -1 if self.image is None else self.image.revision

    @property
    def newest_revision(self) -> int:
        """The revision of the newest image that the controller is known to have."""
        return self._newest_revision

    def note_revision(self, revision: int) -> None:
        """Notes a revision that the controller has named outside of the watch."""
        self._newest_revision = max(self._newest_revision, revision)

    def told(self, route: PartitionRoute, leader_epoch: int) -> None:
        """Notes that a client gets this epoch; no later answer may have an older one (R17).

        Metadata answers come from the image, which during `applying` is older than some routes.
        """
        key = (route.topic_id, route.partition)
        known = self._epoch_in_image(*key)
        if leader_epoch > (route.leader_epoch if known is None else known):
            self.ahead[key] = max(leader_epoch, self.ahead.get(key, leader_epoch))

    def topics_of(self, instance: InstanceId) -> InstanceTopics:
        """An instance's topics, also in the future."""
        found = self._instances.get(instance)
        if found is None:
            found = self._instances[instance] = InstanceTopics(self._near)
        return found

    def topic(self, instance: InstanceId, name: str) -> TopicRoutes | None:
        """Routes of a topic by name."""
        return self.topics_of(instance).by_name.get(name.encode())

    def by_id(self, instance: InstanceId, topic_id: TopicId) -> TopicRoutes | None:
        """Routes of a topic by id; None for topics of other instances."""
        return self.topics_of(instance).by_id.get(topic_id)

    def route(self, topic_id: TopicId, partition: int) -> PartitionRoute | None:
        """The route of a partition by its topic's id."""
        routes = self._by_id.get(topic_id)
        if routes is None or not 0 <= partition < len(routes.partitions):
            return None
        return routes.partitions[partition]

    def take_changes(self) -> tuple[list[tuple[NodeLink | None, PartitionRoute]], list[TopicId]]:
        """Changes since the last call: (former links and routes of moved partitions, deleted
        topics).
        """
        moves, self._moves = self._moves, []
        gone, self._gone = self._gone, []
        return moves, gone

    def apply(self, image: ClusterImage, delta: ClusterDelta | None = None) -> None:
        """Follows the image: partitions whose leader changed get new routes, others keep theirs.

        `delta` has the changes since the last applied image; None if they are not known.
        """
        finish(self.applying(image, delta))

    def applying(self, image: ClusterImage, delta: ClusterDelta | None = None) -> Steps[None]:
        """`apply` in steps. After each, act on `take_changes` before anything else runs."""
        changed: Iterable[TopicId] = image.topics
        removed: Iterable[TopicId] = self._by_id.keys() - image.topics.keys()
        if delta is not None:
            changed = (*(topic.topic_id for topic in delta.topics), *delta.partitions)
            removed = delta.removed_topics & self._by_id.keys()
        self._remove(removed)
        for count, topic_id in enumerate(changed):
            state, known = image.topics[topic_id], self._by_id.get(topic_id)
            if known is None:
                yield from self._add(state)
            elif known.state is not state:
                yield from self._change(known, state)
            if count % _STEP_TOPICS == 0:
                yield
        self._note_fenced(image)
        self.image = image
        self._near.follow(image)
        self.ahead = {
            key: epoch
            for key, epoch in self.ahead.items()
            if (known_epoch := self._epoch_in_image(*key)) is not None and known_epoch < epoch
        }

    def _epoch_in_image(self, topic_id: TopicId, partition: int) -> int | None:
        """The image's leader epoch of a partition; None if the image does not have it."""
        topic = None if self.image is None else self.image.topics.get(topic_id)
        if topic is None or partition >= len(topic.partitions):
            return None
        return topic.partitions[partition].leader_epoch

    def _note_fenced(self, image: ClusterImage) -> None:
        self.fenced = {
            node.node_id: self._fenced(image, node.node_id)
            for node in image.nodes.values()
            if node.fenced
        }

    def _fenced(self, image: ClusterImage, node_id: NodeId) -> FencedNode:
        before, gateway = self.image, own_gateway(image, node_id)
        if (known := self.fenced.get(node_id)) is not None:
            return FencedNode(known.revision, gateway or known.gateway)
        if before is None:
            return FencedNode(-1, gateway)
        return FencedNode(image.revision, gateway or own_gateway(before, node_id))

    def _remove(self, topic_ids: Iterable[TopicId]) -> None:
        for topic_id in topic_ids:
            gone = self._by_id.pop(topic_id)
            gone.gone = True
            self._gone.append(topic_id)
            topics = self._instances[gone.state.instance]
            topics.changes += 1
            del topics.by_id[topic_id]
            if topics.by_name.get(gone.name_bytes) is gone:
                del topics.by_name[gone.name_bytes]

    def relink(self) -> None:
        """Looks up every link again, after nodes came or went."""
        finish(self.relinking())

    def relinking(self) -> Steps[None]:
        """`relink` in steps, like `applying`; no topic may come or go between them."""
        for count, routes in enumerate(self._by_id.values()):
            for looks, route in enumerate(routes.partitions, start=1):
                link = self.link_to(route.leader)
                if link is not route.link:
                    self._moves.append((route.link, route))
                    self.topics_of(route.instance).changes += 1
                    route.link = link
                    route.target = self._hold or link
                if len(self._moves) >= _STEP_MOVES or looks % _STEP_LOOKS == 0:
                    yield
            if count % _STEP_TOPICS == 0:
                yield

    def _add(self, state: TopicState) -> Steps[None]:
        partitions: list[PartitionRoute] = []
        for partition in state.partitions:
            partitions.append(self._route(state, partition))
            if len(partitions) % _STEP_MOVES == 0:
                yield
        routes = TopicRoutes(state, partitions, self)
        self._by_id[state.topic_id] = routes
        topics = self.topics_of(state.instance)
        topics.changes += 1
        topics.by_id[state.topic_id] = routes
        topics.by_name[routes.name_bytes] = routes

    def _change(self, routes: TopicRoutes, state: TopicState) -> Steps[None]:
        """Makes new routes where leader or epoch changed; others stay, and may hold open groups.

        New partitions come all in one step, at the end.
        """
        known = routes.state.partitions
        added: list[PartitionRoute] = []
        for partition in state.partitions:
            number = partition.partition
            if number >= len(known):
                added.append(self._route(state, partition))
                if len(added) % _STEP_MOVES == 0:
                    yield
                continue
            if known[number] is not partition:
                old = routes.partitions[number]
                if (old.leader, old.leader_epoch) != (partition.leader, partition.leader_epoch):
                    route = routes.partitions[number] = self._route(state, partition)
                    self._moves.append((old.link, route))
                    self.topics_of(state.instance).changes += 1
            if len(self._moves) >= _STEP_MOVES or number % _STEP_LOOKS == _STEP_LOOKS - 1:
                yield
        routes.partitions += added
        self.topics_of(state.instance).changes += len(added)
        routes.state = state

    def _route(self, topic: TopicState, state: PartitionState) -> PartitionRoute:
        link = self.link_to(state.leader)
        return PartitionRoute(topic=topic, state=state, link=link, target=self._hold or link)
