import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestOffsetCommitRequestPartition,
    OffsetCommitRequestOffsetCommitRequestTopic,
)
from highwater.partition.groups.handlers import offset_commit
from tests.unit.partition.groups.dialogue import WALL_MS, key
from tests.unit.partition.groups.handlers.exchange import Exchange


def topic(name, *partitions):
    return OffsetCommitRequestOffsetCommitRequestTopic(name=name, partitions=list(partitions))


def partition(index, offset, metadata=None, epoch=-1):
    return OffsetCommitRequestOffsetCommitRequestPartition(
        partition_index=index,
        committed_offset=offset,
        committed_metadata=metadata,
        committed_leader_epoch=epoch,
    )


@pytest.mark.parametrize("version", range(2, 10))
def test_every_version(version):
    x = Exchange(8)
    message = OffsetCommitRequest(
        group_id="g",
        retention_time_ms=5_000 if version <= 4 else -1,
        topics=[
            topic("t", partition(0, 10), partition(1, 11, "x" * 4_097)),
            topic("u", partition(5, 12, "note", epoch=3)),
        ],
    )
    body = offset_commit.handle(x.d.shard, x.call(message, version), x.d.moment)
    answer = x.decode(body, version)
    assert [
        (t.name, [(p.partition_index, p.error_code) for p in t.partitions]) for t in answer.topics
    ] == [("t", [(0, 0), (1, ErrorCode.OFFSET_METADATA_TOO_LARGE)]), ("u", [(5, 0)])]
    expire_ms = WALL_MS + 5_000 if version <= 4 else -1
    shard = x.d.shard
    assert shard.committed_offset(key("g"), "t", 0) == (10, -1, "", WALL_MS, expire_ms)
    epoch = 3 if version >= 6 else -1
    assert shard.committed_offset(key("g"), "u", 5) == (12, epoch, "note", WALL_MS, expire_ms)


@pytest.mark.parametrize("version", [2, 8, 9])
def test_a_member_of_a_group_that_does_not_exist(version):
    x = Exchange(8)
    message = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=1,
        member_id="m",
        topics=[topic("t", partition(0, 1))],
    )
    body = offset_commit.handle(x.d.shard, x.call(message, version), x.d.moment)
    [answer] = x.decode(body, version).topics
    old = ErrorCode.ILLEGAL_GENERATION
    assert answer.partitions[0].error_code == (old if version < 9 else ErrorCode.GROUP_ID_NOT_FOUND)


@pytest.mark.parametrize("version", [7, 8, 9])
def test_the_groups_error_is_returned_for_each_partition(version):
    x = Exchange(8)
    x.d.stable_pair()
    message = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=1,
        member_id="m",
        group_instance_id="s",
        topics=[topic("t", partition(0, 1), partition(1, 1))],
    )
    body = offset_commit.handle(x.d.shard, x.call(message, version), x.d.moment)
    errors = [p.error_code for t in x.decode(body, version).topics for p in t.partitions]
    assert errors == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
