"""The coordinator as gateways see it: bytes in, bytes out, markers after the commit."""

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.describe_transactions import DescribeTransactionsRequest
from highwater.kafka.messages.heartbeat import HeartbeatRequest
from highwater.kafka.messages.list_transactions import ListTransactionsRequest
from highwater.model.ids import InstanceId
from highwater.model.partitioning import coordinator_partition
from highwater.partition.transactions.core.config import TransactionConfig
from highwater.partition.transactions.core.image import TopicPartition
from highwater.partition.transactions.core.state import TransactionState
from highwater.partition.transactions.core.values import ProducerIdAndEpoch
from highwater.partition.transactions.partition_verifier import Question
from tests.unit.partition.coordinator.memory_log import ManualClock, MemoryLog, MemorySnapshots
from tests.unit.partition.coordinator.waiting import until
from tests.unit.partition.transactions.core.dialogue import key
from tests.unit.partition.transactions.node import GROUP_PARTITION, Node
from tests.unit.partition.transactions.requests import (
    add,
    batch,
    batch_codes,
    codes,
    end,
    init,
    offsets,
    one,
    producer_of,
)

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


async def state_of(node, name="tx"):
    described = await node.ask(DescribeTransactionsRequest(transactional_ids=[name]), 0)
    return described.transaction_states[0].transaction_state


async def is_in(node, state, name="tx"):
    await until(lambda: node.coordinator.stats().transactions[TransactionState(state)] > 0)
    assert await state_of(node, name) == state


async def test_the_life_of_a_producer_of_version_2():
    node = await Node().lead(epoch=7)
    me = producer_of(await node.ask(init(), 5))
    assert me == (1000, 0)
    assert batch_codes(await node.ask(batch(one(me, 0, 2)), 5)) == {"tx": {0: 0, 2: 0}}
    assert (await node.ask(offsets(me), 4)).error_code == 0
    ended = await node.ask(end(me), 5)
    assert (ended.error_code, producer_of(ended)) == (0, (1000, 1))
    await is_in(node, "CompleteCommit")
    assert {name for name, _ in node.markers.written} == {T0, T2, GROUP_PARTITION}
    (marker,) = {marker for _, marker in node.markers.written}
    assert (marker.producer_id, marker.producer_epoch, marker.committed) == (1000, 1, True)
    assert (marker.coordinator_epoch, marker.transaction_version) == (7, 2)
    # One request for each node.
    assert sorted(leader for leader, _ in node.markers.requests) == [1, 2]
    await node.coordinator.stop()


async def test_the_life_of_a_producer_of_version_1():
    node = await Node().lead()
    me = producer_of(await node.ask(init(), 4))
    assert codes(await node.ask(add(me, 0, 1), 3)) == {0: 0, 1: 0}
    assert (await node.ask(end(me, commit=False), 4)).error_code == 0
    await is_in(node, "CompleteAbort")
    (marker,) = {marker for _, marker in node.markers.written}
    assert (marker.producer_epoch, marker.committed, marker.transaction_version) == (0, False, 0)
    assert codes(await node.ask(add(me, 0), 3)) == {0: 0}


async def test_markers_wait_for_the_commit_of_the_decision_and_the_answer_does_not_wait_for_them():
    node = await Node().lead()
    me = producer_of(await node.ask(init(), 5))
    await node.ask(batch(one(me, 0)), 5)
    node.log.hold = node.markers.hold = True
    ended = node.submit(end(me), 5)
    await until(lambda: node.log.held)
    assert (ended.done, node.markers.requests) == (False, [])
    node.log.hold = False
    node.log.commit()
    assert ended.response.error_code == 0
    await until(lambda: node.markers.sent)
    assert await state_of(node) == "PrepareCommit"
    assert producer_of(await node.ask(end(me), 5)) == (-1, -1)
    node.markers.answer()
    await is_in(node, "CompleteCommit")


async def test_a_decision_that_the_log_refuses_has_no_marker():
    node = await Node().lead()
    me = producer_of(await node.ask(init(), 5))
    await node.ask(batch(one(me, 0)), 5)
    node.log.hold = True
    ended = node.submit(end(me), 5)
    await until(lambda: node.log.held)
    node.log.hold = False
    node.log.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert ended.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    await until(node.is_active)
    assert node.markers.requests == []
    assert await state_of(node) == "Ongoing"
    assert producer_of(await node.ask(end(me), 5)) == (1000, 1)


