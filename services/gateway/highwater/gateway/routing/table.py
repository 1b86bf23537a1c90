"""From (instance, topic name, partition) to the node that leads it, kept up with the image.

The gateway's view of the cluster: it is as old as the last change that the controller's watch
brought. The mapping from names to topic ids happens here and nowhere else (decision 6).
"""

from collections.abc import Callable
from struct import Struct
from typing import Any, Protocol

from highwater.gateway.core.produce_reply import reply_struct
from highwater.hop.append import AppendRoute, AppendSink
from highwater.hop.ports import NodeLink
from highwater.model.cluster import ClusterImage, PartitionState, TopicState
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId, NodeId, TopicId


class ProduceTarget(Protocol):
    """Takes batches: a link, or whoever holds them until there is one."""

    def append(
        self,
        route: AppendRoute,
        acks: int,
        batch: Any,
        nbytes: int,
        sink: AppendSink,
        index: int,
        deadline_ms: int,
    ) -> None:
        """Queues one batch; order per partition is the order of these calls."""
        ...


class PartitionRoute(AppendRoute):
    """Where one partition's requests go. `link` is None while nobody leads.

    Produce goes to `target`: the link, or whoever holds batches before they may go there.
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
    """One topic's routes, and what its Produce replies look like."""

    __slots__ = (
        "gone",
        "internal",
        "name",
        "name_bytes",
        "partitions",
        "reply_structs",
        "state",
        "table",
    )

    def __init__(
        self, state: TopicState, partitions: list[PartitionRoute], table: "RoutingTable"
    ) -> None:
        self.state = state
        self.table = table
        self.name = state.name
        self.name_bytes = state.name.encode()
        self.partitions = partitions
        self.internal = state.internal
        self.gone = False
        self.reply_structs: dict[int, Struct] = {}

    def reply_struct(self, version: int) -> Struct:
        """The layout of a Produce reply for one partition of this topic."""
        found = self.reply_structs.get(version)
        if found is None:
            found = self.reply_structs[version] = reply_struct(version, len(self.name_bytes))
        return found


class RoutingTable:
    """All routes; `apply` is called with every new image, in order."""

    def __init__(
        self,
        link_to: Callable[[NodeId], NodeLink | None],
        hold: ProduceTarget | None = None,
    ) -> None:
        """`hold` takes the batches of partitions whose leader is new, gone, or not known.

        Without it they go to the leader's link, and are refused while there is none.
        """
        self._link_to = link_to
        self._hold = hold
        self._moves: list[tuple[NodeLink | None, PartitionRoute]] = []
        self._gone: list[TopicId] = []
        self._by_name: dict[InstanceId, dict[bytes, TopicRoutes]] = {DEFAULT_INSTANCE: {}}
        self._by_id: dict[TopicId, TopicRoutes] = {}
        self.image: ClusterImage | None = None
        self._newest_revision = 0
        self.ahead: dict[tuple[TopicId, int], int] = {}
        """Leader epochs that clients were told and that the image does not have yet."""

    @property
    def newest_revision(self) -> int:
        """Of the newest image that the controller is known to have; ours is late below that."""
        return self._newest_revision

    def heard_of(self, revision: int) -> None:
        """The controller says so, elsewhere than in its watch."""
        self._newest_revision = max(self._newest_revision, revision)

    def told(self, route: PartitionRoute, leader_epoch: int) -> None:
        """A client hears of this epoch; nobody may hear of an older one later (invariant R17)."""
        if leader_epoch > route.leader_epoch:
            key = (route.topic_id, route.partition)
            self.ahead[key] = max(leader_epoch, self.ahead.get(key, leader_epoch))

    def topics_of(self, instance: InstanceId) -> dict[bytes, TopicRoutes]:
        """Routes by encoded topic name; the dictionary is live."""
        return self._by_name.setdefault(instance, {})

    def topic(self, instance: InstanceId, name: str) -> TopicRoutes | None:
        """Routes of a topic by name."""
        return self.topics_of(instance).get(name.encode())

    def by_id(self, topic_id: TopicId) -> TopicRoutes | None:
        """Routes of a topic by id."""
        return self._by_id.get(topic_id)

    def route(self, topic_id: TopicId, partition: int) -> PartitionRoute | None:
        """The route of a partition by its topic's id."""
        routes = self._by_id.get(topic_id)
        if routes is None or not 0 <= partition < len(routes.partitions):
            return None
        return routes.partitions[partition]

    def take_changes(self) -> tuple[list[tuple[NodeLink | None, PartitionRoute]], list[TopicId]]:
        """(former link and route of partitions that moved, deleted topics) since the last call."""
        moves, self._moves = self._moves, []
        gone, self._gone = self._gone, []
        return moves, gone

    def apply(self, image: ClusterImage) -> None:
        """Follows the image: topics that changed get new routes, others keep theirs."""
        for topic_id in self._by_id.keys() - image.topics.keys():
            gone = self._by_id.pop(topic_id)
            gone.gone = True
            self._gone.append(topic_id)
            names = self._by_name[gone.state.instance]
            if names.get(gone.name_bytes) is gone:
                del names[gone.name_bytes]
        for topic_id, state in image.topics.items():
            known = self._by_id.get(topic_id)
            if known is None:
                self._add(state)
            elif known.state is not state:
                self._change(known, state)
        self.image = image
        self.ahead = {
            key: epoch
            for key, epoch in self.ahead.items()
            if (route := self.route(*key)) is not None and route.leader_epoch < epoch
        }

    def relink(self) -> None:
        """Asks for every link again, after nodes came or went."""
        for routes in self._by_id.values():
            for route in routes.partitions:
                link = self._link_to(route.leader)
                if link is not route.link:
                    self._moves.append((route.link, route))
                    route.link = link
                    route.target = self._hold or link

    def _add(self, state: TopicState) -> None:
        routes = TopicRoutes(state, [self._route(state, p) for p in state.partitions], self)
        self._by_id[state.topic_id] = routes
        self.topics_of(state.instance)[routes.name_bytes] = routes

    def _change(self, routes: TopicRoutes, state: TopicState) -> None:
        """New routes where leader or epoch changed; others may hold an open group."""
        before = routes.partitions
        after: list[PartitionRoute] = []
        for partition in state.partitions:
            old = before[partition.partition] if partition.partition < len(before) else None
            if (
                old is not None
                and old.leader == partition.leader
                and old.leader_epoch == partition.leader_epoch
            ):
                after.append(old)
            else:
                after.append(self._route(state, partition))
                if old is not None:
                    self._moves.append((old.link, after[-1]))
        routes.state = state
        routes.partitions = after

    def _route(self, topic: TopicState, state: PartitionState) -> PartitionRoute:
        link = self._link_to(state.leader)
        return PartitionRoute(topic=topic, state=state, link=link, target=self._hold or link)
