"""Offsets of transactions at a group coordinator that has to ask the transaction coordinator."""

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import InstanceId
from highwater.model.transactions import AwaitedMarker, TransactionMarker
from highwater.partition.coordinator.shard_host import HostSettings
from tests.unit.partition.coordinator.memory_log import MemoryLog
from tests.unit.partition.coordinator.waiting import until
from tests.unit.partition.groups.handlers.test_txn_offset_commit import message
from tests.unit.partition.groups.node import Node

ABORT = TransactionMarker(
    producer_id=7, producer_epoch=2, committed=False, coordinator_epoch=9, transaction_version=0
)


async def leader(**spec):
    node = await Node(MemoryLog(**spec)).lead()
    node.verifier.answers = False
    return node


async def codes(sent):
    await until(lambda: sent.done)
    return [p.error_code for p in sent.response.topics[0].partitions]


@pytest.mark.parametrize(("version", "adds"), [(3, False), (4, False), (5, True)])
async def test_the_coordinator_is_asked_first(version, adds):
    node = await leader()
    sent = node.submit(message(), version)
    ((writer, done),) = node.verifier.asked
    assert (writer.transactional_id, writer.producer_id, writer.producer_epoch) == ("x", 7, 2)
    assert (writer.topic, writer.partition) == ("__consumer_offsets", 0)
    assert writer.adds_partition is adds
    assert not sent.done
    done(0)
    assert await codes(sent) == [0, 0]


async def test_the_coordinator_of_the_callers_instance_is_asked():
    node = await Node(of_default_instance=False).lead()
    team = InstanceId("team")
    assert await codes(node.submit(message(), 5, instance=team)) == [0, 0]
    ((writer, _),) = node.verifier.asked
    assert (writer.instance, writer.topic) == (team, "__consumer_offsets")


async def test_an_open_transaction_needs_no_question():
    node = await leader()
    node.log.open.add((7, 2))
    assert await codes(node.submit(message(), 3)) == [0, 0]
    assert node.verifier.asked == []


@pytest.mark.parametrize(
    ("version", "code", "told"),
    [
        (3, ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (3, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (5, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (3, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (3, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE),
        (4, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
    ],
)
async def test_refusals(version, code, told):
    node = await leader()
    sent = node.submit(message(), version)
    node.verifier.asked[0][1](code)
    assert await codes(sent) == [told, told]
    assert node.log.batches == {}


async def test_a_marker_before_the_answer():
    node = await leader()
    sent = node.submit(message(), 3)
    told = []
    node.coordinator.write_markers(0, 1, [AwaitedMarker(ABORT, told.append)])
    node.verifier.asked[0][1](0)
    assert await codes(sent) == [ErrorCode.INVALID_TXN_STATE] * 2
    await until(lambda: told == [0])


async def test_while_a_marker_is_on_its_way_the_coordinator_is_asked():
    """The log still knows the transaction as open."""
    node = await leader(hold=True)
    node.log.open.add((7, 2))
    told = []
    node.coordinator.write_markers(0, 1, [AwaitedMarker(ABORT, told.append)])
    node.submit(message(), 3)
    assert len(node.verifier.asked) == 1
    node.log.commit()
    assert told == [0]
    node.submit(message(), 3)
    assert len(node.verifier.asked) == 1


async def test_a_marker_that_is_too_late_for_an_answer_is_still_on_its_way():
    """Offsets that came behind it would begin a transaction that nobody ends, or be refused by the log
    when it is their turn."""
    log = MemoryLog(hold=True)
    node = await Node(log, settings=HostSettings(commit_timeout_ms=20)).lead()
    node.verifier.answers = False
    node.log.open.add((7, 2))
    told = []
    node.coordinator.write_markers(0, 1, [AwaitedMarker(ABORT, told.append)])
    await until(lambda: told == [ErrorCode.COORDINATOR_NOT_AVAILABLE])
    node.submit(message(), 3)
    assert len(node.verifier.asked) == 1
    node.log.commit()
    node.submit(message(), 3)
    assert len(node.verifier.asked) == 1
    assert told == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


async def test_a_marker_that_the_log_refuses_is_not_on_its_way():
    node = await leader(in_call=True)
    node.log.open.add((7, 2))
    node.log.fail_with = ErrorCode.NOT_LEADER_OR_FOLLOWER
    told = []
    node.coordinator.write_markers(0, 1, [AwaitedMarker(ABORT, told.append)])
    assert told == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert not node.coordinator._verification._ending


async def test_a_client_that_is_gone():
    node = await leader()
    sent = node.submit(message(), 3)
    node.coordinator.cancel(sent.call)
    node.verifier.asked[0][1](0)
    assert node.log.batches == {}
    assert sent.answers == []


async def test_the_group_moves_while_the_coordinator_is_asked():
    node = await leader()
    sent = node.submit(message(), 3)
    node.coordinator.resign(0)
    node.verifier.asked[0][1](0)
    await until(lambda: sent.done)
    assert node.log.batches == {}


async def test_a_call_that_does_not_decode():
    node = await leader()
    sent = node.submit(message(), 3, body=b"\xff")
    await until(lambda: sent.done)
    assert sent.code == ErrorCode.INVALID_REQUEST
    assert node.verifier.asked == []