async def test_another_node_completes_what_was_prepared_in_its_own_epoch():
    node = await Node().lead(epoch=3)
    me = producer_of(await node.ask(init(), 5))
    await node.ask(batch(one(me, 0, 2)), 5)
    node.markers.hold = True
    await node.ask(end(me), 5)
    await until(lambda: len(node.markers.sent) == 2)
    node.coordinator.resign(0)
    heir = await Node(node.log).lead(epoch=4)
    await is_in(heir, "CompleteCommit")
    assert {(name, marker.coordinator_epoch) for name, marker in heir.markers.written} == {
        (T0, 4),
        (T2, 4),
    }
    # The former coordinator's requests are answered, and lead to nothing.
    appends = len(node.log.appends)
    node.markers.answer()
    await until(lambda: node.coordinator.sender.transactions == 0)
    assert len(node.log.appends) == appends


async def test_what_was_loaded_is_told_only_when_it_is_committed():
    node = await Node().lead(epoch=3)
    me = producer_of(await node.ask(init(), 5))
    await node.ask(batch(one(me, 0)), 5)
    node.log.hold = True
    node.submit(end(me), 5)
    await until(lambda: node.log.held)
    node.coordinator.resign(0)
    heir = await Node(node.log).lead(epoch=4)
    assert heir.coordinator.stats().transactions[TransactionState.PREPARE_COMMIT] == 1
    assert (heir.markers.requests, heir.coordinator.sender.transactions) == ([], 0)
    node.log.hold = False
    node.log.commit()
    await is_in(heir, "CompleteCommit")


async def test_markers_are_sent_again_until_the_partition_takes_them():
    node = await Node().lead()
    me = producer_of(await node.ask(init(), 5))
    await node.ask(batch(one(me, 0, 1)), 5)
    node.markers.codes[T1] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    await node.ask(end(me), 5)
    await until(lambda: len(node.markers.requests) > 1)
    described = await node.ask(DescribeTransactionsRequest(transactional_ids=["tx"]), 0)
    (topic,) = described.transaction_states[0].topics
    assert (topic.topic, list(topic.partitions)) == ("t", [1])
    node.markers.codes.clear()
    node.markers.leaders[T1] = 2
    node.coordinator.image_changed()
    await is_in(node, "CompleteCommit")
    assert [name for name, _ in node.markers.written] == [T0, T1]


async def test_the_completion_waits_for_a_log_that_takes_appends():
    node = await Node().lead()
    me = producer_of(await node.ask(init(), 5))
    await node.ask(batch(one(me, 0)), 5)
    node.markers.hold = True
    await node.ask(end(me), 5)
    await until(lambda: node.markers.sent)
    node.log.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    node.markers.answer()
    assert await state_of(node) == "PrepareCommit"
    node.log.refuse_with = 0
    await is_in(node, "CompleteCommit")


async def test_a_transaction_that_takes_too_long_is_aborted():
    clock = ManualClock()
    config = TransactionConfig(abort_check_ms=5)
    node = await Node(clock=clock, config=config).lead()
    me = producer_of(await node.ask(init(timeout_ms=1_000), 5))
    await node.ask(batch(one(me, 0)), 5)
    clock.ms += 2_000
    node.coordinator._hosts.by_partition[0]._wake()
    await is_in(node, "CompleteAbort")
    ((name, marker),) = node.markers.written
    assert (name, marker.producer_epoch, marker.committed) == (T0, 1, False)


async def test_each_transactional_id_has_its_own_shard():
    node = await Node(partitions=8).lead(*range(8))
    names = [f"tx{number}" for number in range(5)]
    producers = {}
    for name in names:
        number = coordinator_partition(name, 8)
        producers[name] = producer_of(await node.ask(init(name), 5, partition=number))
    asked = batch(*(one(producers[name], 0, name=name) for name in names))
    told = batch_codes(await node.ask(asked, 5, partition=-1))
    assert told == {name: {0: 0} for name in names}
    described = await node.ask(
        DescribeTransactionsRequest(transactional_ids=names), 0, partition=-1
    )
    assert {each.transaction_state for each in described.transaction_states} == {"Ongoing"}
    listed = await node.ask(ListTransactionsRequest(), 2, partition=-1)
    assert {each.transactional_id for each in listed.transaction_states} == set(names)
    node.coordinator.resign(coordinator_partition("tx0", 8))
    asked = batch(*(one(producers[name], 0, name=name, verify_only=True) for name in names))
    told = batch_codes(await node.ask(asked, 5, partition=-1))
    assert told["tx0"] == {0: ErrorCode.NOT_COORDINATOR}


