"""Calls, leaders and images reach the coordinator that they are about."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest

from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.model.coordinator_topics import INSTANCE_GROUP_METADATA_TOPIC, coordinator_place
from highwater.model.ids import (
    DEFAULT_INSTANCE,
    GROUP_METADATA_TOPIC,
    SYSTEM_INSTANCE,
    TRANSACTION_STATE_TOPIC,
    InstanceId,
)
from highwater.model.instances import InstanceState
from highwater.model.partitioning import coordinator_partition
from highwater.partition.config import PartitionConfig
from highwater.partition.node.coordinators import NodeCoordinators
from highwater.partition.transactions.core.image import TopicPartition
from highwater.runtime.clock import SystemClock
from highwater.runtime.logging import silent_logger
from highwater.runtime.tasks import TaskOwner
from tests.support.controller_images import image_of, node_state, topic_state
from tests.unit.gateway.handlers.fakes import FakeBackend

TEAM = InstanceId("team")


@pytest.fixture
async def node():
    tasks = TaskOwner(lambda name, error: None)
    made = NodeCoordinators(
        PartitionConfig(),
        plane=SimpleNamespace(replicas={}, marker_targets={}),
        node_id=lambda: 1,
        find_target=lambda _topic_id, _partition: None,
        channels=None,
        allocator=FakeBackend().controller,
        tasks=tasks,
        clock=SystemClock(),
        log=silent_logger(),
    )
    yield made
    await made.stop()
    await tasks.close(timeout_s=5)


def call_of(api_key, reply=lambda _error, _body: None, instance=DEFAULT_INSTANCE):
    return CoordinatorCall(
        api_key=api_key,
        api_version=0,
        instance=instance,
        client_id="",
        client_host="",
        body=b"",
        partition=0,
        deadline_ms=0,
        reply=reply,
    )


@pytest.mark.parametrize("instance", [DEFAULT_INSTANCE, TEAM, InstanceId("other")])
async def test_calls_go_to_the_coordinators_of_their_instance(node, instance, monkeypatch):
    told = []
    for name, pair in (("default", node.pairs[0]), ("others", node.pairs[1])):
        for what in ("submit", "cancel"):
            for kind in (pair.groups, pair.transactions):
                note = partial(lambda name, what, _call: told.append((name, what)), name, what)
                monkeypatch.setattr(kind, what, note)
    whose = "default" if instance == DEFAULT_INSTANCE else "others"
    for api_key in (ApiKey.END_TXN, ApiKey.OFFSET_COMMIT):
        call = call_of(api_key, instance=instance)
        node.submit(call)
        node.cancel(call)
    assert told == [(whose, "submit"), (whose, "cancel")] * 2


@pytest.mark.parametrize("instance", [DEFAULT_INSTANCE, TEAM])
async def test_all_coordinators_answer(node, instance):
    answers = []
    for api_key in (ApiKey.END_TXN, ApiKey.OFFSET_COMMIT):
        node.submit(call_of(api_key, lambda error, _body: answers.append(error), instance))
    assert answers == [ErrorCode.NOT_COORDINATOR] * 2


async def test_coordinators_take_no_calls_of_each_others_instances(node):
    answers = []
    for pair, instance in zip(node.pairs, (TEAM, DEFAULT_INSTANCE), strict=True):
        for api_key in (ApiKey.END_TXN, ApiKey.OFFSET_COMMIT):
            pair.submit(call_of(api_key, lambda error, _body: answers.append(error), instance))
    assert answers == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 4


async def test_partitions_of_ids(node):
    assert node.of_group(DEFAULT_INSTANCE, "g") == (
        "__consumer_offsets",
        coordinator_partition("g", 50),
    )
    assert node.of_transaction(DEFAULT_INSTANCE, "tx") == coordinator_partition("tx", 50)
    assert node.of_transaction(TEAM, "tx") == coordinator_place(TEAM, "tx", 50)
    topic = replace(topic_state(TRANSACTION_STATE_TOPIC, [(1,)] * 7), internal=True)
    node.before_image(image_of([node_state(1)], [topic]))
    assert node.of_transaction(DEFAULT_INSTANCE, "tx") == coordinator_partition("tx", 7)
    assert node.of_transaction(TEAM, "tx") == coordinator_place(TEAM, "tx", 50)


async def test_a_group_belongs_to_a_partition_that_the_topic_has(node):
    """Also at a node that leads none of them: it sends markers there."""
    topic = replace(topic_state(GROUP_METADATA_TOPIC, [(2,)] * 7), internal=True)
    shared = replace(
        topic_state(INSTANCE_GROUP_METADATA_TOPIC, [(2,)] * 11),
        instance=SYSTEM_INSTANCE,
        internal=True,
    )
    node.before_image(image_of([node_state(1), node_state(2)], [topic, shared]))
    assert node.of_group(DEFAULT_INSTANCE, "g") == (
        "__consumer_offsets",
        coordinator_partition("g", 7),
    )
    assert coordinator_partition("g", 7) != coordinator_partition("g", 50)
    assert node.of_group(TEAM, "g") == ("__consumer_offsets", coordinator_place(TEAM, "g", 11))


async def test_an_image_tells_which_partitions_exist(node):
    find = partial(node._markers.find, DEFAULT_INSTANCE)
    assert find(TopicPartition("t", 0)).node == -1
    node.before_image(image_of([node_state(1)], [topic_state("t", [(1,)])]))
    node.after_image()
    assert find(TopicPartition("t", 0)).node == 1
    assert find(TopicPartition("t", 1)) is None


async def test_both_shared_coordinators_follow_the_instances_of_images(node):
    image = replace(image_of([node_state(1)], []), instances={TEAM: InstanceState(instance=TEAM)})
    default, others = node.pairs
    node.before_image(image)
    for each in (others.groups, others.transactions):
        assert each.purge.admits(TEAM), "there was no image before"
    node.after_image()
    gone = InstanceId("gone")
    for each in (others.groups, others.transactions):
        assert each.purge.admits(TEAM)
        assert not each.purge.admits(gone)
    node.before_image(image, frozenset({TEAM}))
    for each in (others.groups, others.transactions):
        assert not each.purge.admits(TEAM), "another one, of which the roles are not taken"
    node.after_image()
    for each in (others.groups, others.transactions):
        assert each.purge.admits(TEAM)
    for each in (default.groups, default.transactions):
        assert each.purge.admits(gone), "not told of instances"
