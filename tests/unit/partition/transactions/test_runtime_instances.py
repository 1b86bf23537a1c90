"""The coordinator of all instances but the default one: equal transactional ids in one shard."""

from functools import partial

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.describe_transactions import DescribeTransactionsRequest
from highwater.kafka.messages.list_transactions import ListTransactionsRequest
from highwater.model.coordinator_topics import coordinator_place
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.partition.transactions.core.image import TopicPartition, TransactionKey
from highwater.partition.transactions.core.state import TransactionState
from highwater.partition.transactions.core.values import ProducerIdAndEpoch
from highwater.partition.transactions.partition_verifier import Question
from tests.unit.partition.coordinator.memory_log import MemoryLog, MemorySnapshots
from tests.unit.partition.coordinator.waiting import until
from tests.unit.partition.transactions.node import GROUP_PARTITION, Node
from tests.unit.partition.transactions.requests import (
    batch,
    batch_codes,
    end,
    init,
    offsets,
    one,
    producer_of,
)

RED, BLUE = InstanceId("red"), InstanceId("blue")
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)

SharedNode = partial(Node, of_default_instance=False)


async def described(node, instance, name="tx"):
    request = DescribeTransactionsRequest(transactional_ids=[name])
    (state,) = (await node.ask(request, 0, instance=instance)).transaction_states
    return state


async def two_open(node):
    """Equal ids, open with other partitions in each instance; returns their producers."""
    red = producer_of(await node.ask(init(), 5, instance=RED))
    blue = producer_of(await node.ask(init(), 5, instance=BLUE))
    await node.ask(batch(one(red, 0)), 5, instance=RED)
    await node.ask(batch(one(blue, 1)), 5, instance=BLUE)
    return red, blue


def is_told(state):
    return (
        state.transaction_state,
        state.producer_id,
        {(topic.topic, *topic.partitions) for topic in state.topics},
    )


async def test_equal_ids_are_apart():
    node = await SharedNode().lead()
    red, blue = await two_open(node)
    assert (red, blue) == ((1000, 0), (1001, 0)), "neither fences the other"
    await node.ask(end(red), 5, instance=RED)
    stats = node.coordinator.stats
    await until(lambda: stats().transactions[TransactionState.COMPLETE_COMMIT] > 0)
    assert [(name, marker.producer_id) for name, marker in node.markers.written] == [(T0, 1000)]
    assert is_told(await described(node, RED)) == ("CompleteCommit", 1000, set())
    assert is_told(await described(node, BLUE)) == ("Ongoing", 1001, {("t", 1)})


async def test_only_the_own_transactions_are_listed_and_known():
    node = await SharedNode().lead()
    await two_open(node)
    await node.ask(init("only-red"), 5, instance=RED)
    for instance, names in ((RED, {"tx", "only-red"}), (BLUE, {"tx"}), (InstanceId("x"), set())):
        listed = await node.ask(ListTransactionsRequest(), 0, instance=instance)
        assert {state.transactional_id for state in listed.transaction_states} == names
    unknown = await described(node, BLUE, "only-red")
    assert unknown.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    taken = await node.ask(batch(one((1000, 0), 0)), 5, instance=BLUE)
    assert batch_codes(taken) == {"tx": {0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}}


async def test_partitions_are_those_of_the_instance():
    node = await SharedNode().lead()
    node.markers.without_topics.add(BLUE)
    blue = producer_of(await node.ask(init(), 5, instance=BLUE))
    refused = await node.ask(batch(one(blue, 0)), 5, instance=BLUE)
    assert batch_codes(refused) == {"tx": {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}}
    added = await node.ask(offsets(blue), 4, instance=BLUE)
    assert added.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    red = producer_of(await node.ask(init(), 5, instance=RED))
    assert batch_codes(await node.ask(batch(one(red, 0)), 5, instance=RED)) == {"tx": {0: 0}}
    assert (await node.ask(offsets(red), 4, instance=RED)).error_code == 0
    state = await described(node, RED)
    assert {(topic.topic, *topic.partitions) for topic in state.topics} == {
        ("t", 0),
        tuple(GROUP_PARTITION),
    }


