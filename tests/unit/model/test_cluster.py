"""Deltas on images: changed parts are new objects, all others stay the same objects."""

from __future__ import annotations

from dataclasses import replace

from highwater.model.cluster import (
    ClusterDelta,
    GatewayListener,
    GatewayState,
    PartitionState,
    TopicState,
    freeing_topics,
    replaced_topics,
    with_partitions,
)
from highwater.model.ids import GatewayId, LeaderEpoch, NodeId
from highwater.model.listener_names import DEFAULT_LISTENER
from tests.support.controller_images import image_of, topic_state

A, B = topic_state("a", [(1, 2), (2, 1), (1,)]), topic_state("b", [(1,)])


def led_by_2(state: PartitionState) -> PartitionState:
    return replace(state, leader=NodeId(2), leader_epoch=LeaderEpoch(state.leader_epoch + 1))


def test_changed_partitions_and_nothing_else() -> None:
    image = image_of(topics=[A, B])
    changed = led_by_2(A.partitions[0])
    after = image.apply(ClusterDelta(revision=101, partitions={A.topic_id: (changed,)}))
    first, second, third = after.topics[A.topic_id].partitions
    assert (first, second, third) == (changed, A.partitions[1], A.partitions[2])
    assert second is A.partitions[1]
    assert after.topics[B.topic_id] is B
    assert after.topic_ids is image.topic_ids
    assert image.topics[A.topic_id] is A, "the former image stays as it is"


def test_whole_topics_and_partitions_of_others_in_one_delta() -> None:
    image = image_of(topics=[A, B])
    grown = topic_state("b", [(1,), (2,)])
    changed = led_by_2(A.partitions[1])
    delta = ClusterDelta(revision=101, topics=(grown,), partitions={A.topic_id: (changed,)})
    after = image.apply(delta)
    assert after.topics[B.topic_id] is grown
    assert after.topics[A.topic_id].partitions[1] is changed


def test_a_topic_with_other_partitions_keeps_everything_else() -> None:
    topic = replace(A, configs={"a": "1"}, internal=True)
    after = with_partitions(topic, [led_by_2(A.partitions[2])])
    assert after == replace(topic, partitions=(*A.partitions[:2], led_by_2(A.partitions[2])))
    # The code copies field by field, so a field added to the class must be added there.
    assert set(TopicState.__slots__) == {
        "configs", "instance", "internal", "name", "partitions", "topic_id",
    }  # fmt: skip


def test_what_a_delta_replaces_is_let_go_a_topic_at_a_time() -> None:
    image = image_of([], [topic_state(name, [(1,), (1,)]) for name in "abcd"])
    a, b, c, d = image.topics.values()
    delta = ClusterDelta(
        revision=image.revision + 1,
        topics=(topic_state("new", [(1,)]), replace(b, configs={"k": "v"})),
        partitions={a.topic_id: (a.partitions[1],)},
        removed_topics=frozenset({c.topic_id}),
    )
    replaced = replaced_topics(image, delta)
    assert sorted(topic.name for topic in replaced) == ["a", "b", "c"]
    assert d not in replaced
    assert [len(replaced) for _ in freeing_topics(replaced)] == [2, 1, 0]
    assert delta.partition_count == 4


def test_a_gateway_has_an_address_for_each_listener() -> None:
    internal = GatewayListener(name="internal", host="in", port=29092)
    gateway = GatewayState(
        gateway_id=GatewayId("g"), host="out", port=9092, single_port=False, listeners=(internal,)
    )
    assert gateway.address_of(NodeId(3), DEFAULT_LISTENER) == ("out", 9095)
    assert gateway.address_of(NodeId(3), "internal") == ("in", 29095)
    assert gateway.address_of(NodeId(3), "no-such") is None
    one_port = replace(gateway, single_port=True)
    assert one_port.address_of(NodeId(3), DEFAULT_LISTENER) == ("out", 9092)
    assert one_port.address_of(NodeId(3), "internal") == ("in", 29092)
