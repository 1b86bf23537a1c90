import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTxnOffsetCommitRequestTopic,
)
from highwater.partition.groups.handlers import txn_offset_commit
from tests.unit.partition.groups.dialogue import key
from tests.unit.partition.groups.handlers.exchange import Exchange


def message(**more):
    partitions = [
        TxnOffsetCommitRequestTxnOffsetCommitRequestPartition(
            partition_index=index, committed_offset=10 + index, committed_metadata="note"
        )
        for index in (0, 1)
    ]
    topic = TxnOffsetCommitRequestTxnOffsetCommitRequestTopic(name="t", partitions=partitions)
    return TxnOffsetCommitRequest(
        transactional_id="x", group_id="g", producer_id=7, producer_epoch=2, topics=[topic], **more
    )


def codes(x, body, version):
    answer = x.decode(body, version)
    return [[(p.partition_index, p.error_code) for p in t.partitions] for t in answer.topics]


@pytest.mark.parametrize("version", range(6))
def test_every_version(version):
    x = Exchange(28)
    call = x.call(message(), version)
    body = txn_offset_commit.decode(call)
    answer = txn_offset_commit.handle(x.d.shard, call, body, x.d.moment)
    assert codes(x, answer, version) == [[(0, 0), (1, 0)]]
    assert x.d.shard.is_unstable(key("g"), "t", 1)
    assert x.d.committed("t", 1) is None
    refused = txn_offset_commit.refuse(body, version, ErrorCode.INVALID_PRODUCER_EPOCH)
    assert codes(x, refused, version) == [[(0, 47), (1, 47)]]


@pytest.mark.parametrize(("version", "error"), [(3, 22), (5, 22)])
def test_a_generation_is_judged_where_it_is_sent(version, error):
    x = Exchange(28)
    call = x.call(message(generation_id=4, member_id="m"), version)
    answer = txn_offset_commit.handle(x.d.shard, call, txn_offset_commit.decode(call), x.d.moment)
    assert codes(x, answer, version) == [[(0, error), (1, error)]]