@pytest.mark.parametrize("stops", [False, True])
async def test_the_next_coordinator_has_both(stops):
    """From the log, or from the snapshot of a clean stop."""
    log, snapshots = MemoryLog(), MemorySnapshots()
    node = await SharedNode(log, snapshots).lead()
    red, blue = await two_open(node)
    if stops:
        await node.coordinator.stop()
    assert snapshots.saves == stops
    heir = await SharedNode(log, snapshots, ids=node.ids).lead(epoch=2)
    assert is_told(await described(heir, RED)) == ("Ongoing", red[0], {("t", 0)})
    assert is_told(await described(heir, BLUE)) == ("Ongoing", blue[0], {("t", 1)})
    await heir.ask(end(blue, commit=False), 5, instance=BLUE)
    stats = heir.coordinator.stats
    await until(lambda: stats().transactions[TransactionState.COMPLETE_ABORT] > 0)
    assert [name for name, _ in heir.markers.written] == [T1]
    assert (await described(heir, RED)).transaction_state == "Ongoing"


async def test_the_shard_depends_on_instance_and_id():
    node = SharedNode(partitions=2)
    await node.lead(0, 1)
    places = {coordinator_place(InstanceId(f"i{n}"), "tx", 2) for n in range(20)}
    assert places == {0, 1}
    for number in range(4):
        instance = InstanceId(f"i{number}")
        place = coordinator_place(instance, "tx", 2)
        await node.ask(init(), 5, instance=instance, partition=place)
        request = DescribeTransactionsRequest(transactional_ids=["tx"])
        answer = await node.ask(request, 0, instance=instance, partition=-1)
        assert answer.transaction_states[0].error_code == 0, "found without its partition"


async def test_this_nodes_partitions_ask_the_shard_of_their_instance():
    node = await SharedNode(partitions=2).lead(0, 1)
    instances = [InstanceId(f"i{number}") for number in range(4)]
    for instance in instances:
        place = coordinator_place(instance, "tx", 2)
        me = producer_of(await node.ask(init(), 5, instance=instance, partition=place))
        told: list = []
        question = Question(
            TransactionKey(instance, "tx"), ProducerIdAndEpoch(*me), frozenset({T0}), True
        )
        node.coordinator.ask(question, lambda *answer, told=told: told.append(answer))
        await until(lambda told=told: bool(told))
        assert told == [(0, {T0: 0})]
    assert {coordinator_place(instance, "tx", 2) for instance in instances} == {0, 1}


async def test_the_default_instance_is_not_served_here():
    node = await SharedNode().lead()
    refused = node.submit(init(), 5, instance=DEFAULT_INSTANCE)
    assert refused.code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def image(node, *instances):
    """The node has taken its roles in an image with these instances."""
    node.coordinator.purge.follow(instances, frozenset())
    node.coordinator.purge.applied()


def whose(node):
    """The instances that have transactional ids here."""
    (shard,) = node.coordinator._hosts.shards()
    return {key.instance for key in shard.images}


@pytest.mark.parametrize("fails_over", [False, True])
async def test_the_ids_of_a_purged_instance_go_with_their_open_transactions(fails_over):
    """The topics are gone, but not the one that has the groups: its transaction is aborted."""
    node = SharedNode()
    image(node, RED, BLUE)
    await node.lead()
    red, _ = await two_open(node)
    assert (await node.ask(offsets(red), 4, instance=RED)).error_code == 0
    if fails_over:
        node = SharedNode(node.log, node.snapshots, ids=node.ids)
        image(node, RED, BLUE)
        await node.lead(epoch=2)
    del node.markers.leaders[T0]
    image(node, BLUE)
    refused = node.submit(init(), 5, instance=RED)
    assert refused.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    await until(lambda: whose(node) == {BLUE})
    ((name, marker),) = node.markers.written
    assert (name, marker.producer_id, marker.committed) == (GROUP_PARTITION, red[0], False)
    assert is_told(await described(node, BLUE)) == ("Ongoing", 1001, {("t", 1)})
    image(node, RED, BLUE)
    assert producer_of(await node.ask(init(), 5, instance=RED)) == (1002, 0)


async def test_ids_that_were_purged_before_the_shard_was_loaded():
    node = SharedNode()
    image(node, RED, BLUE)
    await node.lead()
    await two_open(node)
    heir = SharedNode(node.log, node.snapshots, ids=node.ids)
    image(heir, BLUE)
    await heir.lead(epoch=2)
    await until(lambda: whose(heir) == {BLUE})


async def test_a_question_of_a_purged_instances_partition_is_refused():
    node = SharedNode()
    image(node, RED)
    await node.lead()
    red = producer_of(await node.ask(init(), 5, instance=RED))
    image(node)
    told = []
    question = Question(
        TransactionKey(RED, "tx"), ProducerIdAndEpoch(*red), frozenset({T0}), adds_partitions=True
    )
    node.coordinator.ask(question, lambda *answer: told.append(answer))
    assert told == [(ErrorCode.COORDINATOR_NOT_AVAILABLE, None)]
