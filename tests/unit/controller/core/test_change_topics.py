"""CreatePartitions and DeleteTopics."""

from dataclasses import replace

from highwater.controller.core.change_topics import Growth, create_partitions, delete_topics
from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import ClusterImage, TopicState
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId, NodeId, TopicId
from tests.support.controller_images import image_with, topic_state

TOPIC = topic_state("t", [(1, 2), (2, 3)])
IMAGE = image_with(3, topics=[TOPIC])


def grow(growth: Growth, image: ClusterImage = IMAGE) -> TopicState | ErrorCode:
    decision = create_partitions(image, DEFAULT_INSTANCE, [growth], lambda _: 0)
    (refusal,) = decision.result
    if refusal is not None:
        assert decision.delta is None
        return refusal.code
    assert decision.delta is not None
    return decision.delta.topics[0]


def test_growth_keeps_what_is_there() -> None:
    larger = grow(Growth(topic_id=TOPIC.topic_id, count=5))
    assert isinstance(larger, TopicState)
    assert larger.partitions[:2] == TOPIC.partitions
    assert [p.partition for p in larger.partitions] == [0, 1, 2, 3, 4]
    assert [p.leader for p in larger.partitions[2:]] == [3, 1, 2], "the walk goes on"
    assert all(len(p.replicas) == 2 for p in larger.partitions)


def test_growth_with_manual_assignments() -> None:
    larger = grow(Growth(topic_id=TOPIC.topic_id, count=3, assignments=((2, (3, 1)),)))
    assert isinstance(larger, TopicState)
    assert larger.partitions[2].replicas == (3, 1)


def test_new_partitions_get_the_replication_factor_of_a_reassignments_target() -> None:
    moving = replace(
        TOPIC.partitions[0],
        replicas=(NodeId(3), NodeId(1), NodeId(2)),
        adding_replicas=(NodeId(3),),
        removing_replicas=(NodeId(1), NodeId(2)),
    )
    topic = replace(TOPIC, partitions=(moving, *TOPIC.partitions[1:]))
    larger = grow(Growth(topic_id=topic.topic_id, count=3), image_with(3, topics=[topic]))
    assert isinstance(larger, TopicState)
    assert len(larger.partitions[2].replicas) == 1


def test_a_request_has_a_limit() -> None:
    """Like CreateTopics; each of these topics alone would be small enough."""
    topics = [topic_state(name, [(1,)]) for name in "abc"]
    growths = [Growth(topic_id=t.topic_id, count=10_000) for t in topics]
    decision = create_partitions(
        image_with(3, topics=topics), DEFAULT_INSTANCE, growths, lambda _: 0
    )
    assert decision.delta is None
    assert {r.code for r in decision.result if r is not None} == {ErrorCode.POLICY_VIOLATION}
    assert None not in decision.result


def test_refusals() -> None:
    topic_id = TOPIC.topic_id
    assert grow(Growth(topic_id=topic_id, count=2)) == ErrorCode.INVALID_PARTITIONS
    assert grow(Growth(topic_id=topic_id, count=1)) == ErrorCode.INVALID_PARTITIONS
    assert grow(Growth(topic_id=topic_id, count=10_001)) == ErrorCode.INVALID_PARTITIONS
    assert grow(Growth(topic_id=TopicId(bytes(16)), count=9)) == ErrorCode.UNKNOWN_TOPIC_ID
    for assignments in [((2, (1,)),), ((3, (1, 2)),), ((2, (1, 2)), (3, (1, 2)))]:
        code = grow(Growth(topic_id=topic_id, count=3, assignments=assignments))
        assert code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    one_node = image_with(1, topics=[TOPIC])
    assert grow(Growth(topic_id=topic_id, count=3), one_node) == (
        ErrorCode.INVALID_REPLICATION_FACTOR
    )


def test_deletion() -> None:
    unknown = TopicId(bytes(16))
    decision = delete_topics(IMAGE, DEFAULT_INSTANCE, [unknown, TOPIC.topic_id])
    assert [r.code if r else 0 for r in decision.result] == [ErrorCode.UNKNOWN_TOPIC_ID, 0]
    assert decision.delta is not None
    assert decision.delta.removed_topics == {TOPIC.topic_id}


def test_another_instances_topic_is_unknown() -> None:
    decision = delete_topics(IMAGE, InstanceId("other"), [TOPIC.topic_id])
    assert decision.delta is None
    assert decision.result[0] is not None
    assert decision.result[0].code == ErrorCode.UNKNOWN_TOPIC_ID
