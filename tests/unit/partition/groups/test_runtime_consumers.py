"""Consumer groups of a node: what they take from the cluster's image."""

import asyncio
from dataclasses import replace

from highwater.kafka.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from highwater.model.cluster import ClusterImage
from highwater.model.group_config_table import GroupConfigKey
from highwater.model.ids import DEFAULT_INSTANCE
from tests.support.controller_images import topic_state
from tests.unit.partition.groups.node import Node


def image(revision, *topics, **configs):
    return ClusterImage(
        revision=revision,
        cluster_id="c",
        topics={topic.topic_id: topic for topic in topics},
        topic_ids={(topic.instance, topic.name): topic.topic_id for topic in topics},
        group_configs={GroupConfigKey(DEFAULT_INSTANCE, "g"): configs},
    )


def heartbeat(epoch, **fields):
    return ConsumerGroupHeartbeatRequest("g", "m", epoch, **fields)


def join():
    return heartbeat(
        0, rebalance_timeout_ms=1_000, subscribed_topic_names=["t"], topic_partitions=[]
    )


def partitions(answer):
    return [list(topic.partitions) for topic in answer.assignment.topic_partitions]


async def test_topics_and_configs_are_those_of_the_image():
    node = await Node().lead()
    topic = topic_state("t", [(1,)])
    node.coordinator.follow(image(1, topic, **{"consumer.heartbeat.interval.ms": "6000"}))
    joined = await node.ask(join(), 1)
    assert (joined.member_epoch, joined.heartbeat_interval_ms) == (1, 6_000)
    assert partitions(joined) == [[0]]
    grown = replace(topic, partitions=topic_state("t", [(1,), (1,)]).partitions)
    node.coordinator.follow(image(2, grown))
    answer = joined
    while answer.member_epoch == 1:
        await asyncio.sleep(0.001)
        answer = await node.ask(heartbeat(1), 1)
        assert answer.heartbeat_interval_ms == 5_000
    assert partitions(answer) == [[0, 1]]
    await node.coordinator.stop()
