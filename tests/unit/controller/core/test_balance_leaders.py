"""Leadership comes back to preferred leaders that can take it."""

from dataclasses import replace

from highwater.controller.core.balance_leaders import balance, led_by_others, steady, unbalanced
from highwater.model.cluster import ClusterImage, PartitionState
from highwater.model.ids import NO_NODE, NodeId, TopicId
from tests.support.controller_images import image_with, topic_state

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


def test_who_could_lead_and_does_not() -> None:
    ((key, after),) = unbalanced(image(), {}).items()
    assert key == KEY
    assert led_by_others(image()) == 3
    assert (after.leader, after.leader_epoch, after.partition_epoch) == (1, 6, 8)


def test_nobody_who_is_going_or_gone() -> None:
    assert unbalanced(image(fenced=True), {}) == {}
    assert unbalanced(image(draining=True), {}) == {}
    assert unbalanced(image(), {NodeId(1): {TOPIC.topic_id: frozenset({1})}}) == {}
    assert KEY in unbalanced(image(), {NodeId(1): {TOPIC.topic_id: frozenset({0})}})


def state(partition_epoch: int) -> PartitionState:
    return replace(AWAY, partition_epoch=partition_epoch)


def test_only_what_did_not_change_between_two_looks() -> None:
    new = (TopicId(b"n" * 16), 0)
    assert steady({KEY: state(8)}, {KEY: state(8), new: state(1)}) == [KEY]
    assert steady({KEY: state(8)}, {KEY: state(10)}) == [], "it was out of the ISR meanwhile"
    assert steady({KEY: state(8)}, {}) == []


def test_a_batch_moves_what_still_can_be_moved() -> None:
    decision = balance(
        image(), [KEY, (TOPIC.topic_id, 2), (TOPIC.topic_id, 99), (TopicId(b""), 0)], {}
    )
    assert decision.result == 1
    assert decision.delta is not None
    (topic,) = decision.delta.topics
    assert [p.leader for p in topic.partitions] == [1, 1, 2, -1]
    nothing = balance(image(fenced=True), [KEY], {})
    assert (nothing.delta, nothing.result) == (None, 0)
