"""AlterPartitionReassignments, with Kafka's error codes."""

from dataclasses import replace
from typing import Any

from highwater.controller.core.alter_reassignments import Reassignment, alter_reassignments
from highwater.controller.core.membership import ElectionRules
from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import ClusterImage, PartitionState
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId, NodeId, TopicId
from tests.support.controller_images import image_with, topic_state

RULES = ElectionRules(min_isr=lambda _: 2, unclean=lambda _: False)
TOPIC = topic_state("t", [(1, 2, 3), (2, 3, 1), (4,)])
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
BAD = ErrorCode.INVALID_REPLICA_ASSIGNMENT


def wish(partition: int, *replicas: int, topic_id: TopicId = TOPIC.topic_id) -> Reassignment:
    return Reassignment(topic_id=topic_id, partition=partition, replicas=replicas)


def back(partition: int) -> Reassignment:
    return Reassignment(topic_id=TOPIC.topic_id, partition=partition, replicas=None)


def alter(
    *wanted: Reassignment,
    image: ClusterImage | None = None,
    instance: InstanceId = DEFAULT_INSTANCE,
    **options: Any,
) -> tuple[list[int], dict[int, PartitionState]]:
    """Error codes in the order of the requests, and changed partitions."""
    before = image or image_with(5, topics=[TOPIC])
    decision = alter_reassignments(before, instance, wanted, RULES, **{"offline": {}, **options})
    codes = [int(r.code) if r else 0 for r in decision.result]
    changed = {}
    for topic_id, states in decision.delta.partitions.items() if decision.delta else ():
        known = before.topics[topic_id].partitions
        for now in states:
            was = known[now.partition]
            if was != now:
                changed[now.partition] = now
    return codes, changed


def test_each_partition_has_its_own_result() -> None:
    codes, changed = alter(wish(0, 1, 2, 5), wish(9, 1), wish(1, 1, 1), wish(2, 5))
    assert codes == [0, UNKNOWN, BAD, 0]
    assert {number: state.replicas for number, state in changed.items()} == {
        0: (1, 2, 5, 3),
        2: (5, 4),
    }


def test_impossible_replicas_are_refused() -> None:
    codes, changed = alter(wish(0), wish(0, 1, 2, 1), wish(0, 9), wish(0, -1))
    assert codes == [BAD] * 4
    assert changed == {}


def test_nodes_that_are_taken_out_of_use_get_nothing_new() -> None:
    image = image_with(5, topics=[TOPIC])
    leaving = replace(image.nodes[NodeId(3)], decommissioning=True)
    image = replace(image, nodes={**image.nodes, NodeId(3): leaving})
    codes, changed = alter(wish(0, 3, 1), wish(2, 3), image=image)
    assert codes == [0, BAD], "what it has it may keep"
    assert changed[0].replicas == (3, 1)


def test_topics_of_other_instances_and_missing_topics() -> None:
    assert alter(wish(0, 1), instance=InstanceId("other")) == ([UNKNOWN], {})
    assert alter(wish(0, 1, topic_id=TopicId(b"x" * 16))) == ([UNKNOWN], {})


def test_an_assignment_that_is_present_is_no_change() -> None:
    codes, changed = alter(wish(0, 1, 2, 3))
    assert (codes, changed) == ([0], {})


def test_the_replication_factor_may_be_fixed() -> None:
    wrong = ErrorCode.INVALID_REPLICATION_FACTOR
    assert alter(wish(0, 1, 2), wish(0, 1, 2, 5), may_change_factor=False)[0] == [wrong, 0]
    _, changed = alter(wish(0, 1, 2, 5))
    moving = replace(TOPIC, partitions=(changed[0], *TOPIC.partitions[1:]))
    image = image_with(5, topics=[moving])
    assert alter(wish(0, 1, 2), wish(0, 4, 5, 1), image=image, may_change_factor=False)[0] == [
        wrong,
        0,
    ]


def test_cancelling_returns_to_the_former_replicas() -> None:
    assert alter(back(0))[0] == [ErrorCode.NO_REASSIGNMENT_IN_PROGRESS]
    codes, changed = alter(wish(0, 1, 2, 5), back(0), back(0))
    assert codes == [0, 0, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS], "one after the other"
    assert changed[0].replicas == (1, 2, 3)


def test_cancelling_needs_a_former_replica_in_sync() -> None:
    _, changed = alter(wish(2, 5))
    moved = replace(changed[2], isr=(NodeId(5),), leader=NodeId(5))
    image = image_with(5, topics=[replace(TOPIC, partitions=(*TOPIC.partitions[:2], moved))])
    assert alter(back(2), image=image) == ([BAD], {})


def test_calling_a_move_back_twice_is_no_error_while_its_leader_hands_over() -> None:
    _, changed = alter(wish(0, 1, 2, 5))
    led = replace(changed[0], leader=NodeId(5), isr=tuple(map(NodeId, (1, 2, 3, 5))))
    image = image_with(5, topics=[replace(TOPIC, partitions=(led, *TOPIC.partitions[1:]))])
    codes, changed = alter(back(0), back(0), image=image, leader_first=True)
    assert codes == [0, 0]
    assert (changed[0].leader, changed[0].removing_replicas) == (5, (5,))
    assert changed[0].partition_epoch == led.partition_epoch + 1
    _, changed = alter(back(0), image=image)
    assert (changed[0].leader, changed[0].replicas) == (1, (1, 2, 3))


def test_a_log_that_failed_does_not_lead() -> None:
    state = replace(TOPIC.partitions[0], isr=(NodeId(1), NodeId(2), NodeId(3)))
    image = image_with(5, topics=[replace(TOPIC, partitions=(state, *TOPIC.partitions[1:]))])
    offline = {NodeId(2): {TOPIC.topic_id: frozenset({0})}}
    _, changed = alter(wish(0, 2, 3), image=image, offline=offline)
    assert changed[0].leader == 3
