"""Applies the cluster image to this node: which replicas it has, and which of them lead.

Used on the node's loop only. Every image is compared with the present replicas: they are created,
given a role, or removed. Nothing else changes roles.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

from highwater.model.cluster import ClusterImage, PartitionState, TopicState
from highwater.model.ids import NO_NODE, InstanceId, LeaderEpoch, NodeId, TopicId
from highwater.model.steps import Steps, finish
from highwater.model.time import Clock
from highwater.partition.core.repair import counts_no_more
from highwater.partition.core.replica_events import (
    IneligibleChanged,
    NodeRegistered,
    PartitionChanged,
)
from highwater.partition.data_plane.controller_session import ControllerSession
from highwater.partition.data_plane.conversions import Conversions
from highwater.partition.data_plane.plane import DataPlane
from highwater.partition.data_plane.policy import AppendPolicy
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.data_plane.replica_role import LAG_MS_MAX_DEFAULT
from highwater.partition.data_plane.replication_port import ReplicationPort
from highwater.partition.node.conversion_threads import ConversionThreads
from highwater.partition.node.quarantine import Next, Quarantine
from highwater.partition.node.topic_policy import TopicPolicies
from highwater.partition.storage.errors import StorageError
from highwater.partition.storage.log.log import PartitionLog
from highwater.runtime.logging import Logger

_STEP_COUNTED: Final = 512
"""Replicas that one step of a count looks at: a fifth of a millisecond."""

Key = tuple[TopicId, int]


class LogStore(Protocol):
    """Where logs come from; `highwater.partition.storage.directory.log_manager` implements it."""

    def open_log(self, topic: TopicState, partition: int) -> tuple[PartitionLog, int]:
        """The log of a partition and the index of its directory; created if there is none.

        Raises StorageError if its directory is offline or the log cannot be used.
        """
        ...

    def has_log(self, log: PartitionLog) -> bool:
        """Whether a log can be used: it is not deleted, and its directory is online."""
        ...

    def delete_log(self, log: PartitionLog) -> None:
        """Deletes a log, off the loop."""
        ...

    def set_damaged_aside(self, log: PartitionLog) -> None:
        """Renames a damaged log's files, which stay until `remove_set_aside`."""
        ...

    def remove_set_aside(self, topic: TopicState, partition: int) -> None:
        """Deletes, off the loop, what this process or an earlier one has set aside of a
        partition, because a whole copy has replaced it.
        """
        ...

    def reconfigure(self, log: PartitionLog, topic: TopicState) -> None:
        """Applies changed topic configs, or changed broker configs, which are their defaults."""
        ...

    def set_broker_configs(self, configs: Mapping[str, str]) -> None:
        """Sets the broker configs, topics' defaults; the caller then calls `reconfigure`."""
        ...

    def flush(self, log: PartitionLog, done: Callable[[], None]) -> None:
        """Syncs a log off the loop, then calls `done`, unless its directory fails."""
        ...


class RoleListener(Protocol):
    """Is told about leadership of coordinator partitions, and about topics."""

    def following(self, image: ClusterImage) -> None:
        """This image is about to be applied."""
        ...

    def became_leader(self, topic: TopicState, partition: int, leader_epoch: int) -> None:
        """This node leads the partition in that epoch."""
        ...

    def resigned(self, topic: TopicState, partition: int) -> None:
        """This node no longer leads the partition."""
        ...

    def topics_deleted(self, topics: Sequence[TopicState]) -> None:
        """These topics no longer exist; this node need not have had any of their partitions."""
        ...


