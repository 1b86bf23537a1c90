"""Leadership returns to preferred leaders that are in sync and alive."""

from dataclasses import replace

from highwater.controller.core.balance_leaders import balance, steady, unbalanced
from highwater.controller.core.offline_replicas import OfflineByNode
from highwater.controller.core.partition_index import PartitionKey, index_of
from highwater.model.cluster import ClusterImage, PartitionState
from highwater.model.ids import NO_NODE, NodeId, TopicId
from tests.support.controller_images import changed_partitions, image_with, topic_state

TOPIC = topic_state("t", [(1, 2)] * 4)
HOME, AWAY, BEHIND, LOST = TOPIC.partitions
MIXED = replace(
    TOPIC,
    partitions=(
        HOME,
        replace(AWAY, leader=NodeId(2)),
        replace(BEHIND, leader=NodeId(2), isr=(NodeId(2),)),
        replace(LOST, leader=NO_NODE, isr=(NodeId(2),)),
    ),
)
KEY = (TOPIC.topic_id, AWAY.partition)


def image(**node_1: bool) -> ClusterImage:
    made = image_with(2, topics=[MIXED])
    one = replace(made.nodes[NodeId(1)], **node_1)  # type: ignore[arg-type]
    return replace(made, nodes={**made.nodes, one.node_id: one})


def could_lead(present: ClusterImage, offline: OfflineByNode) -> dict[PartitionKey, PartitionState]:
    return unbalanced(present, index_of(present), offline)


def test_preferred_leaders_that_could_lead() -> None:
    ((key, after),) = could_lead(image(), {}).items()
    assert key == KEY
    assert (after.leader, after.leader_epoch, after.partition_epoch) == (1, 6, 8)


def test_fenced_and_draining_nodes_are_not_preferred() -> None:
    assert could_lead(image(fenced=True), {}) == {}
    assert could_lead(image(draining=True), {}) == {}
    assert could_lead(image(), {NodeId(1): {TOPIC.topic_id: frozenset({1})}}) == {}
    assert KEY in could_lead(image(), {NodeId(1): {TOPIC.topic_id: frozenset({0})}})


def test_a_node_whose_disk_is_full_gets_nothing_back() -> None:
    def avoided(topic_id: TopicId, partition: int) -> frozenset[NodeId]:
        return frozenset({NodeId(1)} if (topic_id, partition) == KEY else ())

    present = image()
    assert KEY not in unbalanced(present, index_of(present), {}, avoided)
    assert balance(present, [KEY], {}, avoided).delta is None
    assert KEY in unbalanced(present, index_of(present), {}, lambda *_: frozenset({NodeId(2)}))


def state(partition_epoch: int) -> PartitionState:
    return replace(AWAY, partition_epoch=partition_epoch)


def test_only_partitions_unchanged_between_two_looks() -> None:
    new = (TopicId(b"n" * 16), 0)
    assert steady({KEY: state(8)}, {KEY: state(8), new: state(1)}) == [KEY]
    assert steady({KEY: state(8)}, {KEY: state(10)}) == [], "it was out of the ISR meanwhile"
    assert steady({KEY: state(8)}, {}) == []


def test_a_batch_moves_only_partitions_that_can_still_move() -> None:
    decision = balance(
        image(), [KEY, (TOPIC.topic_id, 2), (TOPIC.topic_id, 99), (TopicId(b""), 0)], {}
    )
    assert decision.result == 1
    assert [(p.partition, p.leader) for p in changed_partitions(decision.delta)] == [(1, 1)]
    nothing = balance(image(fenced=True), [KEY], {})
    assert (nothing.delta, nothing.result) == (None, 0)
