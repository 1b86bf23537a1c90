"""Replicas follow the configs of the image."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import ClusterImage, TopicState
from highwater.model.ids import InstanceId, LeaderEpoch, NodeId
from highwater.model.instances import InstanceState
from highwater.model.steps import finish
from highwater.partition.core.leader_epochs import LeaderEpochCache
from highwater.partition.core.producers import ProducerStates
from highwater.partition.data_plane.plane import DataPlane
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.node.replicas import Replicas
from highwater.partition.node.topic_policy import TopicPolicies
from highwater.partition.storage.log.log import PartitionLog
from highwater.runtime.clock import SystemClock
from highwater.runtime.logging import silent_logger
from tests.support.controller_images import image_with, topic_state

NODE = NodeId(1)


class Logs:
    """Empty logs that are never written, and their configurations."""

    def __init__(self) -> None:
        self.deleted: list[PartitionLog] | None = None
        """None if nothing may be deleted."""
        self.broker_configs: list[Mapping[str, str]] = []
        self.reconfigured: list[tuple[PartitionLog, Mapping[str, str]]] = []

    def open_log(self, topic: TopicState, partition: int) -> tuple[PartitionLog, int]:
        empty: Any = SimpleNamespace(
            log_start_offset=0,
            log_end_offset=0,
            stored_high_watermark=0,
            epochs=SimpleNamespace(cache=LeaderEpochCache(), begin=lambda _epoch: None),
            producers=SimpleNamespace(states=ProducerStates()),
            rotten=False,
        )
        return cast(PartitionLog, empty), 0

    def has_log(self, log: PartitionLog) -> bool:
        return True

    def delete_log(self, log: PartitionLog) -> None:
        assert self.deleted is not None, "nothing is deleted here"
        self.deleted.append(log)

    def set_damaged_aside(self, log: PartitionLog) -> None:
        raise AssertionError("nothing is damaged here")

    def remove_set_aside(self, topic: TopicState, partition: int) -> None:
        """There is nothing."""

    def flush(self, log: PartitionLog, done: Callable[[], None]) -> None:
        log.durability.flush()
        done()

    def reconfigure(self, log: PartitionLog, topic: TopicState) -> None:
        self.reconfigured.append((log, topic.configs))

    def set_broker_configs(self, configs: Mapping[str, str]) -> None:
        self.broker_configs.append(configs)


class Roles:
    def became_leader(self, topic: TopicState, partition: int, leader_epoch: int) -> None: ...

    def resigned(self, topic: TopicState, partition: int) -> None: ...

    def following(self, image: ClusterImage) -> None: ...

    def topics_deleted(self, topics: Sequence[TopicState]) -> None: ...


class Node:
    def __init__(self) -> None:
        self.logs = Logs()
        self.plane = DataPlane(lambda _delay, _call: None, lambda _replica, _error: None)
        self.replicas = Replicas(
            plane=self.plane,
            logs=self.logs,
            policies=TopicPolicies({"log.flush.interval.ms": "9"}),
            roles=Roles(),
            clock=SystemClock(),
            log=silent_logger(),
            on_log_failure=lambda _replica, _error: None,
        )

    def apply(self, image: ClusterImage) -> None:
        self.logs.reconfigured.clear()
        finish(self.replicas.applying(image, NODE))

    def replica(self, topic: TopicState, partition: int = 0) -> PartitionReplica:
        return self.plane.replicas[topic.topic_id, partition]

    def bytes_max(self, *topics: TopicState) -> list[int]:
        return [self.replica(topic).policy.message_bytes_max for topic in topics]


A = replace(topic_state("a", [(1,), (2,), (1,)]), configs={"max.message.bytes": "100"})
B = topic_state("b", [(1,)])
DEFAULT = 1_048_588


def test_new_replicas_have_their_topic_s_configs() -> None:
    node = Node()
    node.apply(image_with(2, topics=[A, B]))
    assert node.bytes_max(A, B) == [100, DEFAULT]
    assert node.logs.broker_configs == [{"log.flush.interval.ms": "9"}]
    assert node.logs.reconfigured == []


def test_a_changed_topic_is_reconfigured_and_no_other() -> None:
    node = Node()
    node.apply(image_with(2, topics=[A, B]))
    changed = replace(A, configs={"max.message.bytes": "200"})
    node.apply(image_with(2, topics=[changed, B]))
    assert node.bytes_max(A, B) == [200, DEFAULT]
    logs = [node.replica(A, 0).log, node.replica(A, 2).log]
    assert [log for log, _ in node.logs.reconfigured] == logs
    assert node.logs.reconfigured[0][1] == changed.configs
    assert len(node.logs.broker_configs) == 1


def test_changed_brokers_configs_reach_the_topics_that_set_nothing() -> None:
    node = Node()
    image = image_with(2, topics=[A, B])
    node.apply(image)
    node.apply(replace(image, cluster_configs={"message.max.bytes": "300"}))
    assert node.bytes_max(A, B) == [100, 300]
    assert node.logs.broker_configs[1]["message.max.bytes"] == "300"
    assert len(node.logs.reconfigured) == 3
    node.apply(replace(image, node_configs={NODE: {"message.max.bytes": "400"}}))
    assert node.bytes_max(A, B) == [100, 400]
    node.apply(image)
    assert node.bytes_max(A, B) == [100, DEFAULT]


def test_an_image_without_config_changes_reconfigures_nothing() -> None:
    node = Node()
    image = image_with(2, topics=[A, B])
    node.apply(image)
    moved = tuple(replace(state, leader=NodeId(-1)) for state in A.partitions)
    node.apply(replace(image_with(2, topics=[replace(A, partitions=moved), B]), revision=101))
    assert node.logs.reconfigured == []
    assert len(node.logs.broker_configs) == 1


def test_replicas_of_an_instance_are_its_working_ones() -> None:
    node = Node()
    foreign = replace(B, instance=InstanceId("other-team"))
    node.apply(image_with(2, topics=[A, foreign]))
    mine = list(node.replicas.of_instance(A.instance))
    assert mine == [node.replica(A, 0), node.replica(A, 2)]
    assert list(node.replicas.of_instance(foreign.instance)) == [node.replica(foreign)]
    mine[0].fail()
    assert list(node.replicas.of_instance(A.instance)) == mine[1:]


def test_replicas_for_clients_are_not_those_of_coordinators() -> None:
    node = Node()
    internal = replace(B, internal=True)
    node.apply(image_with(2, topics=[A, internal]))
    assert list(node.replicas.client_replicas()) == [node.replica(A, 0), node.replica(A, 2)]


def test_elections_are_new_epochs_of_replicas_that_were_here() -> None:
    node = Node()
    image = image_with(2, topics=[A, B])
    node.apply(image)
    assert node.replicas.elections == 0
    states = tuple(
        replace(state, leader_epoch=state.leader_epoch + 1, partition_epoch=9)
        for state in A.partitions
    )
    for _ in range(2):
        node.apply(replace(image_with(2, topics=[replace(A, partitions=states), B]), revision=101))
        assert node.replicas.elections == 2, "of the two partitions that are here"


def moved(topic: TopicState, *replicas: int, partition_epoch: int) -> TopicState:
    """The topic with its first partition on `replicas`, led by their first in the next epoch."""
    nodes = tuple(map(NodeId, replicas))
    first = replace(
        topic.partitions[0],
        leader=nodes[0],
        leader_epoch=LeaderEpoch(topic.partitions[0].leader_epoch + 1),
        partition_epoch=partition_epoch,
        replicas=nodes,
        isr=nodes,
    )
    return replace(topic, partitions=(first, *topic.partitions[1:]))


def test_a_replica_that_is_taken_away_is_deleted_and_refuses() -> None:
    node = Node()
    node.apply(image_with(2, topics=[A, B]))
    replica = node.replica(A)
    assert replica.leading
    node.logs.deleted = []
    node.apply(replace(image_with(2, topics=[moved(A, 2, partition_epoch=8), B]), revision=101))
    assert node.logs.deleted == [replica.log]
    assert (A.topic_id, 0) not in node.plane.replicas
    assert not replica.leading
    assert replica.not_leader().error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    # Added again, it begins with a new log.
    node.apply(replace(image_with(2, topics=[moved(A, 2, 1, partition_epoch=9), B]), revision=102))
    assert node.replica(A) is not replica
    assert not node.replica(A).leading


def test_only_a_newer_record_deletes_a_replica() -> None:
    node = Node()
    node.apply(image_with(2, topics=[moved(A, 1, 2, partition_epoch=9), B]))
    for epoch in (8, 9):
        older = moved(A, 2, partition_epoch=epoch)
        node.apply(replace(image_with(2, topics=[older, B]), revision=101 + epoch))
    assert node.replica(A).leading


def test_a_changed_bound_of_an_instance_reaches_its_topics() -> None:
    node = Node()
    shop = InstanceId("shop")
    theirs = replace(A, instance=shop)
    image = image_with(2, topics=[theirs, B])
    node.apply(image)
    bounded = InstanceState(instance=shop, message_bytes_max=50)
    node.apply(replace(image, instances={shop: bounded}))
    assert node.bytes_max(theirs, B) == [50, DEFAULT]
    assert len(node.logs.reconfigured) == 2, "of its topic alone"
    node.apply(replace(image, instances={shop: replace(bounded, message_bytes_max=70)}))
    assert node.bytes_max(theirs, B) == [70, DEFAULT]
    node.apply(image)
    assert node.bytes_max(theirs, B) == [100, DEFAULT]
