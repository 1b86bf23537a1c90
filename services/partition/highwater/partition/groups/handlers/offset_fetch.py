"""OffsetFetch v1-9 (key 9).

* v1 names topics; from v2 on, null topics mean all topics with committed offsets.
* v8 asks for several groups at once, each with its own error. If the coordinator of a group is
  not here, the error makes the client look for it.
* v9's member id and epoch are those of a consumer group (KIP-848): a member that is behind gets
  STALE_MEMBER_EPOCH.
* Without a committed offset: offset -1, epoch -1, empty metadata, no error; also if there is no
  such group.
* v7's require_stable: an offset that an open transaction may change is UNSTABLE_OFFSET_COMMIT, and
  the client asks again (KIP-447).
* The gateway turns v10 (topic ids) into v9.
"""

from collections.abc import Callable, Iterable

from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseOffsetFetchResponseGroup,
    OffsetFetchResponseOffsetFetchResponsePartition,
    OffsetFetchResponseOffsetFetchResponsePartitions,
    OffsetFetchResponseOffsetFetchResponseTopic,
    OffsetFetchResponseOffsetFetchResponseTopics,
    decode_request,
    encode_response,
)
from highwater.partition.groups.core.durable import CommittedOffset
from highwater.partition.groups.core.shard import GroupCoordinatorShard
from highwater.partition.groups.core.values import GroupKey

_GROUPS_FROM = 8
_NOTHING = CommittedOffset(-1, -1, "", -1)

Found = list[tuple[str, list[tuple[int, CommittedOffset, ErrorCode]]]]
"""(topic, [(partition, offset, error)]), in the order of the response."""


def handle(
    shard_of: Callable[[str], GroupCoordinatorShard | ErrorCode], call: CoordinatorCall
) -> bytes | ErrorCode:
    """The committed offsets, or an error code if the one group of v1-7 is not on this node."""
    version = call.api_version
    body = decode_request(call.body, 0, version)
    if version >= _GROUPS_FROM:
        groups = []
        for asked in body.groups:
            shard = shard_of(asked.group_id)
            if isinstance(shard, ErrorCode):
                groups.append(_group_error(asked.group_id, shard))
                continue
            key = GroupKey(call.instance, asked.group_id)
            error = shard.validate_fetch(key, asked.member_id, asked.member_epoch)
            if error is not ErrorCode.NONE:
                groups.append(_group_error(asked.group_id, error))
                continue
            names = (
                None
                if asked.topics is None
                else [(t.name, t.partition_indexes) for t in asked.topics]
            )
            found = _find(shard, key, names, stable=body.require_stable)
            groups.append(_group(asked.group_id, found))
        return encode_response(OffsetFetchResponse(groups=groups), version)
    shard = shard_of(body.group_id)
    if isinstance(shard, ErrorCode):
        return shard
    names = None if body.topics is None else [(t.name, t.partition_indexes) for t in body.topics]
    key = GroupKey(call.instance, body.group_id)
    found = _find(shard, key, names, stable=body.require_stable)
    return encode_response(OffsetFetchResponse(topics=_topics(found)), version)


def _find(
    shard: GroupCoordinatorShard,
    key: GroupKey,
    asked: Iterable[tuple[str, Iterable[int]]] | None,
    *,
    stable: bool,
) -> Found:
    if asked is None:
        committed = shard.committed_by_topic(key)
        asked = [(topic, [p for p, _ in offsets]) for topic, offsets in committed.items()]

    def one(topic: str, partition: int) -> tuple[int, CommittedOffset, ErrorCode]:
        if stable and shard.is_unstable(key, topic, partition):
            return partition, _NOTHING, ErrorCode.UNSTABLE_OFFSET_COMMIT
        value = shard.committed_offset(key, topic, partition)
        return partition, value or _NOTHING, ErrorCode.NONE

    return [(topic, [one(topic, p) for p in partitions]) for topic, partitions in asked]


def _topics(found: Found) -> list[OffsetFetchResponseOffsetFetchResponseTopic]:
    return [
        OffsetFetchResponseOffsetFetchResponseTopic(
            name=topic,
            partitions=[
                OffsetFetchResponseOffsetFetchResponsePartition(
                    partition_index=partition,
                    committed_offset=value.offset,
                    committed_leader_epoch=value.leader_epoch,
                    metadata=value.metadata,
                    error_code=error,
                )
                for partition, value, error in partitions
            ],
        )
        for topic, partitions in found
    ]


def _group(group_id: str, found: Found) -> OffsetFetchResponseOffsetFetchResponseGroup:
    topics = [
        OffsetFetchResponseOffsetFetchResponseTopics(
            name=topic,
            partitions=[
                OffsetFetchResponseOffsetFetchResponsePartitions(
                    partition_index=partition,
                    committed_offset=value.offset,
                    committed_leader_epoch=value.leader_epoch,
                    metadata=value.metadata,
                    error_code=error,
                )
                for partition, value, error in partitions
            ],
        )
        for topic, partitions in found
    ]
    return OffsetFetchResponseOffsetFetchResponseGroup(group_id=group_id, topics=topics)


def _group_error(group_id: str, error: ErrorCode) -> OffsetFetchResponseOffsetFetchResponseGroup:
    return OffsetFetchResponseOffsetFetchResponseGroup(group_id=group_id, error_code=error)
