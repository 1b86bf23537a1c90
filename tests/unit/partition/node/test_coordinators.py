"""Calls, leaders and images reach the coordinator that they are about."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.registry import request_codec
from highwater.model.ids import DEFAULT_INSTANCE, GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from highwater.model.partitioning import coordinator_partition
from highwater.partition.config import PartitionConfig
from highwater.partition.node.coordinators import NodeCoordinators
from highwater.partition.transactions.core.image import TopicPartition
from highwater.runtime.clock import SystemClock
from highwater.runtime.logging import silent_logger
from highwater.runtime.tasks import TaskOwner
from tests.support.controller_images import image_of, node_state, topic_state
from tests.unit.gateway.handlers.fakes import FakeBackend

TRANSACTIONS = {22, 24, 25, 26, 65, 66}


class Recorder:
    """In place of a coordinator."""

    def __init__(self):
        self.told = []

    def submit(self, call):
        self.told.append(("submit", call.api_key))

    def cancel(self, call):
        self.told.append(("cancel", call.api_key))


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


def call_of(api_key, reply=lambda _error, _body: None):
    return CoordinatorCall(
        api_key=api_key,
        api_version=0,
        instance=DEFAULT_INSTANCE,
        client_id="",
        client_host="",
        body=b"",
        partition=0,
        deadline_ms=0,
        reply=reply,
    )


async def test_calls_are_split_by_their_apis(node):
    node.groups, node.transactions, kept = Recorder(), Recorder(), (node.groups, node.transactions)
    for api_key in ApiKey:
        node.submit(call_of(api_key))
        node.cancel(call_of(api_key))
    told = {key for what, key in node.transactions.told if what == "submit"}
    assert told == {key for what, key in node.transactions.told if what == "cancel"} == TRANSACTIONS
    assert {key for _, key in node.groups.told} == {int(key) for key in ApiKey} - TRANSACTIONS
    node.groups, node.transactions = kept


async def test_both_coordinators_answer(node):
    answers = []
    for api_key in (ApiKey.END_TXN, ApiKey.OFFSET_COMMIT):
        node.submit(call_of(api_key, lambda error, _body: answers.append(error)))
    assert answers == [ErrorCode.NOT_COORDINATOR] * 2


async def test_partitions_of_ids(node):
    assert node.of_group("g") == ("__consumer_offsets", coordinator_partition("g", 50))
    assert node.of_transaction("tx") == coordinator_partition("tx", 50)
    topic = replace(topic_state(TRANSACTION_STATE_TOPIC, [(1,)] * 7), internal=True)
    node.roles.became_leader(topic, 0, 1)
    assert node.of_transaction("tx") == coordinator_partition("tx", 7)
    node.roles.resigned(topic, 0)


async def test_a_group_belongs_to_a_partition_that_the_topic_has(node):
    """Also at a node that leads none of them: it sends markers there."""
    topic = replace(topic_state(GROUP_METADATA_TOPIC, [(2,)] * 7), internal=True)
    node.before_image(image_of([node_state(1), node_state(2)], [topic]))
    assert node.of_group("g") == ("__consumer_offsets", coordinator_partition("g", 7))
    assert coordinator_partition("g", 7) != coordinator_partition("g", 50)


async def test_an_image_tells_which_partitions_exist(node):
    find = node._markers.find
    assert find(TopicPartition("t", 0)).node == -1
    node.before_image(image_of([node_state(1)], [topic_state("t", [(1,)])]))
    node.after_image()
    assert find(TopicPartition("t", 0)).node == 1
    assert find(TopicPartition("t", 1)) is None


def test_every_api_of_transactions_has_a_codec():
    assert all(request_codec(api_key) is not None for api_key in TRANSACTIONS)