class Replicas:
    """See the module."""

    def __init__(
        self,
        *,
        plane: DataPlane,
        logs: LogStore,
        policies: TopicPolicies,
        roles: RoleListener,
        clock: Clock,
        log: Logger,
        on_log_failure: Callable[[PartitionReplica, StorageError], None],
        port: ReplicationPort[PartitionReplica] | None = None,
        lag_ms_max: int = LAG_MS_MAX_DEFAULT,
        session: ControllerSession | None = None,
    ) -> None:
        """`port` connects replicas to those of other nodes; None if there are no others.

        `lag_ms_max` is replica.lag.time.max.ms. `session`: see `ReplicaRole`.
        """
        self._plane = plane
        self._logs = logs
        self._policies = policies
        self._roles = roles
        self._clock = clock
        self._log = log
        self._on_log_failure = on_log_failure
        self._port = port
        self._lag_ms_max = lag_ms_max
        self._session = session
        self.conversions = ConversionThreads(log)
        self._node_epoch = -1
        self._ineligible: frozenset[int] = frozenset()
        self._topics: dict[TopicId, TopicState] = {}
        """The last applied topics; compared by identity with the next image's."""
        self._records: dict[Key, PartitionState] = {}
        """The last applied record of each replica here; while an image is being applied, some
        are newer than their topics in `_topics`."""
        self._removed: dict[Key, PartitionState] = {}
        """While an image is being applied: records by which replicas were removed; for those of
        deleted topics, records without a leader."""
        self._led: set[Key] = set()
        """Partitions of which `roles` was told that they lead here, failed replicas included."""
        self.unusable: set[Key] = set()
        """Assigned here, but the log cannot be opened."""
        self._quarantine = Quarantine()
        self.elections = 0
        """New leader epochs of replicas here, counted since the start."""
        self.leader_count = 0
        """How many partitions this node leads."""
        self._counts = 0
        """How many counts have begun."""
        self.offline: Mapping[TopicId, Sequence[int]] = {}
        """Partitions here that cannot be used, by topic. Replaced, never changed, as the
        heartbeats' thread reads it."""

    def leaders_by_instance(self) -> dict[InstanceId, list[PartitionReplica]]:
        """Leading replicas per instance, without internal topics: nobody's limit counts those."""
        found: dict[InstanceId, list[PartitionReplica]] = {}
        for (topic_id, _), replica in self._plane.replicas.items():
            topic = self._topics.get(topic_id)
            if replica.leading and topic is not None and not topic.internal:
                found.setdefault(topic.instance, []).append(replica)
        return found

    def leader_of(self, topic_id: TopicId, partition: int) -> tuple[int, int]:
        """(leader, leader epoch) of any partition, as far as images were applied; else (-1, -1)."""
        state = self._removed.get((topic_id, partition))
        if state is None:
            topic = self._topics.get(topic_id)
            if topic is None or partition >= len(topic.partitions):
                return NO_NODE, -1
            state = topic.partitions[partition]
        return state.leader, state.leader_epoch

    def registered(self, node_epoch: int) -> None:
        """The controller knows this incarnation of the node by `node_epoch`."""
        self._node_epoch = node_epoch
        for replica in self._plane.replicas.values():
            replica.handle(NodeRegistered(node_epoch=node_epoch))

    def applying(self, image: ClusterImage, node_id: NodeId) -> Steps[None]:
        """Makes replicas, roles and configs match the image, each replica in one step.

        The next image must wait for the end.
        """
        yield from self._note_ineligible(image)
        self._roles.following(image)
        defaults_changed = self._policies.follow(image, node_id)
        if defaults_changed:
            self._logs.set_broker_configs(self._policies.broker_configs)
        gone = [topic for t, topic in self._topics.items() if t not in image.topics]
        for topic in gone:
            yield from self._remove_topic(topic)
        # Not before: what an interruption leaves of a topic goes with the next image.
        for topic in gone:
            del self._topics[topic.topic_id]
        for topic_id, topic in image.topics.items():
            before = self._topics.get(topic_id)
            if before is not topic:
                yield from self._apply_topic(before, topic, node_id)
                self._topics[topic_id] = topic
            if before is not None and (
                defaults_changed
                or before.configs != topic.configs
                or topic.instance in self._policies.rebounded
            ):
                yield from self._reconfigure(topic)
            yield
        self._removed.clear()
        if gone:
            self._roles.topics_deleted(gone)
        yield from self.counting()

    @property
    def ineligible(self) -> frozenset[int]:
        """Nodes that were fenced or shut down in the last applied image."""
        return self._ineligible

    def _note_ineligible(self, image: ClusterImage) -> Steps[None]:
        """Notes nodes that the controller would refuse in an ISR."""
        ineligible = frozenset(n.node_id for n in image.nodes.values() if n.fenced or n.draining)
        if ineligible == self._ineligible:
            return
        self._ineligible = ineligible
        for key, replica in list(self._plane.replicas.items()):
            if self._plane.replicas.get(key) is replica:  # Not replaced between two steps.
                replica.handle(IneligibleChanged(nodes=ineligible))
            yield

    def count(self) -> None:
        """Updates `leader_count` and `offline`; called after each image and each failure."""
        finish(self.counting())

    def counting(self) -> Steps[None]:
        """`count` in steps. Begins anew when a failure between two of them was counted."""
        self._counts += 1
        count = self._counts
        led, failed = 0, []
        for number, (key, replica) in enumerate(list(self._plane.replicas.items()), start=1):
            led += replica.leading
            if replica.failed:
                failed.append(key)
            if number % _STEP_COUNTED == 0:
                yield
                if count != self._counts:
                    self.count()
                    return
        self.leader_count = led
        offline: dict[TopicId, list[int]] = {}
        for topic_id, partition in sorted({*failed, *self.unusable}):
            offline.setdefault(topic_id, []).append(partition)
        self.offline = offline

    def _apply_topic(
        self, before: TopicState | None, topic: TopicState, node_id: NodeId
    ) -> Steps[None]:
        min_isr = self._policies.min_isr(topic)
        known = () if before is None else before.partitions
        # What failed before is tried again with any change of the topic.
        again = bool(self._quarantine or self.unusable)
        for state in topic.partitions:
            number = state.partition
            if again or number >= len(known) or known[number] is not state:
                self._apply_partition(topic, state, node_id, min_isr)
                yield

    def _apply_partition(
        self, topic: TopicState, state: PartitionState, node_id: NodeId, min_isr: int
    ) -> None:
        key = (topic.topic_id, state.partition)
        replica = self._plane.replicas.get(key)
        if node_id not in state.replicas:
            self.unusable.discard(key)
            # Only a newer record deletes a log, as an older one may still arrive.
            if replica is not None and state.partition_epoch > replica.core.isr.partition_epoch:
                self._log.info("replica_removed", topic=topic.name, partition=state.partition)
                self._remove(topic, replica)
                self._removed[key] = state
            return
        if replica is not None and key in self._quarantine:
            replica = self._after_step_back(topic, replica, state)
        if replica is None:
            replica = self._make(topic, state.partition, node_id)
            if replica is None:
                return
        if node_id in state.isr and not replica.failed:
            self._logs.remove_set_aside(topic, state.partition)
        self._set_role(topic, replica, state, min_isr)
        self._records[key] = state

    def step_back(self, replica: PartitionReplica, alive: Iterable[int]) -> bool:
        """Takes a replica out of service whose log is damaged and cannot be healed in place.

        False if that does not help now; see `quarantine`. `alive`: nodes proven to live.
        """
        found = self.record_of(replica)
        if found is None:
            return False
        return self._quarantine.step_back(replica, found[1], alive)

    def replace_uncut_log(self, replica: PartitionReplica) -> bool:
        """A failed follower's log is damaged where it diverges from its leader's, so it cannot be
        truncated there and must be replaced. True if it has been replaced, or will be.

        A replica outside the ISR is replaced at once, in the same leader epoch: the leader has
        answered all its fetches with the diverging offset and counted none, so no late fetch can
        count for the new log. The leader is alive: it has just answered.
        """
        found = self.record_of(replica)
        if found is None:
            return False
        topic, state = found
        counted = not counts_no_more(state, replica.core.node)
        if counted or state.leader_epoch != replica.leader_epoch:
            return self._quarantine.step_back(replica, state, (replica.leader,))
        self._replace(topic, replica)
        made = self._make(topic, state.partition, NodeId(replica.core.node))
        if made is not None:
            self._set_role(topic, made, state, self._policies.min_isr(topic))
            self._records[topic.topic_id, made.partition] = state
        return made is not None

    def record_of(self, replica: PartitionReplica) -> tuple[TopicState, PartitionState] | None:
        """The partition in the last applied image; None if it is not there."""
        topic = self._topics.get(replica.topic_id)
        state = self._records.get((replica.topic_id, replica.partition))
        return None if topic is None or state is None else (topic, state)

    def _after_step_back(
        self, topic: TopicState, replica: PartitionReplica, state: PartitionState
    ) -> PartitionReplica | None:
        """The replica to go on with after one stepped back; None if it begins with an empty log."""
        has_log = self._logs.has_log(replica.log)
        match self._quarantine.next_step(replica, state, has_log=has_log):
            case None | Next.WAIT:
                return replica
            case Next.GO_ON:
                self._drop(topic, replica)
                return self._make_of(
                    topic, replica.partition, replica.log, replica.log_dir, replica.core.node
                )
            case Next.REPLACE:
                self._replace(topic, replica)
                return None

    def _replace(self, topic: TopicState, replica: PartitionReplica) -> None:
        """Sets the log aside; an empty one will fetch its records from other replicas."""
        self._drop(topic, replica)
        if self._logs.has_log(replica.log):
            self._logs.set_damaged_aside(replica.log)

    def _reconfigure(self, topic: TopicState) -> Steps[None]:
        """Applies changed configs, from the next append on."""
        policy = self._policies.append_policy(topic)
        for state in topic.partitions:
            replica = self._plane.replicas.get((topic.topic_id, state.partition))
            if replica is not None:
                self._set_policy(replica, policy)
                self._logs.reconfigure(replica.log, topic)
                yield

    def _set_policy(self, replica: PartitionReplica, policy: AppendPolicy) -> None:
        replica.policy = policy
        if policy.codec >= 0 and replica.conversions is None:
            append = partial(self._plane.append_late, replica)
            replica.conversions = Conversions(replica, self.conversions, append)

    def _make(self, topic: TopicState, partition: int, node_id: NodeId) -> PartitionReplica | None:
        key = (topic.topic_id, partition)
        try:
            log, log_dir = self._logs.open_log(topic, partition)
        except StorageError as error:
            self.unusable.add(key)
            self._log.error("log_unusable", topic=topic.name, partition=partition, error=str(error))
            return None
        self.unusable.discard(key)
        return self._make_of(topic, partition, log, log_dir, node_id)

    def _make_of(
        self, topic: TopicState, partition: int, log: PartitionLog, log_dir: int, node_id: int
    ) -> PartitionReplica:
        replica = PartitionReplica(
            topic_id=topic.topic_id,
            topic_name=topic.name,
            partition=partition,
            log=log,
            log_dir=log_dir,
            policy=self._policies.append_policy(topic),
            clock=self._clock,
            on_log_failure=self._on_log_failure,
            flush=self._logs.flush,
            node=node_id,
            node_epoch=self._node_epoch,
            lag_ms_max=self._lag_ms_max,
            session=self._session,
            port=self._port,
        )
        self._set_policy(replica, replica.policy)
        replica.handle(IneligibleChanged(nodes=self._ineligible))
        self._plane.replicas[topic.topic_id, partition] = replica
        return replica

    def _set_role(
        self, topic: TopicState, replica: PartitionReplica, state: PartitionState, min_isr: int
    ) -> None:
        """Gives the partition's record to the replica, and tells `roles` about its leadership.

        A record that is older or repeated changes nothing.
        """
        core = replica.core
        if (
            core.isr.partition_epoch >= state.partition_epoch
            and core.leader_epoch >= state.leader_epoch
        ):
            return
        led_in = replica.leader_epoch if replica.leading else None
        self.elections += 0 <= core.leader_epoch < state.leader_epoch
        replica.handle(
            PartitionChanged(
                now_ms=self._clock.monotonic_ms(),
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
                replicas=state.replicas,
                isr=state.isr,
                min_isr=min_isr,
            )
        )
        if not replica.leading:
            if not replica.failed or state.leader != core.node:
                self._resigned(topic, state.partition)
        elif replica.leader_epoch != led_in:
            self._led.add((topic.topic_id, state.partition))
            self._roles.became_leader(topic, state.partition, replica.leader_epoch)

    def _resigned(self, topic: TopicState, partition: int) -> None:
        key = (topic.topic_id, partition)
        if key in self._led:
            self._led.remove(key)
            self._roles.resigned(topic, partition)

    def _remove_topic(self, topic: TopicState) -> Steps[None]:
        """Removes what is here of a topic, each partition in one step; then nobody leads it."""
        for state in topic.partitions:
            key = (topic.topic_id, state.partition)
            self.unusable.discard(key)
            self._logs.remove_set_aside(topic, state.partition)
            replica = self._plane.replicas.get(key)
            if replica is not None:
                self._remove(topic, replica)
                self._removed[key] = replace(state, leader=NO_NODE, leader_epoch=LeaderEpoch(-1))
            yield

    def _remove(self, topic: TopicState, replica: PartitionReplica) -> None:
        self._drop(topic, replica)
        self._logs.delete_log(replica.log)

    def _drop(self, topic: TopicState, replica: PartitionReplica) -> None:
        del self._plane.replicas[topic.topic_id, replica.partition]
        self._quarantine.forget(replica)
        self._records.pop((topic.topic_id, replica.partition), None)
        replica.retire()
        self._resigned(topic, replica.partition)

    def client_replicas(self) -> Iterator[PartitionReplica]:
        """Replicas of client topics; coordinators repeat their appends themselves."""
        for (topic_id, _), replica in self._plane.replicas.items():
            topic = self._topics.get(topic_id)
            if topic is not None and not topic.internal:
                yield replica

    def is_internal(self, key: Key) -> bool:
        """True for coordinators' partitions and for unknown ones."""
        topic = self._topics.get(key[0])
        return topic is None or topic.internal

    def of_instance(self, instance: InstanceId) -> Iterator[PartitionReplica]:
        """The working replicas of an instance's topics on this node."""
        for (topic_id, _), replica in self._plane.replicas.items():
            topic = self._topics.get(topic_id)
            if topic is not None and topic.instance == instance and not replica.failed:
                yield replica