async def test_calls_that_no_shard_can_take():
    node = await Node().lead()
    assert node.submit(init(), 5, partition=1).code == ErrorCode.NOT_COORDINATOR
    other = node.submit(init(), 5, instance=InstanceId("team"))
    assert other.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert node.submit(init(), 5, body=b"\x00").code == ErrorCode.INVALID_REQUEST
    assert node.submit(HeartbeatRequest(), 4).code == ErrorCode.INVALID_REQUEST


async def test_while_a_shard_is_loaded_clients_wait():
    snapshots = MemorySnapshots()
    snapshots.open.clear()
    node = Node(snapshots=snapshots)
    node.coordinator.become_leader(0, 1)
    assert node.submit(init(), 5).code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    listed = await node.ask(ListTransactionsRequest(), 0)
    assert listed.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    snapshots.open.set()
    await until(node.is_active)


async def test_a_snapshot_and_the_log_behind_it_lead_to_the_same_state():
    log, snapshots = MemoryLog(), MemorySnapshots()
    node = await Node(log, snapshots).lead()
    me = producer_of(await node.ask(init(), 5))
    await node.ask(batch(one(me, 0)), 5)
    await node.coordinator.stop()
    assert snapshots.saves == 1
    heir = await Node(log, snapshots, ids=node.ids).lead(epoch=2)
    assert await state_of(heir) == "Ongoing"
    assert producer_of(await heir.ask(end(me), 5)) == (1000, 1)


async def test_a_cancelled_call_gets_no_answer():
    node = await Node(MemoryLog(hold=True)).lead()
    sent = node.submit(init(), 5)
    node.coordinator.cancel(sent.call)
    await until(lambda: node.log.held)
    node.log.commit()
    assert not sent.done


async def test_counts():
    node = await Node().lead()
    me = producer_of(await node.ask(init(), 5))
    await node.ask(init("other"), 5)
    await node.ask(batch(one(me, 0, 1)), 5)
    node.markers.codes[T1] = ErrorCode.REQUEST_TIMED_OUT
    await node.ask(end(me), 5)
    await until(lambda: node.coordinator.stats().marker_failures > 0)
    stats = node.coordinator.stats()
    assert (stats.markers_waiting, stats.markers_written) == (1, 1)
    assert (stats.shards_active, stats.shards_loading) == (1, 0)
    assert stats.transactions[TransactionState.EMPTY] == 1
    assert stats.transactions[TransactionState.PREPARE_COMMIT] == 1


@pytest.mark.parametrize("version", range(6))
async def test_producers_of_all_versions_begin(version):
    node = await Node().lead()
    assert producer_of(await node.ask(init(), version)) == (1000, 0)
    assert producer_of(await node.ask(init(), version)) == (1000, 1)


async def test_this_nodes_partitions_ask_without_a_request():
    node = await Node().lead()
    producer = ProducerIdAndEpoch(*producer_of(await node.ask(init(), 5)))

    async def ask(*partitions, adds):
        told: list = []
        question = Question(key(), producer, frozenset(partitions), adds)
        node.coordinator.ask(question, lambda *answer: told.append(answer))
        await until(lambda: bool(told))
        return told.pop()

    unknown = TopicPartition("t", 9)
    assert await ask(T0, T2, adds=True) == (0, {T0: 0, T2: 0})
    assert await ask(T0, unknown, adds=True) == (
        0,
        {T0: ErrorCode.OPERATION_NOT_ATTEMPTED, unknown: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
    )
    assert await ask(T0, T1, adds=False) == (0, {T0: 0, T1: ErrorCode.TRANSACTION_ABORTABLE})
    node.coordinator.resign(0)
    assert await ask(T0, adds=True) == (ErrorCode.NOT_COORDINATOR, None)


async def test_a_completed_transaction_is_written_with_the_next_one():
    node = await Node().lead()
    me = producer_of(await node.ask(init(), 5))
    await node.ask(batch(one(me, 0)), 5)
    me = producer_of(await node.ask(end(me), 5))
    complete = TransactionState.COMPLETE_COMMIT
    await until(lambda: node.coordinator.stats().transactions[complete] > 0)
    before = len(node.log.appends)
    await node.ask(batch(one(me, 0)), 5)
    assert [records for _, _, records in node.log.appends[before:]] == [2]
